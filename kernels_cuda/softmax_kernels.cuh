// The kernels of softmax and log_softmax. All three take a row in the same order (docs/softmax.md):
//   short rows   up to a chunk: 2^k lanes a row, several rows a warp
//   middle rows  a block a row, a chunk a warp, everything in registers: the row is read once
//   long rows    a cluster of blocks a row; weights wait in shared memory, as many as fit, the rest
//                of the row is read twice, the second time mostly from L2
// Tried and left: joining chunks through a maximum of the whole row first, which costs a second
// barrier; a warp for 64 columns, which leaves most lanes idle.
#pragma once

#include "kernels_cuda/row_lanes.cuh"
#include "kernels_cuda/row_launch.cuh"
#include "numerics/softmax.hpp"
#include "operators/softmax.hpp"

namespace twinops {

template <class In, class Out>
struct SoftmaxJob {
  const In* x;
  Out* out;
  Rows<2> rows;
  bool masked_is_zero;
};

// A lane's share of a chunk: R vectors of V, -infinity beyond the row.
template <class F, int R, int V, int G, class In>
__device__ __forceinline__ void load_share(const In* row, std::int64_t step, std::int64_t first,
                                           std::int64_t length, int lane, F (&x)[R * V]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t j = first + (r * G + lane) * V;
    F pack[V];
#pragma unroll
    for (int e = 0; e < V; ++e) pack[e] = -kInfinity<F>;
    if (j < length) load_elements<V>(row, step, j, pack);
#pragma unroll
    for (int e = 0; e < V; ++e) x[r * V + e] = pack[e];
  }
}

// Stores f(i), which is no NaN, for the elements i of a lane's share.
template <class Out, int R, int V, int G, class F>
__device__ __forceinline__ void store_share(Out* row, std::int64_t step, std::int64_t first,
                                            std::int64_t length, int lane, F&& f) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t j = first + (r * G + lane) * V;
    compute_t<Out> pack[V];
#pragma unroll
    for (int e = 0; e < V; ++e) pack[e] = f(r * V + e);
    if (j < length) store_elements<V, true>(row, step, j, pack);
  }
}

// Stores one value, NaN or not, throughout a lane's share.
template <class Out, int R, int V, int G, class F>
__device__ __forceinline__ void fill_share(Out* row, std::int64_t step, std::int64_t first,
                                           std::int64_t length, int lane, F value) {
  F pack[V];
  for (int e = 0; e < V; ++e) pack[e] = value;
  for (int r = 0; r < R; ++r) {
    const std::int64_t j = first + (r * G + lane) * V;
    if (j < length) store_elements<V>(row, step, j, pack);
  }
}

// The part of a chunk that G lanes hold; where kKeep, x becomes its weights.
template <int G, int R, int V, bool kKeep, class F>
__device__ __forceinline__ SoftmaxPart<F> chunk_part(F (&x)[R * V]) {
  F max = x[0];
#pragma unroll
  for (int i = 1; i < R * V; ++i) max = greatest_or_nan(max, x[i]);
  max = greatest_of_lanes<G>(max);
  const WeightScale<F> scale = weight_scale(max);
  F w[R * V];
#pragma unroll
  for (int i = 0; i < R * V; ++i) {
    w[i] = weight(x[i], scale);
    if constexpr (kKeep) x[i] = w[i];
  }
  return {max, fold_lanes<G, R, V>(w)};
}

