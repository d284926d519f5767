// The kernels of softmax_grad and log_softmax_grad: short rows, staged rows, rows and long rows as
// in softmax_kernels.cuh, with a plain folded sum in place of the joined parts. Long rows keep y
// and dy in shared memory as far as they fit; the rest is read twice, the second time mostly from
// L2.
#pragma once

#include "kernels_cuda/long_rows.cuh"
#include "kernels_cuda/row_fold.cuh"
#include "kernels_cuda/row_pipeline.cuh"
#include "kernels_cuda/row_starts.cuh"
#include "kernels_cuda/short_rows.cuh"
#include "numerics/softmax.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

template <class In, class Out>
struct GradJob {
  const In* y;
  const In* dy;
  const In* y_end;
  const In* dy_end;
  Out* dx;
  Rows<3> rows;
  compute_t<In> scale;
};

// Not inlined: it is rare, and would be most of a kernel's code.
template <class In, class F>
__device__ __noinline__ F any_log_softmax_grad(F y, F dy, F sum, F scale) {
  return softmax_grad<true, In>(y, dy, sum, scale);
}

// A lane's share of a chunk of y and dy, as it is stored; 0 beyond the row.
template <class In, class S>
struct GradShare {
  using F = compute_t<In>;
  static constexpr int V = S::kPack, R = S::kElements / V;
  Pack<In, V> y[R], dy[R];

  __device__ __forceinline__ void load(const S& share, const In* y_at, std::int64_t y_step,
                                       const In* dy_at, std::int64_t dy_step) {
    if (share.all_whole()) {
      share.load_whole(y_at, y);
      share.load_whole(dy_at, dy);
    } else {
      share.load_checked(y_at, y_step, In{}, y);
      share.load_checked(dy_at, dy_step, In{}, dy);
    }
  }
  // The first of V gradients of pack r, and the next ones.
  template <class Of>
  __device__ __forceinline__ void each(int r, Of&& of) const {
    F ys[V], dys[V];
    widen_pack(y[r], ys);
    widen_pack(dy[r], dys);
#pragma unroll
    for (int e = 0; e < V; ++e) of(e, ys[e], dys[e]);
  }
  template <bool kLog>
  __device__ __forceinline__ F sum() const {
    F terms[R * V];
#pragma unroll
    for (int r = 0; r < R; ++r)
      each(r, [&](int e, F y, F dy) { terms[r * V + e] = grad_term<kLog, F>(y, dy); });
    return fold_lanes<S::kLanes, R, V>(terms);
  }
  // Else what was widened for the sum stays in registers, of which that takes two times as many.
  template <bool kLog>
  __device__ __forceinline__ void forget() {
    if constexpr (V > 1 && sizeof(In) == 2) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if constexpr (!kLog) forget_pack(y[r]);
        forget_pack(dy[r]);
      }
    }
  }
  template <bool kLog, bool kInTurn = false, bool kAnew = false, class Out>
  __device__ __forceinline__ void store(const S& share, Out* at, std::int64_t step, F sum,
                                        F scale) const {
    const auto store_by = [&](auto&& grad_of) {
      share.template store<false, kInTurn, kAnew>(at, step, [&](int r, F(&dx)[V]) {
        each(r, [&](int e, F y, F dy) { dx[e] = grad_of(y, dy); });
      });
    };
    const auto whole = [&](F y, F dy) { return softmax_grad<kLog, In, F>(y, dy, sum, scale); };
    // Half of a row's instructions would go into the whole exp(). Float32, share of the copy rate
    // with it throughout and so: 1025 columns 0.78 and 0.85, 8193 0.91 and 1.00, 100 001 0.91 and
    // 0.96, 262 144 0.89 and 0.92; only 50 257 lost, 0.94 to 0.93.
    if constexpr (!kLog || sizeof(In) * V < 4 || sizeof(In) == 8)
      store_by(whole);
    else if (__all_sync(kAllLanes, y_magnitude() <= ExpTable<F>::kNormal))
      store_by([&](F y, F dy) { return normal_log_softmax_grad<In>(y, dy, sum, scale); });
    else if constexpr (sizeof(In) == 4)
      store_by(whole);
    else
      store_by([&](F y, F dy) { return any_log_softmax_grad<In>(y, dy, sum, scale); });
  }

 private:
  // The greatest |y|, NaN if one is; not of float64.
  __device__ __forceinline__ F y_magnitude() const {
    std::uint32_t most = 0;  // as bits, of which those of a NaN are the greatest
    const auto take = [&](std::uint32_t word) {
      if constexpr (sizeof(In) == 4)
        most = max(most, word & 0x7fffffffu);
      else
        most = greater_two<In>(most, word & 0x7fff7fffu);
    };
#pragma unroll
    for (int r = 0; r < R; ++r)
      if constexpr (sizeof(y[r]) == 4)
        take(bit_cast<std::uint32_t>(y[r]));
      else
        for (const std::uint32_t word : {y[r].words.x, y[r].words.y, y[r].words.z, y[r].words.w})
          take(word);
    if constexpr (sizeof(In) == 4) {
      return __uint_as_float(most);
    } else {
      const float2 of = widen_two(most, In{});
      return greatest_or_nan(of.x, of.y);
    }
  }
};

