// The kernels of softmax_grad and log_softmax_grad: short rows, staged rows, rows and long rows as
// in softmax_kernels.cuh, with a plain folded sum in place of the joined parts. Long rows keep y
// and dy in shared memory as far as they fit; the rest is read twice, the second time mostly from
// L2.
#pragma once

#include "kernels_cuda/rows/async_copy.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/two_pass.cuh"
#include "kernels_cuda/rows/warp_scope.cuh"
#include "kernels_cuda/softmax/softmax_grad_remainder.cuh"

namespace twinops {

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

// The sum of `count` neighbours, up to kOfLane * kWarp; every lane has it.
template <int kOfLane, class F>
__device__ __forceinline__ F join_sums(const F* sums, int count) {
  F mine[kOfLane];
#pragma unroll
  for (int k = 0; k < kOfLane; ++k) {
    const int i = kOfLane * (threadIdx.x % kWarp) + k;
    mine[k] = i < count ? sums[i] : F(0);
  }
#pragma unroll
  for (int left = kOfLane / 2; left > 0; left /= 2)
#pragma unroll
    for (int k = 0; k < left; ++k) mine[k] = mine[2 * k] + mine[2 * k + 1];
  return fold_neighbours(mine[0]) + F(0);
}

// Chunks of y and dy, packed or one by one, that a multiprocessor has registers for.
template <class In, int V>
inline constexpr int kGradWarps = 64 /
                                  static_cast<int>(V == 1 ? sizeof(compute_t<In>) : sizeof(In));

// What a warp does whose block is alone with its rows. S: how its chunk lies in lanes; kWhole: all
// of it is the row's, and the compiler knows; Tail: of what is taken along.
template <bool kLog, class S, LastChunk kLast, bool kWhole, class Tail, class In, class Out,
          int kAxes>
__device__ __forceinline__ void take_grad_rows(const GradJob<In, Out, kAxes>& job, int chunk,
                                               compute_t<In>* sums) {
  using F = compute_t<In>;
  constexpr int V = S::kPack;
  constexpr bool kTail = kLast == LastChunk::along;
  const int lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp, begin = chunk * kFoldChunk;
  const int rest = static_cast<int>(job.rows.length) - begin, left = kWhole ? kFoldChunk : rest;
  const std::int64_t* const step = job.rows.step;
  TailIf<kTail, GradTail<In, Tail>> tail(rest - kFoldChunk, lane, chunk == warps - 1);
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
    sync_row<kLast>();
    const F sum = join_sums<1>(sums, warps + kTail);
    of_lane.template forget<kLog>();
    of_lane.template store<kLog, kLog>(share, job.dx + at(0), step[0], sum, job.scale);
    tail.template store<kLog>(job.dx + at(0) + kFoldChunk, sum, job.scale);
    if (r + gridDim.x < job.rows.rows) sync_row<kLast>();  // before the next row's sums come
  }
}

// A chunk a warp, the row in the registers of a block. Last: how the last chunk lies, where that is
// taken otherwise.
template <bool kLog, class In, class Out, class S, LastChunk kLast = LastChunk::alike,
          class Last = S, int kAxes = kFewAxes>
__global__ void __launch_bounds__(kGradWarps<In, S::kPack>* kWarp)
    grad_row_kernel(const __grid_constant__ GradJob<In, Out, kAxes> job) {
  constexpr bool kTail = kLast == LastChunk::along;
  __shared__ compute_t<In> sums[kGradWarps<In, S::kPack> + kTail];
  if constexpr (kLast != LastChunk::apart) {
    take_grad_rows<kLog, S, kLast, false, Last>(job, threadIdx.x / kWarp, sums);
  } else {
    const int chunk = warp_of_all_lanes();
    if (is_last_warp(chunk))
      take_grad_rows<kLog, Last, kLast, false, Last>(job, chunk, sums);
    else
      take_grad_rows<kLog, S, kLast, true, Last>(job, chunk, sums);
  }
}

// Whether chunks come by way of shared memory. Share of the copy rate on an H100, straight to
// registers and so: bfloat16 at 32 001 columns 1.03 and 0.99, but its logarithm 0.86 and 0.98;
// float32 1.01 and 1.02, at 65 537 0.95 and 1.03; in whole packs no difference.
template <bool kLog, class In, class S>
inline constexpr bool kGradByMemory = S::kRagged && (kLog || sizeof(In) != 2);

// The same with the blocks of a cluster.
template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(kGradWarps<In, S::kPack>* kWarp)
    grad_cluster_kernel(const __grid_constant__ GradJob<In, Out> job, const ChunkRows plan) {
  using F = compute_t<In>;
  using Sums = RowParts<F, F>;
  TWINOPS_DYNAMIC_SHARED(memory);
  Sums sums(memory, plan);
  const int chunk = Sums::block_of_row() * plan.warps + warp_of_all_lanes();
  const int begin = chunk * kFoldChunk, left = static_cast<int>(job.rows.length) - begin;
  const std::int64_t* const step = job.rows.step;
  const RowStarts<3> starts = row_starts(job.rows.outer, Sums::first_row());
  const auto at = [&](int k) { return starts.of[k] + begin * (S::kPack == 1 ? step[k] : 1); };
  const S share(job.y + at(1), left, threadIdx.x % kWarp);
  GradShare<In, S> of_lane;
  if constexpr (kGradByMemory<kLog, In, S>) {
    using Next = NextChunk<In, S>;
    unsigned char* const room = memory + Sums::bytes(plan.chunks);
    const Next next_y(room), next_dy(room + Next::bytes(plan.warps));
    next_y.fetch(share, job.y + at(1), job.y_end, left);
    next_dy.fetch(share, job.dy + at(2), job.dy_end, left);
    sums.begin();
    next_y.template take<false>(share, In{}, of_lane.y);
    next_dy.template take<false>(share, In{}, of_lane.dy);
    __syncwarp();  // else the compiler writes what follows twice
  } else {
    of_lane.load(share, job.y + at(1), step[1], job.dy + at(2), step[2]);
    sums.begin();
  }
  sums.bring(0, chunk, of_lane.template sum<kLog>());
  const F sum = sums.joined(0, join_sums<2, F>, [](F sum) { return sum; });
  of_lane.template forget<kLog>();
  of_lane.template store<kLog, kLog>(share, job.dx + at(0), step[0], sum, job.scale);
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

  cluster_barrier(plan.blocks);  // nobody's memory is written before he is there
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
    const F sum = join_by_block(sums, plan.units, shared.groups, join_sums<1, F>);
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
