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
  static constexpr int kLanes = V::kLanes;

  TWINOPS_INLINE static Run run(const void* y, const void* dy, int n, int ahead = 0) {
    return {static_cast<const In*>(y), static_cast<const In*>(dy), n, ahead};
  }
  TWINOPS_INLINE static Run run(const GradTile& t, std::int64_t j) {
    return run(static_cast<const In*>(static_cast<const void*>(t.y)) + j * t.y_step,
               static_cast<const In*>(static_cast<const void*>(t.dy)) + j * t.dy_step, t.width);
  }

  // How n terms are added up. Each size has a function of its own, because a compiler keeps on the
  // stack what several would have in common.
  struct Way {
    Compute (*sum)(const In* y, const In* dy, int n);
    bool touches;  // y and dy are read before, in the order of memory
  };
  // in_order: y and dy are to be read in the order of memory.
  static Way way(int n, bool in_order) {
    const int end = padded<Compute, Isa>(n);
    if (end <= 4 * kLanes) return {few, in_order && n % kLanes != 0};
    if (std::is_same_v<In, bfloat16> && n == kFoldChunk) return {words, false};
    // Whole chunks of 16 bits are faster by loops.
    const bool by_loops = sizeof(In) == 2 && end == kFoldChunk && (kLog || n == end);
    if (end > kMostInRegisters * kLanes || by_loops)
      return {in_order ? loops<true> : loops<false>, false};
    if (end == 8 * kLanes) return {in_registers<8>, in_order};
    if (kMostInRegisters > 16 && end >= 32 * kLanes)
      return {end == 32 * kLanes ? in_registers<32> : in_registers<kMostInRegisters>, in_order};
    return {in_registers<16>, in_order};
  }
  // kShort: of less than sixteen vectors; up to eight are added up without a call.
  template <bool kShort>
  TWINOPS_INLINE static Compute total(const Way& way, Run run) {
    if (way.touches) touch(run.y, run.dy, run.n);
    if (kShort && run.n <= 4 * kLanes) return isa::fold_lanes(run.sum_of_few().v);
    if (kShort && run.n <= 8 * kLanes) return isa::fold_lanes(run.template sum_in_registers<8>().v);
    return way.sum(run.y, run.dy, run.n);
  }
  static Compute total(const void* y, const void* dy, int n, bool in_order) {
    return total<false>(way(n, in_order), run(y, dy, n));
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

 private:
  // Vectors of 64 bytes come with 32 registers; what does not fit them goes to the stack, which a
  // chunk of float64 fills.
  static constexpr int kMostInRegisters = sizeof(V) < 64 ? 16 : sizeof(Compute) == 4 ? 64 : 32;

  [[gnu::noinline]] static Compute few(const In* y, const In* dy, int n) {
    return isa::fold_lanes(Run{y, dy, n}.sum_of_few().v);
  }
  template <int kVectors>
  [[gnu::noinline]] static Compute in_registers(const In* y, const In* dy, int n) {
    return isa::fold_lanes(Run{y, dy, n}.template sum_in_registers<kVectors>().v);
  }
  template <bool kInOrder>
  [[gnu::noinline]] static Compute loops(const In* y, const In* dy, int n) {
    return isa::fold_lanes(Run{y, dy, n}.template sum_by_loops<kInOrder>().v);
  }
  [[gnu::noinline]] static Compute words(const In* y, const In* dy, int n) {
    return Run{y, dy, n}.total_of_words();
  }
};

template <class Isa, bool kLog, class In, class Out>
struct Gradients {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Sums = GradSums<Isa, kLog, In>;

  [[gnu::noinline]] static void write(const void* y, const void* dy, int n, Compute scale,
                                      Compute sum, void* dx, bool streamed, int ahead) {
    write_row(y, dy, n, scale, sum, dx, streamed, ahead);
  }
  static void group(const GradGroup<Isa, Compute>& rows) {
    // Where much is computed, a loop whose length is known is faster. Those of SSE2 would be long.
    if constexpr (kLog && sizeof(V) > 16)
      if (rows.n == 4 * V::kLanes) return rows_of<true, 4 * V::kLanes>(rows);
    if (rows.n < 16 * V::kLanes) return rows_of<true>(rows);
    rows_of<false>(rows);
  }
  static void write_tile(const GradTile& t, int n, Compute scale, const Compute* sums,
                         bool streamed) {
    const auto sum = [sums](int i) TWINOPS_INLINE_BODY { return load<Isa>(sums + i); };
    for (int j = 0; j < n; ++j) {
      Out* const dx = static_cast<Out*>(static_cast<void*>(t.dx)) + j * t.dx_step;
      Sums::run(t, j).template write<false>(dx, streamed, scale, sum);
    }
  }

