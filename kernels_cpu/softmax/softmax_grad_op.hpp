// Rows of the backward passes over vectors: the class that rows.hpp asks for. Only files compiled
// once an instruction set include this.
//
// Memory: y and dy are read twice, the second time from a cache where a row fits one; dx is written
// once. What does not lie one after the other is gathered into runs, which are all that a row is
// made of. Short rows go as many at once as a vector has lanes, which fold their sums together.
// Order: docs/softmax.md. Tried and left: results of short rows streamed together, which on a Zen 3
// loses as often as it gains; y and dy of the next group fetched, which on a Zen 3 gains up to a
// fifth from 256 columns on and loses a twentieth below, and on a Xeon loses a tenth at 512. A
// logarithm's dy alone is, on AMD and from memory (2^22 floats on a Zen 5, 200 columns 4.7 to 3.8
// ms, 240 3.3 to 3.2; 100, which are not, 3.0 to 3.3).
#pragma once

#include "kernels_cpu/rows/fold_transposed.hpp"
#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/runtime/processor.hpp"
#include "kernels_cpu/softmax/grad_chunk.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

// Dy: what counts of dy.
//   Dy::Row row = dy.row(r, view of the row of dy)
//   row.run(first, n, room)  elements [first, first + n) one after the other: where they are, or in
//                            `room`, which holds padded(n)
template <class Isa, bool kLog, class In, class Out, class Dy>
class GradRows {
 public:
  using Arguments = SoftmaxGradArguments;
  using Compute = compute_t<In>;
  using Part = Compute;
  struct Kept {
    explicit Kept(Compute*) {}
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

  // Rows of one chunk.
  void short_rows(std::int64_t begin, std::int64_t end) const {
    if (a_.rows.length <= kGroupColumns<Compute>)
      for (; begin + kRows <= end; begin += kRows)
        dense_ ? group<true>(begin) : group<false>(begin);
    for (; begin < end; ++begin) whole_row(*this, begin, 1);
  }

  Part reduce(std::int64_t row, std::int64_t begin, std::int64_t end, Compute, Kept&) const {
    const Operands at = operands(row);
    Rooms<kFoldChunk> rooms;
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) tree.add(run(at, c, rooms.y, rooms.dy).total());
    return tree.total();
  }
  void end() const { isa::end_of_streams(); }
  bool is_out_of_range(const Part&) const { return false; }
  Compute shift_of(const Part&) const { return Compute(0); }

  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Part& sum, Compute,
             Kept&) const {
    const Operands at = operands(row);
    Rooms<kFoldChunk> rooms;
    for (std::int64_t c = begin; c < end; ++c)
      write_run(run(at, c, rooms.y, rooms.dy), sum,
                {at.dx.data + c * kFoldChunk * at.dx.step, at.dx.step, at.dx.streamed});
  }

 private:
  using V = Vec<Compute, Isa>;
  using Run = GradRun<Isa, kLog, In>;
  static constexpr int kRows = V::kLanes;  // of a group
  // Outputs of 16 bits have more to compute for a byte that is written, and lose by being streamed
  // or fetched; so does log_softmax_grad's on AMD by being streamed (2^24 floats on a Zen 5, rows
  // of 4096 and 65 536 columns: 9.7 and 9.9 ms in place of 8.4 and 7.3).
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

  // For elements that do not lie one after the other.
  template <int kElements>
  struct Rooms {
    alignas(64) In y[kElements], dy[kElements];
  };
  TWINOPS_INLINE Run run(const Operands& at, std::int64_t c, In* y_room, In* dy_room) const {
    const std::int64_t first = c * kFoldChunk, left = a_.rows.length - first;
    const int n = static_cast<int>(left < kFoldChunk ? left : kFoldChunk);
    return {dense_run(at.y, first, n, y_room), at.dy.run(first, n, dy_room), n};
  }
  TWINOPS_INLINE void write_run(const Run& run, Compute of_row, RowView<Out, Isa> dx) const {
    run.template write<true>(dx, scale_,
                             [sum = V(of_row)](int) TWINOPS_INLINE_BODY { return sum; });
  }

  // Rows [row, row + kRows).
  template <bool kDense>
  TWINOPS_INLINE void group(std::int64_t row) const {
    constexpr int kRoom = kGroupColumns<Compute>;
    const int n = static_cast<int>(a_.rows.length);
    Rooms<kRows * kRoom> rooms;
    Group rows;
    for (int r = 0; r < kRows; ++r) {
      const Operands at = operands<kDense>(row + r);
      rows.dx[r] = at.dx.data;
      rows.y[r] = dense_run(at.y, 0, n, rooms.y + r * kRoom);
      rows.dy[r] = at.dy.run(0, n, rooms.dy + r * kRoom);
    }
    run_group(rows, n);
  }
  // Pointers, not views: a view that is copied is read wider than it was written, and waits for
  // that (10 columns of float32 147 to 109 us on a Zen 3).
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
