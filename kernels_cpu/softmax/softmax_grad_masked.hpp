// Rows of the backward passes under a mask by vectors: the class that reduce_rows.hpp asks for.
// Included only by files that are compiled once for each instruction set.
//
// Memory: y, dy and the mask are read twice, the second time from a cache if the row fits one; dx
// is written once. What is masked out is not read: it stands in a buffer as 0, so its term is +0,
// and its gradient becomes +0 before it is written. Order: docs/softmax.md.
#pragma once

#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/softmax/grad_chunk.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

// Dy: where the gradient comes from, as GradRows takes it (softmax_grad_op.hpp).
template <class Isa, bool kLog, class In, class Out, class Dy>
class MaskedGradRows {
 public:
  using Arguments = SoftmaxGradArguments;
  using Compute = compute_t<In>;
  using Part = Compute;
  struct Kept {};

  MaskedGradRows(const SoftmaxGradArguments& a, const Dy& dy) : a_(a), dy_(dy) {}

  Kept kept(Compute*, std::int64_t) const { return {}; }
  Kept cut_kept(Compute*, Compute*) const { return {}; }
  std::int64_t kept_size(std::int64_t) const { return 0; }
  Part reduce(std::int64_t row, std::int64_t begin, std::int64_t end, Compute, Kept&) const {
    const Row at = row_at(row);
    Buffers buffers;
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) tree.add(read(at, c, buffers).total());
    return tree.total();
  }
  void end() const {}
  bool is_out_of_range(const Part&) const { return false; }
  Compute shift_of(const Part&) const { return Compute(0); }

  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Part& sum, Compute,
             Kept&) const {
    const Row at = row_at(row);
    const std::int64_t step = a_.rows.step[Arguments::kDx];
    Buffers buffers;
    for (std::int64_t c = begin; c < end; ++c) {
      alignas(64) Out dx[kFoldChunk];
      const GradRun<Isa, kLog, In> run = read(at, c, buffers);
      run.template write<true>(RowView<Out, Isa>{dx, 1}, static_cast<Compute>(a_.scale),
                               [sum = V(sum)](int) TWINOPS_INLINE_BODY { return sum; });
      Out* const to = at.dx + c * kFoldChunk * step;
      for (int j = 0; j < run.n; ++j) to[j * step] = buffers.counts[j] ? dx[j] : Out{};
    }
  }

 private:
  using V = Vec<Compute, Isa>;

  struct Row {
    Out* dx;
    RowView<const In, Isa> y;
    typename Dy::Row dy;
    std::int64_t mask_at, columns;
  };
  Row row_at(std::int64_t row) const {
    const auto offsets = row_offsets(a_.rows.outer, row);
    const auto mask_offsets = row_offsets(a_.mask_outer, row);
    const auto view = [&](const void* data, int k) {
      return RowView<const In, Isa>{static_cast<const In*>(data) + offsets.of[k], a_.rows.step[k]};
    };
    return {static_cast<Out*>(a_.dx) + offsets.of[Arguments::kDx], view(a_.y, Arguments::kY),
            dy_.row(row, view(a_.dy, Arguments::kDy)), mask_offsets.of[RowMask::kMask],
            a_.mask.columns(mask_offsets.of, a_.rows.length)};
  }

  // A chunk, with 0 where an element is masked out.
  struct Buffers {
    alignas(64) In y[kFoldChunk], dy[kFoldChunk];
    bool counts[kFoldChunk];
  };
  [[gnu::noinline]] GradRun<Isa, kLog, In> read(const Row& at, std::int64_t c, Buffers& to) const {
    const std::int64_t first = c * kFoldChunk, left = a_.rows.length - first;
    const int n = static_cast<int>(left < kFoldChunk ? left : kFoldChunk);
    count(at, first, n, to.counts);
    const In* const y = dense_run(at.y, first, n, to.y);
    for (int j = 0; j < n; ++j) to.y[j] = to.counts[j] ? y[j] : In{};
    const In* const dy = at.dy.run(first, n, to.dy);
    for (int j = 0; j < n; ++j) to.dy[j] = to.counts[j] ? dy[j] : In{};
    return {to.y, to.dy, n};
  }
  TWINOPS_INLINE void count(const Row& at, std::int64_t first, int n, bool* counts) const {
    const RowMask& mask = a_.mask;
    const std::int64_t place = at.mask_at + first * mask.step, step = mask.step;
    switch (mask.kind) {
      case RowMask::Kind::none:
        for (int j = 0; j < n; ++j) counts[j] = true;
        break;
      case RowMask::Kind::excluded:
        for (int j = 0; j < n; ++j)
          counts[j] = static_cast<const std::uint8_t*>(mask.data)[place + j * step] == 0;
        break;
      default:
        for (int j = 0; j < n; ++j) counts[j] = mask.lets_count(place + j * step);
    }
    const std::int64_t used = at.columns - first;
    for (int j = static_cast<int>(used < 0 ? 0 : used < n ? used : n); j < n; ++j)
      counts[j] = false;
  }

  const SoftmaxGradArguments& a_;
  const Dy& dy_;
};

}  // namespace twinops
