// The kernels of softmax_grad and log_softmax_grad: short, middle and long rows as in
// softmax_kernels.cuh, with a plain folded sum in place of the joined parts. Long rows keep y and
// dy in shared memory as far as they fit; the rest is read twice, the second time mostly from L2.
#pragma once

#include "kernels_cuda/row_lanes.cuh"
#include "kernels_cuda/row_launch.cuh"
#include "numerics/softmax.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

template <class In, class Out>
struct GradJob {
  const In* y;
  const In* dy;
  Out* dx;
  Rows<3> rows;
};

// A lane's share of a chunk of y and dy, as it is stored; 0 beyond the row.
template <class In, int R, int V>
struct GradShare {
  Pack<In, V> y[R], dy[R];

  template <int G>
  __device__ __forceinline__ void load(const In* y_row, std::int64_t y_step, const In* dy_row,
                                       std::int64_t dy_step, std::int64_t first,
                                       std::int64_t length, int lane) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const std::int64_t j = first + (r * G + lane) * V;
      y[r] = dy[r] = {};
      if (j >= length) continue;
      y[r] = read_pack<In, V>(y_row + (V == 1 ? j * y_step : j));
      dy[r] = read_pack<In, V>(dy_row + (V == 1 ? j * dy_step : j));
    }
  }
  template <bool kLog, int G>
  __device__ __forceinline__ compute_t<In> sum() const {
    compute_t<In> terms[R * V];
#pragma unroll
    for (int i = 0; i < R * V; ++i)
      terms[i] =
          grad_term<kLog, compute_t<In>>(widen(y[i / V].v[i % V]), widen(dy[i / V].v[i % V]));
    return fold_lanes<G, R, V>(terms);
  }
  template <bool kLog, int G, class Out>
  __device__ __forceinline__ void store(Out* row, std::int64_t step, std::int64_t first,
                                        std::int64_t length, int lane, compute_t<In> sum) const {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const std::int64_t j = first + (r * G + lane) * V;
      compute_t<In> dx[V];
#pragma unroll
      for (int e = 0; e < V; ++e)
        dx[e] = softmax_grad<kLog, compute_t<In>>(widen(y[r].v[e]), widen(dy[r].v[e]), sum);
      if (j < length) store_elements<V>(row, step, j, dx);
    }
  }
};

template <bool kLog, class In, class Out, int V, int G, int R>
__global__ void __launch_bounds__(kShortThreads, sizeof(In) == 8 ? 2 : 5)
    grad_short_kernel(const __grid_constant__ GradJob<In, Out> job) {
  using F = compute_t<In>;
  constexpr int kRowsOfWarp = kWarp / G;
  const int lane = threadIdx.x % G, place = threadIdx.x % kWarp / G;
  const std::int64_t warp =
      std::int64_t{blockIdx.x} * (kShortThreads / kWarp) + threadIdx.x / kWarp;
  const std::int64_t warps = std::int64_t{gridDim.x} * (kShortThreads / kWarp);
  const std::int64_t* const step = job.rows.step;
  for (std::int64_t base = warp * kRowsOfWarp; base < job.rows.rows; base += warps * kRowsOfWarp) {
    const std::int64_t row = base + place;
    const std::int64_t length = row < job.rows.rows ? job.rows.length : 0;
    const RowStarts<3> starts = row_starts(job.rows.outer, row);
    GradShare<In, R, V> share;
    share.template load<G>(job.y + starts.of[1], step[1], job.dy + starts.of[2], step[2], 0, length,
                           lane);
    const F sum = share.template sum<kLog, G>() + F(0);
    share.template store<kLog, G>(job.dx + starts.of[0], step[0], 0, length, lane, sum);
  }
}

// The tree of `count` chunk sums; every lane has it.
template <int kPerLane, class F>
__device__ __forceinline__ F join_sums(const F* sums, int count) {
  const int lane = threadIdx.x % kWarp;
  F s[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int at = lane * kPerLane + i;
    s[i] = at < count ? sums[at] : F(0);
  }
#pragma unroll
  for (int k = 0; k < log2_of(kPerLane); ++k)
#pragma unroll
    for (int i = 0; i < kPerLane >> (k + 1); ++i)
      s[i << (k + 1)] = s[i << (k + 1)] + s[(2 * i + 1) << k];
#pragma unroll
  for (int k = 0; k < log2_of(kWarp); ++k)
    s[0] = s[0] + __shfl_xor_sync(kAllLanes, s[0], 1 << k);
  return s[0] + F(0);
}