template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(kShortThreads)
    grad_short_kernel(const __grid_constant__ GradJob<In, Out> job) {
  using F = compute_t<In>;
  constexpr int G = S::kLanes;
  constexpr int kRows = kShortThreads / G;  // of a block
  const int lane = threadIdx.x % G;
  const int first = threadIdx.x / kWarp * (kWarp / G);  // of the warp, whose lanes stay together
  const std::int64_t* const step = job.rows.step;
  for (std::int64_t base = std::int64_t{blockIdx.x} * kRows + first; base < job.rows.rows;
       base += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t r = base + threadIdx.x % kWarp / G;
    const int left = r < job.rows.rows ? static_cast<int>(job.rows.length) : 0;
    const RowStarts<3> starts = row_starts(job.rows.outer, r);
    const S share(job.y + starts.of[1], left, lane);
    GradShare<In, S> of_lane;
    of_lane.load(share, job.y + starts.of[1], step[1], job.dy + starts.of[2], step[2]);
    const F sum = of_lane.template sum<kLog>() + F(0);
    of_lane.template store<kLog>(share, job.dx + starts.of[0], step[0], sum, job.scale);
  }
}

// The sum of `count` neighbours, up to kWarp; every lane has it.
template <class F>
__device__ __forceinline__ F join_sums(const F* sums, int count) {
  const int i = threadIdx.x % kWarp;
  return fold_neighbours(i < count ? sums[i] : F(0)) + F(0);
}

// The same of up to 2 * kWarp, two a lane.
template <class F>
__device__ __forceinline__ F join_sum_pairs(const F* sums, int count) {
  const int i = 2 * (threadIdx.x % kWarp);
  const F left = i < count ? sums[i] : F(0), right = i + 1 < count ? sums[i + 1] : F(0);
  return fold_neighbours(left + right) + F(0);
}

// Chunks of y and dy, packed or one by one, that a multiprocessor has registers for.
template <class In, int V>
inline constexpr int kGradWarps = 64 /
                                  static_cast<int>(V == 1 ? sizeof(compute_t<In>) : sizeof(In));

// What is left of a row after its whole chunks, where the last chunk's warp takes it along, as in
// softmax_tail.cuh.
template <class Tail, class In>
class GradTail {
 public:
  using F = compute_t<In>;

  // mine: this warp takes it along. left: of a row, for that warp.
  __device__ __forceinline__ GradTail(int left, int lane, bool mine)
      : tail_(static_cast<const In*>(nullptr), left, lane), mine_(mine) {}

  __device__ __forceinline__ void load(const In* y, const In* dy) {
    if (mine_) of_lane_.load(tail_, y, 1, dy, 1);
  }
  template <bool kLog>
  __device__ __forceinline__ void bring(F* part) const {
    if (!mine_) return;
    const F sum = of_lane_.template sum<kLog>();
    if (tail_.lane() == 0) *part = sum;
  }
  template <bool kLog, class Out>
  __device__ __forceinline__ void store(Out* dx, F sum, F scale) const {
    if (mine_) of_lane_.template store<kLog>(tail_, dx, 1, sum, scale);
  }

 private:
  Tail tail_;
  bool mine_;
  GradShare<In, Tail> of_lane_;
};
template <class In>
class GradTail<void, In> {  // none
 public:
  using F = compute_t<In>;
  __device__ __forceinline__ GradTail(int, int, bool) {}
  __device__ __forceinline__ void load(const In*, const In*) const {}
  template <bool kLog>
  __device__ __forceinline__ void bring(F*) const {}
  template <bool kLog, class Out>
  __device__ __forceinline__ void store(Out*, F, F) const {}
};