template <bool kLog, class In, class Out, int V, int G, int R, int kBatch>
__global__ void __launch_bounds__(kShortThreads, sizeof(In) == 8 ? 3 : 6)
    softmax_short_kernel(const __grid_constant__ SoftmaxJob<In, Out> job) {
  using F = compute_t<In>;
  constexpr int kRowsOfWarp = kWarp / G;
  const int lane = threadIdx.x % G, place = threadIdx.x % kWarp / G;
  const std::int64_t warp =
      std::int64_t{blockIdx.x} * (kShortThreads / kWarp) + threadIdx.x / kWarp;
  const std::int64_t warps = std::int64_t{gridDim.x} * (kShortThreads / kWarp);
  const std::int64_t length = job.rows.length;
  for (std::int64_t base = warp * kRowsOfWarp * kBatch; base < job.rows.rows;
       base += warps * kRowsOfWarp * kBatch) {
    F x[kBatch][R * V];
    Out* out[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::int64_t row = base + b * kRowsOfWarp + place;
      const RowStarts<2> starts = row_starts(job.rows.outer, row);
      out[b] = row < job.rows.rows ? job.out + starts.of[0] : nullptr;
      load_share<F, R, V, G>(job.x + starts.of[1], job.rows.step[1], 0,
                             out[b] == nullptr ? 0 : length, lane, x[b]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      SoftmaxPart<F> row;
      if constexpr (kLog) {
        row = chunk_part<G, R, V, false>(x[b]);
        if (__any_sync(kAllLanes, kind_of_row(row.max) == RowKind::far)) {
          const F shift = kind_of_row(row.max) == RowKind::far ? row.max : F(0);
#pragma unroll
          for (int i = 0; i < R * V; ++i) x[b][i] = x[b][i] - shift;
          row = chunk_part<G, R, V, false>(x[b]);
        }
      } else {
        F max = x[b][0];
#pragma unroll
        for (int i = 1; i < R * V; ++i) max = greatest_or_nan(max, x[b][i]);
        max = greatest_of_lanes<G>(max);
        if (kind_of_row(max) == RowKind::far) {
#pragma unroll
          for (int i = 0; i < R * V; ++i) x[b][i] = x[b][i] - max;
          max = F(0);
        }
        const WeightScale<F> scale = weight_scale(max);
#pragma unroll
        for (int i = 0; i < R * V; ++i) x[b][i] = weight(x[b][i], scale);
        row = {max, fold_lanes<G, R, V>(x[b])};
      }
      if (out[b] == nullptr) continue;
      const RowKind kind = kind_of_row(row.max);
      if (kind != RowKind::ordinary) {
        fill_share<Out, R, V, G>(out[b], job.rows.step[0], 0, length, lane,
                                 special_row<F>(kind, job.masked_is_zero, kLog));
        continue;
      }
      const F last = kLog ? log_of_sum(row) : F(1) / row.sum;
      store_share<Out, R, V, G>(out[b], job.rows.step[0], 0, length, lane, [&](int i) {
        return kLog ? log_softmax(x[b][i], row.max, last) : x[b][i] * last;
      });
    }
  }
}

// The join of `count` parts, a power of two of them a lane; every lane has it.
template <int kPerLane, class F>
__device__ __forceinline__ SoftmaxPart<F> join_parts(const SoftmaxPart<F>* parts, int count) {
  const int lane = threadIdx.x % kWarp;
  SoftmaxPart<F> p[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int at = lane * kPerLane + i;
    if (at < count) p[i] = parts[at];
  }
#pragma unroll
  for (int k = 0; k < log2_of(kPerLane); ++k)
#pragma unroll
    for (int i = 0; i < kPerLane >> (k + 1); ++i)
      p[i << (k + 1)] = p[i << (k + 1)] + p[(2 * i + 1) << k];
#pragma unroll
  for (int k = 0; k < log2_of(kWarp); ++k) {
    const SoftmaxPart<F> other{__shfl_xor_sync(kAllLanes, p[0].max, 1 << k),
                               __shfl_xor_sync(kAllLanes, p[0].sum, 1 << k)};
    p[0] = p[0] + other;
  }
  return p[0];
}

inline constexpr int kMiddleChunks = 32;  // of a row: a warp each

template <bool kLog, class In, class Out, int V>
__global__ void __launch_bounds__(kMiddleChunks* kWarp)
    softmax_middle_kernel(const __grid_constant__ SoftmaxJob<In, Out> job) {
  using F = compute_t<In>;
  constexpr int R = kFoldChunk / kWarp / V;
  __shared__ SoftmaxPart<F> parts[kMiddleChunks];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, chunks = blockDim.x / kWarp;
  const std::int64_t first = std::int64_t{warp} * kFoldChunk, length = job.rows.length;
  for (std::int64_t r = blockIdx.x; r < job.rows.rows; r += gridDim.x) {
    const RowStarts<2> starts = row_starts(job.rows.outer, r);
    F x[R * V], shift = F(0), max;
    SoftmaxPart<F> row;
    while (true) {
      load_share<F, R, V, kWarp>(job.x + starts.of[1], 1, first, length, lane, x);
      if (shift != F(0)) {
#pragma unroll
        for (int i = 0; i < R * V; ++i) x[i] = x[i] - shift;
      }
      const SoftmaxPart<F> part = chunk_part<kWarp, R, V, !kLog>(x);
      max = part.max;
      if (lane == 0) parts[warp] = part;
      __syncthreads();
      row = join_parts<1>(parts, chunks);
      __syncthreads();
      if (kind_of_row(row.max) != RowKind::far) break;
      shift = row.max;
    }
    const RowKind kind = kind_of_row(row.max);
    if (kind != RowKind::ordinary) {
      fill_share<Out, R, V, kWarp>(job.out + starts.of[0], 1, first, length, lane,
                                   special_row<F>(kind, job.masked_is_zero, kLog));
      continue;
    }
    const F last = kLog ? log_of_sum(row) : softmax_factor(row, F(1) / row.sum, max);
    store_share<Out, R, V, kWarp>(job.out + starts.of[0], 1, first, length, lane, [&](int i) {
      return kLog ? log_softmax(x[i], row.max, last) : x[i] * last;
    });
  }
}

template <class F>
struct LongShared {  // then: weights of the chunks that wait, 1024 each
  SoftmaxPart<F> parts[kLongUnits];
  SoftmaxPart<F> trees[kLongWarps][WarpTree<SoftmaxPart<F>>::kLevels];
  F max[kLongWarps * kMostWaiting];
};

template <bool kLog, class In, class Out, int V>
__global__ void __launch_bounds__(kLongWarps* kWarp, sizeof(In) == 8 ? 1 : 2)
    softmax_long_kernel(const __grid_constant__ SoftmaxJob<In, Out> job, const LongRows plan) {
  using F = compute_t<In>;
  constexpr int R = kFoldChunk / kWarp / V, kShare = R * V;
  extern __shared__ __align__(16) unsigned char memory[];
  LongShared<F>& shared = *reinterpret_cast<LongShared<F>*>(memory);
  F* const weights = reinterpret_cast<F*>(memory + sizeof(LongShared<F>));
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int rank = static_cast<int>(blockIdx.x % plan.blocks);
  const int first_unit = warp * plan.blocks + rank, unit_step = warps * plan.blocks;
  const std::int64_t length = job.rows.length;
  const std::int64_t row_step = gridDim.x / plan.blocks;
  F* const mine = weights + static_cast<std::int64_t>(warp) * plan.waiting * kFoldChunk + lane;
  F* const my_max = shared.max + warp * plan.waiting;

  for (std::int64_t r = blockIdx.x / plan.blocks; r < job.rows.rows; r += row_step) {
    const RowStarts<2> starts = row_starts(job.rows.outer, r);
    const In* const from = job.x + starts.of[1];
    const std::int64_t step = job.rows.step[1];
    F x[kShare], shift = F(0);
    SoftmaxPart<F> row;
    const auto load_chunk = [&](std::int64_t c) {
      load_share<F, R, V, kWarp>(from, step, c * kFoldChunk, length, lane, x);
      if (shift != F(0)) {
#pragma unroll
        for (int i = 0; i < kShare; ++i) x[i] = x[i] - shift;
      }
    };
    const auto reduce_chunk = [&](std::int64_t c, int seen) {
      load_chunk(c);
      const SoftmaxPart<F> part = chunk_part<kWarp, R, V, !kLog>(x);
      if (seen < plan.waiting) {
#pragma unroll
        for (int i = 0; i < kShare; ++i) mine[(seen * kShare + i) * kWarp] = x[i];
        if (lane == 0) my_max[seen] = part.max;
      }
      return part;
    };

    while (true) {
      int seen = 0;
      for (int u = first_unit; u < plan.units; u += unit_step) {
        if (plan.unit == 1) {
          share_part(shared.parts + u, reduce_chunk(u, seen++), plan.blocks);
          continue;
        }
        WarpTree<SoftmaxPart<F>> tree(shared.trees[warp]);
        const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
        for (std::int64_t c = u * plan.unit; c < end; ++c) tree.add(reduce_chunk(c, seen++));
        share_part(shared.parts + u, tree.total(), plan.blocks);
      }
      cluster_barrier(plan.blocks);
      row = plan.units <= 32    ? join_parts<1>(shared.parts, plan.units)
            : plan.units <= 64  ? join_parts<2>(shared.parts, plan.units)
            : plan.units <= 256 ? join_parts<8>(shared.parts, plan.units)
                                : join_parts<16>(shared.parts, plan.units);
      if (kind_of_row(row.max) != RowKind::far) break;
      shift = row.max;
      cluster_barrier(plan.blocks);
    }

    const RowKind kind = kind_of_row(row.max);
    const F last = kLog ? log_of_sum(row) : F(1) / row.sum;
    int seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c, ++seen) {
        if (kind != RowKind::ordinary) {
          fill_share<Out, R, V, kWarp>(job.out + starts.of[0], job.rows.step[0], c * kFoldChunk,
                                       length, lane,
                                       special_row<F>(kind, job.masked_is_zero, kLog));
          continue;
        }
        F max = F(0);
        if (seen < plan.waiting) {
#pragma unroll
          for (int i = 0; i < kShare; ++i) x[i] = mine[(seen * kShare + i) * kWarp];
          max = my_max[seen];
        } else if constexpr (kLog) {
          load_chunk(c);
        } else {
          load_chunk(c);
          max = chunk_part<kWarp, R, V, true>(x).max;
        }
        const F factor = kLog ? last : softmax_factor(row, last, max);
        store_share<Out, R, V, kWarp>(
            job.out + starts.of[0], job.rows.step[0], c * kFoldChunk, length, lane,
            [&](int i) { return kLog ? log_softmax(x[i], row.max, factor) : x[i] * factor; });
      }
    }
    cluster_barrier(plan.blocks);  // before the next row's parts come
  }
}

}  // namespace twinops
