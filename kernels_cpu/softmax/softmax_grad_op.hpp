// Rows of the backward passes by vectors: the class that reduce_rows.hpp asks for, for elements of
// all types that are computed in F. Included only by files that are compiled once for each
// instruction set.
//
// Memory: y and dy are read twice, the second time from a cache if the row fits one; dx is written
// once. Elements that are not contiguous are gathered into contiguous runs first. Short rows go as
// many at once as a vector has lanes and fold their sums together. Order: docs/softmax.md.
// What was tried: docs/lab/softmax-cpu.md#what-was-tried-in-the-kernels.
#pragma once

#include "kernels_cpu/rows/fold_transposed.hpp"
#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/runtime/processor.hpp"
#include "kernels_cpu/softmax/softmax_grad_steps.hpp"

namespace twinops {

template <class Isa, class F>
class GradRows {
 public:
  using Arguments = SoftmaxGradArguments;
  using Steps = GradSteps<Isa, F>;
  using Compute = F;
  using Part = F;
  struct Kept {};

  // source: where dy comes from if not from where it lies; nullptr for none.
  GradRows(const SoftmaxGradArguments& a, const Steps& steps, const GradSource* source)
      : a_(a), steps_(steps), source_(source), scale_(static_cast<F>(a.scale)) {
    const std::int64_t rows = a.rows.rows, length = a.rows.length;
    // Outputs of 16 bits have more to compute for each byte and lose by being streamed or
    // prefetched; log_softmax_grad on AMD loses by being streamed: docs/lab/softmax-cpu.md.
    const bool wide = steps.out_bytes > 2, gapless = step(Arguments::kDx) == 1;
    streamed_ = wide && !(steps.log && is_amd()) && a.dx != a.y && a.dx != a.dy && gapless &&
                is_streamed(steps.out_bytes, rows, length);
    dense_ = gapless && !streamed_;
    in_place_ = step(Arguments::kY) == 1 && step(Arguments::kDy) == 1 && source == nullptr;
    ahead_ = steps.log && wide && steps.in_bytes > 2 && is_amd() && gapless && in_place_ &&
             length * steps.in_bytes >= kLeastAhead && length <= kMostAhead &&
             is_cold(steps.in_bytes, rows, length);
    buffered_ = !steps.log && steps.in_bytes == 4 && sizeof(Vec<F, Isa>) == 64 && is_amd() &&
                is_cold(steps.in_bytes, rows, length);
    cold_ = wide && (!steps.log || ahead_) && dense_ && is_cold(steps.out_bytes, rows, length);
  }

  // Takes rows of one chunk. A group's elements that are not taken where they are have the buffer.
  std::int64_t short_buffer() const {
    if (!has_groups() || in_place_) return 0;
    return 2 * kRows * kGroupColumns<F>;
  }
  void short_rows(std::int64_t begin, std::int64_t end, F* buffer) const {
    if (has_groups())
      for (; begin + kRows <= end; begin += kRows) group(begin, buffer);
    Kept kept;
    for (; begin < end; ++begin) whole_row(*this, begin, 1, kept);
  }

