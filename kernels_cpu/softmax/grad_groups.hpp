// The steps of the backward passes (softmax_grad_steps.hpp), each by runs of a chunk: what a chunk
// adds up to, its gradients, groups of short rows, and tiles of strided rows. Included only by
// files that are compiled once for each instruction set.
//
// Memory: as in grad_chunk.hpp. Rows of a group are added up first, as many as stay in the first
// cache, and written then. Order: docs/softmax.md.
#pragma once

#include "kernels_cpu/rows/fold_transposed.hpp"
#include "kernels_cpu/rows/strided_tiles.hpp"
#include "kernels_cpu/softmax/grad_chunk.hpp"
#include "kernels_cpu/softmax/softmax_grad_steps.hpp"

namespace twinops {

// What depends on y and dy alone serves all types of dx.
template <class Isa, bool kLog, class In>
struct GradSums {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Run = GradRun<Isa, kLog, In>;

  TWINOPS_INLINE static Run run(const void* y, const void* dy, int n, int ahead = 0) {
    return {static_cast<const In*>(y), static_cast<const In*>(dy), n, ahead};
  }
  TWINOPS_INLINE static Run run(const GradTile& t, std::int64_t j) {
    return run(static_cast<const In*>(static_cast<const void*>(t.y)) + j * t.y_step,
               static_cast<const In*>(static_cast<const void*>(t.dy)) + j * t.dy_step, t.width);
  }

  static Compute total(const void* y, const void* dy, int n, bool in_order) {
    Run of = run(y, dy, n);
    of.in_order = in_order;
    return of.total();
  }

  static void add_up(const GradTile& t, int n, const void* zeros, bool fetches, int pitch,
                     Compute* sums) {
    fold_runs<Compute, Isa>(n, t.width, pitch, sums, [&](int j, int) TWINOPS_INLINE_BODY {
      const Run of = j < n ? run(t, j) : run(zeros, zeros, t.width);
      if (fetches && j < n) {
        const Run next = run(t, j + n);
        fetch_to_read<3>(next.y, next.n);
        fetch_to_read<3>(next.dy, next.n);
      }
      return [of](int i) TWINOPS_INLINE_BODY { return of.term(i); };
    });
  }
};

template <class Isa, bool kLog, class In, class Out>
struct Gradients {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Sums = GradSums<Isa, kLog, In>;

  [[gnu::noinline]] static void write(const void* y, const void* dy, int n, Compute scale,
                                      Compute sum, void* dx, bool streamed, int ahead) {
    write_row(Sums::run(y, dy, n, ahead), scale, sum, {static_cast<Out*>(dx), 1, streamed});
  }
  static void group(const GradGroup<Isa, Compute>& rows) {
    // Loops whose length is known are unrolled. Those of SSE2 would be long ones.
    if constexpr (sizeof(V) > 16) {
      if (rows.n == 4 * V::kLanes) return rows_of<4 * V::kLanes>(rows);
      if (rows.n == 8 * V::kLanes) return rows_of<8 * V::kLanes>(rows);
    }
    rows_of<0>(rows);
  }
  static void write_tile(const GradTile& t, int n, Compute scale, const Compute* sums,
                         bool streamed) {
    const auto sum = [sums](int i) TWINOPS_INLINE_BODY { return load<Isa>(sums + i); };
    for (int j = 0; j < n; ++j) {
      Out* const dx = static_cast<Out*>(static_cast<void*>(t.dx)) + j * t.dx_step;
      Sums::run(t, j).template write<false>(RowView<Out, Isa>{dx, 1, streamed}, scale, sum);
    }
  }

 private:
  static constexpr int kRows = V::kLanes;
  static constexpr int kLeastAlone = 1024 / static_cast<int>(sizeof(In));

  // kLength: that of the rows; 0: any.
  template <int kLength>
  [[gnu::noinline]] static void rows_of(GradGroup<Isa, Compute> rows) {
    if constexpr (kLength != 0) rows.n = kLength;
    // Sums of as many rows as a vector has lanes fold together where rows are of few vectors.
    const bool together = sizeof(V) > 16 && rows.n < 4 * V::kLanes && rows.rows == kRows;
    const bool alone = rows.in_order && rows.n >= kLeastAlone;
    const int most = together ? kRows : alone ? 1 : rows_at_once(rows);
    alignas(64) Compute sums[kRows];
    for (int first = 0; first < rows.rows; first += most) {
      const int count = rows.rows - first < most ? rows.rows - first : most;
      if (together) {
        fold_together(rows, sums);
      } else {
        for (int r = 0; r < count; ++r) {
          if (rows.ahead != 0 && !rows.streamed)
            fetch_to_write(results_of(rows, first + r), rows.n);
          auto run = run_of(rows, first + r);
          run.in_order = rows.in_order;
          sums[r] = run.total() + Compute(0);  // no -0 leaves
        }
      }
      write_rows(rows, first, count, sums);
    }
  }
  TWINOPS_INLINE static void fold_together(const GradGroup<Isa, Compute>& rows, Compute* sums) {
    V each[kRows];
    for (int r = 0; r < kRows; ++r) each[r] = run_of(rows, r).sum();
    save(sums, fold_transposed(each) + V(Compute(0)));  // no -0 leaves
  }
  // Rows that are added up before the first of them is written: as many as stay in the first cache,
  // and few where they come from memory.
  TWINOPS_INLINE static int rows_at_once(const GradGroup<Isa, Compute>& rows) {
    constexpr int kBytes = 8192, kCold = 4;
    const int room = kBytes / static_cast<int>(sizeof(Compute)) / rows.n;
    const int most = rows.cold ? kCold : kRows;
    return room < 1 ? 1 : room < most ? room : most;
  }
  TWINOPS_INLINE static typename Sums::Run run_of(const GradGroup<Isa, Compute>& rows, int r) {
    return Sums::run(rows.y + r * rows.y_pitch, rows.dy + r * rows.dy_pitch, rows.n);
  }
  TWINOPS_INLINE static RowView<Out, Isa> results_of(const GradGroup<Isa, Compute>& rows, int r) {
    return {reinterpret_cast<Out*>(rows.dx + r * rows.dx_pitch), rows.step, rows.streamed};
  }
  TWINOPS_INLINE static void write_rows(const GradGroup<Isa, Compute>& rows, int first, int count,
                                        const Compute* sums) {
    // What is not local is read again after every store.
    const GradGroup<Isa, Compute> of = rows;
    for (int r = 0; r < count; ++r) {
      auto run = run_of(of, first + r);
      run.ahead = of.ahead;
      write_row(run, of.scale, sums[r], results_of(of, first + r));
    }
  }
  TWINOPS_INLINE static void write_row(const typename Sums::Run& run, Compute scale, Compute of_row,
                                       RowView<Out, Isa> dx) {
    run.template write<true>(dx, scale, [sum = V(of_row)](int) TWINOPS_INLINE_BODY { return sum; });
  }
};

}  // namespace twinops
