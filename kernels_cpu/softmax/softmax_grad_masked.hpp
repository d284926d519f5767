// Rows of the backward passes under a mask by vectors: the class that reduce_rows.hpp asks for, for
// elements of all types that are computed in F. Included only by files that are compiled once for
// each instruction set.
//
// Memory: y, dy and the mask are read twice, the second time from a cache if the row fits one; dx
// is written once. What is masked out is not read: it stands in a buffer as 0, so its term is +0,
// and its gradient becomes +0 before it is written. Order: docs/softmax.md.
#pragma once

#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/softmax/softmax_grad_steps.hpp"

namespace twinops {

template <class Isa, class F>
class MaskedGradRows {
 public:
  using Arguments = SoftmaxGradArguments;
  using Steps = GradSteps<Isa, F>;
  using Compute = F;
  using Part = F;
  struct Kept {};

  // source: where dy comes from if not from where it lies; nullptr for none.
  MaskedGradRows(const SoftmaxGradArguments& a, const Steps& steps, const GradSource* source)
      : a_(a), steps_(steps), source_(source) {}

  Kept kept(F*, std::int64_t) const { return {}; }
  Kept cut_kept(F*, F*) const { return {}; }
  std::int64_t kept_size(std::int64_t) const { return 0; }
  Part reduce(std::int64_t row, std::int64_t begin, std::int64_t end, F, Kept&) const {
    const Row at = row_at(row);
    Buffers buffers;
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) {
      const int n = read(at, c, buffers);
      tree.add(steps_.total(buffers.y, buffers.dy, n, false));
    }
    return tree.total();
  }
  void end() const {}
  bool is_out_of_range(const Part&) const { return false; }
  F shift_of(const Part&) const { return F(0); }

  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Part& sum, F,
             Kept&) const {
    const Row at = row_at(row);
    const std::int64_t step = a_.rows.step[Arguments::kDx];
    Buffers buffers;
    for (std::int64_t c = begin; c < end; ++c) {
      const int n = read(at, c, buffers);
      steps_.write(buffers.y, buffers.dy, n, static_cast<F>(a_.scale), sum, buffers.dx, false, 0);
      char* const to = at.dx + c * kFoldChunk * step * steps_.out_bytes;
      keep(steps_.out_bytes, buffers.dx, buffers.counts, n, step == 1 ? to : buffers.dx);
      if (step != 1) scatter_elements<F>(to, n, steps_.out_bytes, step, buffers.dx);
    }
  }

 private:
  struct Row {
    char* dx;
    const char *y, *dy;
    std::int64_t index, mask_at, columns;
  };
  [[gnu::noinline]] Row row_at(std::int64_t row) const {
    const auto offsets = row_offsets(a_.rows.outer, row);
    const auto mask_offsets = row_offsets(a_.mask_outer, row);
    const auto at = [&](const void* data, int k, int bytes) {
      return static_cast<const char*>(data) + offsets.of[k] * bytes;
    };
    return {const_cast<char*>(at(a_.dx, Arguments::kDx, steps_.out_bytes)),
            at(a_.y, Arguments::kY, steps_.in_bytes),
            at(a_.dy, Arguments::kDy, steps_.in_bytes),
            row,
            mask_offsets.of[RowMask::kMask],
            a_.mask.columns(mask_offsets.of, a_.rows.length)};
  }

  // A chunk, with 0 where an element is masked out.
  struct Buffers {
    alignas(64) char y[kFoldChunk * sizeof(F)], dy[kFoldChunk * sizeof(F)],
        dx[kFoldChunk * sizeof(F)];
    std::uint8_t counts[kFoldChunk];  // 1 or 0
  };
  // Returns how many elements it has.
  [[gnu::noinline]] int read(const Row& at, std::int64_t c, Buffers& to) const {
    const std::int64_t first = c * kFoldChunk, left = a_.rows.length - first;
    const int n = static_cast<int>(left < kFoldChunk ? left : kFoldChunk), bytes = steps_.in_bytes;
    const auto dense = [&](const char* row, int k, void* buffer) {
      return dense_elements<F>(row, first, n, bytes, a_.rows.step[k], buffer);
    };
    count(at, first, n, to.counts);
    keep(bytes, dense(at.y, Arguments::kY, to.y), to.counts, n, to.y);
    const void* dy = to.dy;
    if (source_ != nullptr)
      source_->read(*source_, at.index, at.dy, first, n, to.dy);
    else
      dy = dense(at.dy, Arguments::kDy, to.dy);
    keep(bytes, dy, to.counts, n, to.dy);
    return n;
  }
  // A word, for elements of any type.
  template <class Word>
  struct Bits {
    using Type [[gnu::may_alias]] = Word;
  };
  // Copies n elements, with 0 in place of those that do not count; `to` may be `from`.
  [[gnu::noinline]] static void keep(int bytes, const void* from, const std::uint8_t* counts, int n,
                                     void* to) {
    for_width<F>(bytes, [&]<int kBytes>() {
      using Word = WordOf<kBytes>;
      const auto* const bits = static_cast<const typename Bits<Word>::Type*>(from);
      auto* const kept = static_cast<typename Bits<Word>::Type*>(to);
      for (int j = 0; j < n; ++j)
        kept[j] = static_cast<Word>(bits[j] & (Word{0} - Word{counts[j]}));
    });
  }
  // Of a mask of bytes or numbers, which has one of its values where an element is masked out
  // (kIsOut) or where it counts.
  template <bool kIsOut, class Word>
  TWINOPS_INLINE void compare(std::int64_t place, Word value, int n, std::uint8_t* counts) const {
    const auto* const mask = static_cast<const typename Bits<Word>::Type*>(a_.mask.data) + place;
    const std::int64_t step = a_.mask.step;
    if (step == 1)
      for (int j = 0; j < n; ++j) counts[j] = (mask[j] == value) != kIsOut;
    else
      for (int j = 0; j < n; ++j) counts[j] = (mask[j * step] == value) != kIsOut;
  }
  template <class M>
  TWINOPS_INLINE void count_numbers(std::int64_t place, int n, std::uint8_t* counts) const {
    const M out = narrow<M>(-kInfinity<compute_t<M>>);
    compare<true>(place, bit_cast<WordOf<sizeof(M)>>(out), n, counts);
  }
  TWINOPS_INLINE void count(const Row& at, std::int64_t first, int n, std::uint8_t* counts) const {
    const RowMask& mask = a_.mask;
    const std::int64_t place = at.mask_at + first * mask.step;
    if (mask.kind == RowMask::Kind::none)
      for (int j = 0; j < n; ++j) counts[j] = 1;
    else if (mask.kind == RowMask::Kind::excluded)
      compare<false>(place, std::uint8_t{0}, n, counts);
    else if (mask.type == Type::float16)
      count_numbers<float16>(place, n, counts);
    else if (mask.type == Type::bfloat16)
      count_numbers<bfloat16>(place, n, counts);
    else if (mask.type == Type::float32)
      count_numbers<float>(place, n, counts);
    else
      count_numbers<double>(place, n, counts);
    const std::int64_t used = at.columns - first;
    for (int j = static_cast<int>(used < 0 ? 0 : used < n ? used : n); j < n; ++j) counts[j] = 0;
  }

  const SoftmaxGradArguments& a_;
  const Steps& steps_;
  const GradSource* const source_;
};

}  // namespace twinops