  Kept kept(F*, std::int64_t) const { return {}; }
  Kept cut_kept(F*, F*) const { return {}; }
  std::int64_t kept_size(std::int64_t) const { return 0; }
  Part reduce(std::int64_t row, std::int64_t begin, std::int64_t end, F, Kept&) const {
    const Row at = row_at(row);
    Buffers buffers;
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) {
      const Run r = run(at, c, buffers.y, buffers.dy);
      tree.add(steps_.total(r.y, r.dy, r.n, buffered_));
    }
    return tree.total();
  }
  void end() const { isa::end_of_streams(); }
  bool is_out_of_range(const Part&) const { return false; }
  F shift_of(const Part&) const { return F(0); }

  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Part& sum, F,
             Kept&) const {
    const Row at = row_at(row);
    const int ahead = ahead_ ? static_cast<int>(a_.rows.length) : 0;
    Buffers buffers;
    for (std::int64_t c = begin; c < end; ++c) {
      const Run r = run(at, c, buffers.y, buffers.dy);
      const std::int64_t first = c * kFoldChunk;
      if (dense_) {
        steps_.write(r.y, r.dy, r.n, scale_, sum, at.dx + first * steps_.out_bytes, ahead);
      } else {
        steps_.write(r.y, r.dy, r.n, scale_, sum, buffers.dx, ahead);
        put_elements<Isa, F>(at.dx, first, r.n, steps_.out_bytes, step(Arguments::kDx), buffers.dx);
      }
    }
  }

 private:
  static constexpr int kRows = GradGroup<Isa, F>::kRows;
  // Rows that are fetched ahead: from so many bytes on, up to so many elements, which the second
  // cache holds.
  static constexpr std::int64_t kLeastAhead = 512, kMostAhead = 8192;
  TWINOPS_INLINE std::int64_t step(int k) const { return a_.rows.step[k]; }
  TWINOPS_INLINE bool has_groups() const { return a_.rows.length <= kGroupColumns<F>; }

  struct Row {
    char* dx;
    const char *y, *dy;
    std::int64_t index;
  };
  TWINOPS_INLINE Row row_at(std::int64_t row) const {
    const auto offsets = row_offsets(a_.rows.outer, row);
    const auto at = [&](const void* data, int k, int bytes) TWINOPS_INLINE_BODY {
      return static_cast<const char*>(data) + offsets.of[k] * bytes;
    };
    return {const_cast<char*>(at(a_.dx, Arguments::kDx, steps_.out_bytes)),
            at(a_.y, Arguments::kY, steps_.in_bytes), at(a_.dy, Arguments::kDy, steps_.in_bytes),
            row};
  }

  // A chunk of y and dy without gaps, and buffers for elements that have some.
  struct Run {
    const void *y, *dy;
    int n;
  };
  struct Buffers {
    alignas(64) char y[kFoldChunk * sizeof(F)], dy[kFoldChunk * sizeof(F)],
        dx[kFoldChunk * sizeof(F)];
  };
  TWINOPS_INLINE Run run(const Row& at, std::int64_t c, void* y_buffer, void* dy_buffer) const {
    const std::int64_t first = c * kFoldChunk, left = a_.rows.length - first;
    const int n = static_cast<int>(left < kFoldChunk ? left : kFoldChunk);
    if (in_place_) return {at.y + first * steps_.in_bytes, at.dy + first * steps_.in_bytes, n};
    return gathered(at, first, n, y_buffer, dy_buffer);
  }
  [[gnu::noinline]] Run gathered(const Row& at, std::int64_t first, int n, void* y_buffer,
                                 void* dy_buffer) const {
    const int bytes = steps_.in_bytes;
    Run run{y_buffer, dy_buffer, n};
    run.y = dense_elements<F>(at.y, first, n, bytes, step(Arguments::kY), y_buffer);
    if (source_ != nullptr)
      source_->read(*source_, at.index, at.dy, first, n, dy_buffer);
    else
      run.dy = dense_elements<F>(at.dy, first, n, bytes, step(Arguments::kDy), dy_buffer);
    return run;
  }

  // Takes rows [row, row + kRows).
  TWINOPS_INLINE void group(std::int64_t row, F* buffer) const {
    constexpr int kCapacity = kGroupColumns<F>;
    const auto place = [&](int r) TWINOPS_INLINE_BODY {
      return buffer == nullptr ? nullptr : buffer + r * kCapacity;
    };
    GradGroup<Isa, F> rows;
    for (int r = 0; r < kRows; ++r) {
      const Row at = row_at(row + r);
      const Run of = run(at, 0, place(r), place(kRows + r));
      rows.dx[r] = at.dx;
      rows.y[r] = of.y;
      rows.dy[r] = of.dy;
    }
    rows.n = static_cast<int>(a_.rows.length);
    rows.step = step(Arguments::kDx);
    rows.scale = scale_;
    rows.streamed = streamed_;
    rows.cold = cold_;
    rows.ahead = ahead_;
    steps_.group(rows);
  }

  const SoftmaxGradArguments& a_;
  const Steps& steps_;
  const GradSource* const source_;
  const F scale_;
  bool streamed_;  // gradients go past the caches
  bool dense_;     // gradients go where they are to be at once
  bool cold_;      // in no cache yet
  bool in_place_;  // y and dy are read where they are
  bool buffered_;  // by GradSteps::total
  bool ahead_;     // the next rows' y and dy are fetched while gradients are computed
};

}  // namespace twinops