 private:
  static constexpr int kRows = V::kLanes;
  static constexpr int kLeastAlone = 1024 / static_cast<int>(sizeof(In));

  // kShort: rows of less than sixteen vectors, which are written without a call. kLength: that of
  // the rows; 0: any. All that the loops need is local: what they read from memory waits for the
  // stores of a row (docs/lab/softmax-cpu.md#what-a-row-reads-beside-its-elements).
  template <bool kShort, int kLength = 0>
  [[gnu::noinline]] static void rows_of(const GradGroup<Isa, Compute>& rows) {
    const char *y = rows.y, *dy = rows.dy;
    char* dx = rows.dx;
    const std::int64_t y_pitch = rows.y_pitch, dy_pitch = rows.dy_pitch, dx_pitch = rows.dx_pitch;
    const int n = kLength != 0 ? kLength : rows.n, ahead = rows.ahead;
    const bool streamed = rows.streamed;
    const Compute scale = rows.scale;
    const auto way = Sums::way(n, rows.in_order);
    // Sums of as many rows as a vector has lanes fold together where rows are of few vectors.
    const bool together = kShort && sizeof(V) > 16 && n < 4 * V::kLanes;
    const bool alone = rows.in_order && n >= kLeastAlone;
    const int most = together ? kRows : alone ? 1 : rows_at_once(n, rows.cold);
    alignas(64) Compute sums[kRows];
    for (int left = rows.rows; left > 0; left -= most) {
      const int count = left < most ? left : most;
      if (ahead != 0 && !streamed)
        for (int r = 0; r < count; ++r)
          fetch_to_write(RowView<Out, Isa>{reinterpret_cast<Out*>(dx + r * dx_pitch), 1}, n);
      if (together && count == kRows) {
        fold_together(way, y, y_pitch, dy, dy_pitch, n, sums);
      } else {
        const char *of_y = y, *of_dy = dy;
        for (int r = 0; r < count; ++r, of_y += y_pitch, of_dy += dy_pitch) {
          const Compute sum = Sums::template total<kShort>(way, Sums::run(of_y, of_dy, n));
          sums[r] = sum + Compute(0);  // no -0 leaves
        }
      }
      for (int r = 0; r < count; ++r, y += y_pitch, dy += dy_pitch, dx += dx_pitch)
        (kShort ? write_row : write)(y, dy, n, scale, sums[r], dx, streamed, ahead);
    }
  }
  TWINOPS_INLINE static void write_row(const void* y, const void* dy, int n, Compute scale,
                                       Compute sum, void* dx, bool streamed, int ahead) {
    Sums::run(y, dy, n, ahead)
        .template write<true>(static_cast<Out*>(dx), streamed, scale,
                              [v = V(sum)](int) TWINOPS_INLINE_BODY { return v; });
  }
  // The sums of kRows rows of less than four vectors.
  TWINOPS_INLINE static void fold_together(const typename Sums::Way& way, const char* y,
                                           std::int64_t y_pitch, const char* dy,
                                           std::int64_t dy_pitch, int n, Compute* sums) {
    const auto run = [&](int r) TWINOPS_INLINE_BODY {
      return Sums::run(y + r * y_pitch, dy + r * dy_pitch, n);
    };
    if (way.touches)
      for (int r = 0; r < kRows; ++r) touch(run(r).y, run(r).dy, n);
    V each[kRows];
    for (int r = 0; r < kRows; ++r) each[r] = run(r).sum_of_few();
    save(sums, fold_transposed(each) + V(Compute(0)));  // no -0 leaves
  }
  // Rows that are added up before the first of them is written: as many as stay in the first cache,
  // and few where they come from memory.
  TWINOPS_INLINE static int rows_at_once(int n, bool cold) {
    constexpr int kBytes = 8192, kCold = 4;
    const int room = kBytes / static_cast<int>(sizeof(Compute)) / n;
    const int most = cold ? kCold : kRows;
    return room < 1 ? 1 : room < most ? room : most;
  }
};

}  // namespace twinops
