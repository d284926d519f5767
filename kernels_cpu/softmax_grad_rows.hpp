// Rows of the backward passes over vectors: the class that rows.hpp asks for. Only files compiled
// once an instruction set include this.
//
// Memory: y and dy are read twice, the second time from a cache where a row fits one; dx is written
// once. Short rows go as many at once as a vector has lanes, which fold their sums together. Order:
// docs/softmax.md. Tried and left: results of short rows streamed together, which on a Zen 3 loses
// as often as it gains.
#pragma once

#include "kernels_cpu/across.hpp"
#include "kernels_cpu/row_offsets.hpp"
#include "kernels_cpu/rows.hpp"
#include "kernels_cpu/softmax_grad_run.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

// Dy: what counts of dy.
//   Dy::Row row = dy.row(r, view of the row of dy)
//   row.read(first, n, f)  calls f(j, vector) for elements [first, first + n), and beyond up to
//                          padded(n)
//   row.as_it_is()         where there is one: the row itself, all of which counts
template <class Isa, bool kLog, class In, class Out, class Dy>
class GradRows {
 public:
  using Compute = compute_t<In>;
  using Part = Compute;
  struct Buffer {};
  using NoBuffer = Buffer;

  GradRows(const SoftmaxGradArguments& a, const Dy& dy)
      : a_(a),
        dy_(dy),
        dense_(a.rows.step[0] == 1 && a.rows.step[1] == 1 && a.rows.step[2] == 1),
        streamed_(a.dx != a.y && a.dx != a.dy && a.rows.step[0] == 1 &&
                  is_streamed<Out>(a.rows.rows, a.rows.length)),
        cold_(kFetched && !streamed_ && is_cold<Out>(a.rows.rows, a.rows.length)) {}

  // Rows of one chunk.
  void short_rows(std::int64_t begin, std::int64_t end) const {
    if constexpr (kAsItIs)
      if (dense_ && a_.rows.length <= kGroupColumns<Compute>) begin = row_groups(begin, end);
    for (; begin < end; ++begin) whole_row(*this, begin, 1);
  }

  Part reduce(std::int64_t row, std::int64_t begin, std::int64_t end, Compute, Buffer&) const {
    const Operands at = operands(row);
    ChunkTree<Part> tree;
    alignas(64) Compute terms[kFoldChunk];
    for (std::int64_t c = begin; c < end; ++c) {
      const int n = size(c);
      if constexpr (kAsItIs) {
        if (dense_) {
          tree.add(isa::fold_lanes(run(at, c, n).sum().v));
          continue;
        }
      }
      if constexpr (!kLog)
        read_chunk(at.y, c * kFoldChunk, n, In{},
                   [&](int j, V y) TWINOPS_INLINE_BODY { save(terms + j, y); });
      at.dy.read(c * kFoldChunk, n, [&](int j, V dy) TWINOPS_INLINE_BODY {
        save(terms + j, kLog ? dy : grad_term<kLog>(load<Isa>(terms + j), dy));
      });
      tree.add(fold_terms<Compute, Isa>(padded<Compute, Isa>(n), [&](int j) TWINOPS_INLINE_BODY {
        return load<Isa>(terms + j);
      }));
    }
    return tree.total();
  }
  void end() const { isa::end_of_streams(); }
  bool is_far(const Part&) const { return false; }
  Compute shift_of(const Part&) const { return Compute(0); }

  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Part& part, Compute,
             Buffer&) const {
    const Operands at = operands(row);
    const V sum(part), scale(static_cast<Compute>(a_.scale));
    alignas(64) Compute ys[kFoldChunk], dxs[kFoldChunk];
    for (std::int64_t c = begin; c < end; ++c) {
      const int n = size(c);
      if constexpr (kAsItIs) {
        if (dense_) {
          write_run(run(at, c, n), part, at.dx.data + c * kFoldChunk);
          continue;
        }
      }
      read_chunk(at.y, c * kFoldChunk, n, In{},
                 [&](int j, V y) TWINOPS_INLINE_BODY { save(ys + j, y); });
      at.dy.read(c * kFoldChunk, n, [&](int j, V dy) TWINOPS_INLINE_BODY {
        save(dxs + j, softmax_grad<kLog, In>(load<Isa>(ys + j), dy, sum, scale));
      });
      write_chunk(at.dx, c * kFoldChunk, n,
                  [&](int j) TWINOPS_INLINE_BODY { return load<Isa>(dxs + j); });
    }
  }

 private:
  using V = Vec<Compute, Isa>;
  struct Operands {
    RowView<Out, Isa> dx;
    RowView<const In, Isa> y;
    typename Dy::Row dy;
  };
  TWINOPS_INLINE Operands operands(std::int64_t row) const {
    const RowOffsets<3> offsets = row_offsets(a_.rows.outer, row);
    return {{static_cast<Out*>(a_.dx) + offsets.of[0], a_.rows.step[0], streamed_},
            {static_cast<const In*>(a_.y) + offsets.of[1], a_.rows.step[1]},
            dy_.row(row, {static_cast<const In*>(a_.dy) + offsets.of[2], a_.rows.step[2]})};
  }
  TWINOPS_INLINE int size(std::int64_t c) const {
    const std::int64_t left = a_.rows.length - c * kFoldChunk;
    return static_cast<int>(left < kFoldChunk ? left : kFoldChunk);
  }

  // Of dense rows, and a dy that is what it is.
  static constexpr bool kAsItIs = requires(const typename Dy::Row& row) { row.as_it_is(); };
  // Others have more to compute for a byte that they write, and lose a little by fetching it.
  static constexpr bool kFetched = !kLog && sizeof(Out) > 2;
  using Run = GradRun<Isa, kLog, In>;
  TWINOPS_INLINE Run run(const Operands& at, std::int64_t c, int n) const {
    return {at.y.data + c * kFoldChunk, at.dy.as_it_is() + c * kFoldChunk, n};
  }
  TWINOPS_INLINE void write_run(const Run& run, Compute sum, Out* dx) const {
    const auto scale = static_cast<Compute>(a_.scale);
    if (!streamed_) return run.write(dx, sum, scale);
    alignas(64) Out dxs[kFoldChunk];
    run.write(dxs, sum, scale);
    stream_elements<Isa>(dx, dxs, run.n);
  }
  // Returns the first row that is left.
  TWINOPS_INLINE std::int64_t row_groups(std::int64_t begin, std::int64_t end) const {
    constexpr int kRows = V::kLanes;
    const int n = static_cast<int>(a_.rows.length);
    for (; begin + kRows <= end; begin += kRows) {
      Operands at[kRows];
      V sums[kRows];
      for (int r = 0; r < kRows; ++r) {
        at[r] = operands(begin + r);
        if (cold_) fetch_to_write(at[r].dx, n);
        sums[r] = run(at[r], 0, n).sum();
      }
      alignas(64) Compute sum[kRows];
      save(sum, fold_across(sums) + V(Compute(0)));  // no -0 leaves
      for (int r = 0; r < kRows; ++r) write_run(run(at[r], 0, n), sum[r], at[r].dx.data);
    }
    return begin;
  }

  const SoftmaxGradArguments& a_;
  const Dy& dy_;
  bool dense_, streamed_, cold_;
};

}  // namespace twinops