inline constexpr int kMiddleGradChunks = 16;

template <bool kLog, class In, class Out, int V>
__global__ void __launch_bounds__(kMiddleGradChunks* kWarp)
    grad_middle_kernel(const __grid_constant__ GradJob<In, Out> job) {
  using F = compute_t<In>;
  constexpr int R = kFoldChunk / kWarp / V;
  __shared__ F sums[kMiddleGradChunks];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, chunks = blockDim.x / kWarp;
  const std::int64_t first = std::int64_t{warp} * kFoldChunk, length = job.rows.length;
  for (std::int64_t r = blockIdx.x; r < job.rows.rows; r += gridDim.x) {
    const RowStarts<3> starts = row_starts(job.rows.outer, r);
    GradShare<In, R, V> share;
    share.template load<kWarp>(job.y + starts.of[1], 1, job.dy + starts.of[2], 1, first, length,
                               lane);
    const F part = share.template sum<kLog, kWarp>();
    if (lane == 0) sums[warp] = part;
    __syncthreads();
    const F sum = join_sums<1>(sums, chunks);
    share.template store<kLog, kWarp>(job.dx + starts.of[0], 1, first, length, lane, sum);
    __syncthreads();  // before the next row's sums come
  }
}

template <bool kLog, class In, class Out, int V>
__global__ void __launch_bounds__(kLongWarps* kWarp, sizeof(In) == 8 ? 1 : 2)
    grad_long_kernel(const __grid_constant__ GradJob<In, Out> job, const LongRows plan) {
  using F = compute_t<In>;
  constexpr int R = kFoldChunk / kWarp / V;
  extern __shared__ __align__(16) unsigned char memory[];
  F* const sums = reinterpret_cast<F*>(memory);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int rank = static_cast<int>(blockIdx.x % plan.blocks);
  const int first_unit = warp * plan.blocks + rank, unit_step = warps * plan.blocks;
  const std::int64_t length = job.rows.length, row_step = gridDim.x / plan.blocks;
  const std::int64_t* const step = job.rows.step;
  auto* const mine = reinterpret_cast<Pack<In, V>*>(memory + sizeof(F) * kLongUnits) +
                     static_cast<std::int64_t>(warp) * plan.waiting * 2 * R * kWarp + lane;

  for (std::int64_t r = blockIdx.x / plan.blocks; r < job.rows.rows; r += row_step) {
    const RowStarts<3> starts = row_starts(job.rows.outer, r);
    GradShare<In, R, V> share;
    const auto load_chunk = [&](std::int64_t c) {
      share.template load<kWarp>(job.y + starts.of[1], step[1], job.dy + starts.of[2], step[2],
                                 c * kFoldChunk, length, lane);
    };
    const auto reduce_chunk = [&](std::int64_t c, int seen) {
      load_chunk(c);
      if (seen < plan.waiting) {
#pragma unroll
        for (int i = 0; i < R; ++i) {
          mine[((seen * R + i) * 2 + 0) * kWarp] = share.y[i];
          mine[((seen * R + i) * 2 + 1) * kWarp] = share.dy[i];
        }
      }
      return share.template sum<kLog, kWarp>();
    };
    int seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      if (plan.unit == 1) {
        share_part(sums + u, reduce_chunk(u, seen++), plan.blocks);
        continue;
      }
      ChunkTree<F> tree;
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c) tree.add(reduce_chunk(c, seen++));
      share_part(sums + u, tree.total(), plan.blocks);
    }
    cluster_barrier(plan.blocks);
    const F sum = plan.units <= 32    ? join_sums<1>(sums, plan.units)
                  : plan.units <= 64  ? join_sums<2>(sums, plan.units)
                  : plan.units <= 256 ? join_sums<8>(sums, plan.units)
                                      : join_sums<16>(sums, plan.units);
    seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c, ++seen) {
        if (seen < plan.waiting) {
#pragma unroll
          for (int i = 0; i < R; ++i) {
            share.y[i] = mine[((seen * R + i) * 2 + 0) * kWarp];
            share.dy[i] = mine[((seen * R + i) * 2 + 1) * kWarp];
          }
        } else {
          load_chunk(c);
        }
        share.template store<kLog, kWarp>(job.dx + starts.of[0], step[0], c * kFoldChunk, length,
                                          lane, sum);
      }
    }
    cluster_barrier(plan.blocks);  // before the next row's sums come
  }
}

}  // namespace twinops