// A chunk a warp, the row in the registers of a block. Tail: TailShare, if a row's last warp takes
// along what is left, or void.
template <bool kLog, class In, class Out, class S, class Tail = void>
__global__ void __launch_bounds__(kGradWarps<In, S::kPack>* kWarp)
    grad_row_kernel(const __grid_constant__ GradJob<In, Out> job) {
  using F = compute_t<In>;
  constexpr int V = S::kPack;
  constexpr bool kTail = !std::is_void_v<Tail>;
  __shared__ F sums[kGradWarps<In, V> + kTail];
  const int lane = threadIdx.x % kWarp, chunk = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int begin = chunk * kFoldChunk, left = static_cast<int>(job.rows.length) - begin;
  const std::int64_t* const step = job.rows.step;
  GradTail<Tail, In> tail(left - kFoldChunk, lane, chunk == warps - 1);
  for (std::int64_t r = blockIdx.x; r < job.rows.rows; r += gridDim.x) {
    const RowStarts<3> starts = row_starts(job.rows.outer, r);
    const auto at = [&](int k) { return starts.of[k] + begin * (V == 1 ? step[k] : 1); };
    const S share(job.y + at(1), left, lane);
    GradShare<In, S> of_lane;
    tail.load(job.y + at(1) + kFoldChunk, job.dy + at(2) + kFoldChunk);
    of_lane.load(share, job.y + at(1), step[1], job.dy + at(2), step[2]);
    const F part = of_lane.template sum<kLog>();
    if (lane == 0) sums[chunk] = part;
    tail.template bring<kLog>(sums + warps);
    __syncthreads();
    const F sum = join_sums(sums, warps + kTail);
    of_lane.template forget<kLog>();
    of_lane.template store<kLog, kLog>(share, job.dx + at(0), step[0], sum, job.scale);
    tail.template store<kLog>(job.dx + at(0) + kFoldChunk, sum, job.scale);
    if (r + gridDim.x < job.rows.rows) __syncthreads();  // before the next row's sums come
  }
}

// The same with the blocks of a cluster; the next row is on its way meanwhile, where packs fit.
template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(kGradWarps<In, S::kPack>* kWarp)
    grad_cluster_kernel(const __grid_constant__ GradJob<In, Out> job, const ChunkRows plan) {
  using F = compute_t<In>;
  constexpr int V = S::kPack;
  constexpr bool kFetch = V > 1;
  TWINOPS_DYNAMIC_SHARED(memory);
  RowParts<F, F> sums(memory, plan);
  unsigned char* const room = memory + sums.bytes(plan.chunks);
  using Next = std::conditional_t<kFetch, NextChunk<In, S>, NoChunk>;
  [[maybe_unused]] const Next next_y(room), next_dy(room + Next::bytes(blockDim.x / kWarp));
  const int chunk = static_cast<int>(blockIdx.x % plan.blocks) * plan.warps + threadIdx.x / kWarp;
  const int begin = chunk * kFoldChunk, left = static_cast<int>(job.rows.length) - begin;
  const int rows = static_cast<int>(job.rows.rows);
  const int row_step = static_cast<int>(gridDim.x) / plan.blocks;
  const std::int64_t* const step = job.rows.step;
  const auto at = [&](int r) {  // the row's chunk, of each operand
    RowStarts<3> starts = row_starts(job.rows.outer, r);
#pragma unroll
    for (int k = 0; k < 3; ++k) starts.of[k] += begin * (V == 1 ? step[k] : 1);
    return starts;
  };
  const auto share_of = [&](const RowStarts<3>& starts) {
    return S(job.y + starts.of[1], left, S::kRagged ? lane_anew() : threadIdx.x % kWarp);
  };
  const auto fetch = [&](int r) {
    if constexpr (kFetch) {
      if (r >= rows) return;
      const RowStarts<3> starts = at(r);
      next_y.fetch(share_of(starts), job.y + starts.of[1], job.y_end);
      next_dy.fetch(share_of(starts), job.dy + starts.of[2], job.dy_end);
    }
  };

  int r = static_cast<int>(blockIdx.x) / plan.blocks, turn = 0;
  fetch(r);
  sums.begin();
  for (; r < rows; r += row_step) {
    const RowStarts<3> starts = at(r);
    GradShare<In, S> of_lane;
    if constexpr (kFetch) {
      next_y.take(share_of(starts), In{}, of_lane.y);
      next_dy.take(share_of(starts), In{}, of_lane.dy);
      fetch(r + row_step);
      if constexpr (S::kRagged) __syncwarp();  // else the compiler writes what follows twice
    } else {
      of_lane.load(share_of(starts), job.y + starts.of[1], step[1], job.dy + starts.of[2], step[2]);
    }
    sums.bring(turn, chunk, of_lane.template sum<kLog>());
    const F sum = sums.joined(turn++, join_sum_pairs<F>, [](F sum) { return sum; });
    of_lane.template forget<kLog>();
    of_lane.template store<kLog, kLog>(share_of(starts), job.dx + starts.of[0], step[0], sum,
                                       job.scale);
  }
  sums.leave();
}

