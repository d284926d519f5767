// Rows of the backward passes by vectors: the class that reduce_rows.hpp asks for. Included only by
// files that are compiled once for each instruction set.
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
#include "kernels_cpu/softmax/grad_chunk.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

// Dy: where the gradient comes from.
//   Dy::Row row = dy.row(r, view of the row of dy)
//   row.run(first, n, buffer)  elements [first, first + n) as a contiguous run: where they are, or
//                              in `buffer`, which holds padded(n)
//   Dy::kInPlace               whether a contiguous row is always taken where it is
template <class Isa, bool kLog, class In, class Out, class Dy>
class GradRows {
 public:
  using Arguments = SoftmaxGradArguments;
  using Compute = compute_t<In>;
  using Part = Compute;
  struct Kept {
    TWINOPS_INLINE Kept(Compute*, Compute*) {}
    static constexpr std::int64_t size(std::int64_t) { return 0; }
  };
  using CutKept = Kept;

  GradRows(const SoftmaxGradArguments& a, const Dy& dy)
      : a_(a),
        dy_(dy),
        scale_(static_cast<Compute>(a.scale)),
        dense_(a.rows.step[Arguments::kDx] == 1 && a.rows.step[Arguments::kY] == 1 &&
               a.rows.step[Arguments::kDy] == 1),
        streamed_(streams() && a.dx != a.y && a.dx != a.dy && a.rows.step[Arguments::kDx] == 1 &&
                  is_streamed<Out>(a.rows.rows, a.rows.length)),
        cold_(kFetched && !streamed_ && a.rows.step[Arguments::kDx] == 1 &&
              is_cold<Out>(a.rows.rows, a.rows.length)),
        ahead_(kLog && kWide && is_amd() && dense_ && a.rows.length >= 128 &&
               is_cold<In>(a.rows.rows, a.rows.length)) {}

  // Takes rows of one chunk. A group's elements that are not taken where they are have the buffer.
  std::int64_t short_buffer() const {
    if (!has_groups() || (dense_ && Dy::kInPlace)) return 0;
    return 2 * kRows * kGroupColumns<Compute>;
  }
  void short_rows(std::int64_t begin, std::int64_t end, Compute* buffer) const {
    if (has_groups())
      for (; begin + kRows <= end; begin += kRows)
        dense_ ? group<true>(begin, buffer) : group<false>(begin, buffer);
    for (; begin < end; ++begin) whole_row(*this, begin, 1, nullptr);
  }

  Part reduce(std::int64_t row, std::int64_t begin, std::int64_t end, Compute, Kept&) const {
    const Operands at = operands(row);
    Buffers buffers;
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) tree.add(run(at, c, buffers.y, buffers.dy).total());
    return tree.total();
  }
  void end() const { isa::end_of_streams(); }
  bool is_out_of_range(const Part&) const { return false; }
  Compute shift_of(const Part&) const { return Compute(0); }

  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Part& sum, Compute,
             Kept&) const {
    const Operands at = operands(row);
    Buffers buffers;
    for (std::int64_t c = begin; c < end; ++c)
      write_run(run(at, c, buffers.y, buffers.dy), sum,
                {at.dx.data + c * kFoldChunk * at.dx.step, at.dx.step, at.dx.streamed});
  }

 private:
  using V = Vec<Compute, Isa>;
  bool has_groups() const { return a_.rows.length <= kGroupColumns<Compute>; }
  using Run = GradRun<Isa, kLog, In>;
  static constexpr int kRows = V::kLanes;  // of a group
  // Outputs of 16 bits have more to compute for each byte and lose by being streamed or prefetched;
  // log_softmax_grad on AMD loses by being streamed: docs/lab/softmax-cpu.md.
  static constexpr bool kWide = sizeof(Out) > 2, kFetched = !kLog && kWide;
  static bool streams() { return kWide && !(kLog && is_amd()); }

  struct Operands {
    RowView<Out, Isa> dx;
    RowView<const In, Isa> y;
    typename Dy::Row dy;
  };
  // kDense: every step is 1.
  template <bool kDense = false>
  TWINOPS_INLINE Operands operands(std::int64_t row) const {
    const auto offsets = row_offsets(a_.rows.outer, row);
    const auto step = [&](int k) { return kDense ? 1 : a_.rows.step[k]; };
    return {
        {static_cast<Out*>(a_.dx) + offsets.of[Arguments::kDx], step(Arguments::kDx), streamed_},
        {static_cast<const In*>(a_.y) + offsets.of[Arguments::kY], step(Arguments::kY)},
        dy_.row(row, {static_cast<const In*>(a_.dy) + offsets.of[Arguments::kDy],
                      step(Arguments::kDy)})};
  }

  // Buffers for elements that are not contiguous.
  struct Buffers {
    alignas(64) In y[kFoldChunk], dy[kFoldChunk];
  };
  TWINOPS_INLINE Run run(const Operands& at, std::int64_t c, In* y_buffer, In* dy_buffer) const {
    const std::int64_t first = c * kFoldChunk, left = a_.rows.length - first;
    const int n = static_cast<int>(left < kFoldChunk ? left : kFoldChunk);
    return {dense_run(at.y, first, n, y_buffer), at.dy.run(first, n, dy_buffer), n};
  }
  TWINOPS_INLINE void write_run(const Run& run, Compute of_row, RowView<Out, Isa> dx) const {
    run.template write<true>(dx, scale_,
                             [sum = V(of_row)](int) TWINOPS_INLINE_BODY { return sum; });
  }

  // Takes rows [row, row + kRows).
  template <bool kDense>
  TWINOPS_INLINE void group(std::int64_t row, Compute* buffer) const {
    constexpr int kCapacity = kGroupColumns<Compute>;
    const int n = static_cast<int>(a_.rows.length);
    In* const memory = reinterpret_cast<In*>(buffer);
    const auto buffer_of = [&](int r) TWINOPS_INLINE_BODY {
      return memory == nullptr ? nullptr : memory + r * kCapacity;
    };
    Group rows;
    for (int r = 0; r < kRows; ++r) {
      const Operands at = operands<kDense>(row + r);
      rows.dx[r] = at.dx.data;
      rows.y[r] = dense_run(at.y, 0, n, buffer_of(r));
      rows.dy[r] = at.dy.run(0, n, buffer_of(kRows + r));
    }
    run_group(rows, n);
  }
  // Pointers, not views: a view that is copied is read in wider words than it was written in, and
  // the read waits.
  struct Group {
    Out* dx[kRows];
    const In *y[kRows], *dy[kRows];
  };
  [[gnu::noinline]] void run_group(const Group& rows, int n) const {
    const std::int64_t step = a_.rows.step[Arguments::kDx];
    V sums[kRows];
    for (int r = 0; r < kRows; ++r) {
      if (cold_) fetch_to_write(RowView<Out, Isa>{rows.dx[r], 1}, n);
      sums[r] = Run{rows.y[r], rows.dy[r], n}.sum();
    }
    alignas(64) Compute sum[kRows];
    save(sum, fold_transposed(sums) + V(Compute(0)));  // no -0 leaves
    for (int r = 0; r < kRows; ++r) {
      if (ahead_) fetch_to_read(rows.dy[r] + kRows * n, n);  // of the next group
      write_run(Run{rows.y[r], rows.dy[r], n}, sum[r], {rows.dx[r], step, streamed_});
    }
  }

  const SoftmaxGradArguments& a_;
  const Dy& dy_;
  Compute scale_;
  bool dense_, streamed_, cold_, ahead_;
};

}  // namespace twinops