template <class F>
struct alignas(16) LongSums {  // then: chunks of y and dy that wait
  F of_units[kLongUnits];
  F groups[kLongUnits / kWarp];
  F trees[kLongWarps][WarpTree<F>::kLevels];
};

template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(kLongWarps* kWarp)
    grad_long_kernel(const __grid_constant__ GradJob<In, Out> job, const LongRows plan) {
  using F = compute_t<In>;
  constexpr int V = S::kPack, R = S::kElements / V;
  TWINOPS_DYNAMIC_SHARED(memory);
  auto& shared = *reinterpret_cast<LongSums<F>*>(memory);
  F* const sums = shared.of_units;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int rank = static_cast<int>(blockIdx.x % plan.blocks);
  const int first_unit = warp * plan.blocks + rank, unit_step = warps * plan.blocks;
  const std::int64_t length = job.rows.length, row_step = gridDim.x / plan.blocks;
  const std::int64_t* const step = job.rows.step;
  auto* const mine = reinterpret_cast<Pack<In, V>*>(memory + sizeof(LongSums<F>)) +
                     static_cast<std::int64_t>(warp) * plan.waiting * 2 * R * kWarp + lane;

  for (std::int64_t r = blockIdx.x / plan.blocks; r < job.rows.rows; r += row_step) {
    const RowStarts<3> starts = row_starts(job.rows.outer, r);
    GradShare<In, S> of_lane;
    const auto at = [&](int k, std::int64_t c) { return starts.of[k] + c * kFoldChunk * step[k]; };
    const auto share_of = [&](std::int64_t c) {
      return S(job.y + at(1, c),
               static_cast<int>(min(length - c * kFoldChunk, std::int64_t{kFoldChunk})), lane);
    };
    const auto load_chunk = [&](std::int64_t c) {
      of_lane.load(share_of(c), job.y + at(1, c), step[1], job.dy + at(2, c), step[2]);
    };
    const auto reduce_chunk = [&](std::int64_t c, int seen) {
      load_chunk(c);
      if (seen < plan.waiting) {
#pragma unroll
        for (int i = 0; i < R; ++i) {
          mine[((seen * R + i) * 2 + 0) * kWarp] = of_lane.y[i];
          mine[((seen * R + i) * 2 + 1) * kWarp] = of_lane.dy[i];
        }
      }
      return of_lane.template sum<kLog>();
    };
    int seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      if (plan.unit == 1) {
        share_part(sums + u, reduce_chunk(u, seen++), plan.blocks);
        continue;
      }
      WarpTree<F> tree(shared.trees[warp]);
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c) tree.add(reduce_chunk(c, seen++));
      share_part(sums + u, tree.total(), plan.blocks);
    }
    cluster_barrier(plan.blocks);
    const F sum = join_by_block(sums, plan.units, shared.groups, join_sums<F>);
    seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c, ++seen) {
        if (seen < plan.waiting) {
#pragma unroll
          for (int i = 0; i < R; ++i) {
            of_lane.y[i] = mine[((seen * R + i) * 2 + 0) * kWarp];
            of_lane.dy[i] = mine[((seen * R + i) * 2 + 1) * kWarp];
          }
        } else {
          load_chunk(c);
        }
        of_lane.template store<kLog>(share_of(c), job.dx + at(0, c), step[0], sum, job.scale);
      }
    }
    cluster_barrier(plan.blocks);  // before the next row's sums come
  }
}

}  // namespace twinops
