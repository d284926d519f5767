// The kernels of softmax and log_softmax. All three take a row in the same order (docs/softmax.md):
//   short rows   up to a chunk: 2^k lanes a row, several rows a warp
//   rows         a chunk a warp, everything in the registers of a block or of a cluster of blocks
//   long rows    a cluster of blocks a row; weights wait in shared memory, as many as fit, the rest
//                of the row is read twice, the second time mostly from L2
// Tried and left: joining chunks through a maximum of the whole row first, which costs a second
// barrier; a warp for 64 columns, which leaves most lanes idle; blocks that stay, with or without
// the next row on its way, where one block holds a row (0.86 and 0.92 of the copy rate in place of
// 0.97); a barrier of the cluster in place of sent parts (0.45 in place of 0.67 at 65536).
#pragma once

#include "kernels_cuda/row_lanes.cuh"
#include "kernels_cuda/row_launch.cuh"
#include "kernels_cuda/row_pipeline.cuh"
#include "numerics/softmax.hpp"
#include "operators/softmax.hpp"

namespace twinops {

template <class In, class Out>
struct SoftmaxJob {
  const In* x;
  Out* out;
  Rows<2> rows;
  bool masked_is_zero, plain;  // plain: softmax of x itself
  compute_t<In> scale;
  RowMask mask;
};

template <class T>
inline constexpr T kPad = -kInfinity<T>;  // beyond a row: weights of +0
template <>
inline constexpr float16 kPad<float16> = portable::narrow_float16(-kInfinity<float>);
template <>
inline constexpr bfloat16 kPad<bfloat16> = portable::narrow_bfloat16(-kInfinity<float>);

// What a row's mask says: how many of its elements count, and where its mask begins.
struct MaskedRow {
  std::int64_t columns, mask_at;
};
template <class Job>
__device__ __forceinline__ MaskedRow masked_row(const Job& job, std::int64_t row) {
  if (job.plain) return {job.rows.length, 0};
  const RowStarts<RowMask::kOperands> starts = row_starts(job.mask.outer, row);
  return {job.mask.columns(starts.of, job.rows.length), starts.of[RowMask::kMask]};
}

// What is added to element i of a row under the scale.
template <class F, class In, class Out>
__device__ __forceinline__ F mask_of(const SoftmaxJob<In, Out>& job, std::int64_t at,
                                     std::int64_t i) {
  at += i * job.mask.step;
  switch (job.mask.kind) {
    case RowMask::Kind::none:
      return F(0);
    case RowMask::Kind::excluded:
      return static_cast<const std::uint8_t*>(job.mask.data)[at] != 0 ? -kInfinity<F> : F(0);
    case RowMask::Kind::added:
      return widen(static_cast<const In*>(job.mask.data)[at]);
    default:
      return static_cast<F>(static_cast<const float*>(job.mask.data)[at]);
  }
}

// Shared memory of a thread, for a share on its way from a loop into registers.
template <class F>
struct Detour {
  template <class S>
  static constexpr std::size_t bytes(std::size_t threads) {
    return threads * S::kElements * sizeof(F);
  }
  __device__ explicit Detour(void* memory) : mine(static_cast<F*>(memory) + threadIdx.x) {}
  __device__ F& operator[](int i) const { return mine[i * blockDim.x]; }

  F* mine;
};

// A lane's share of what softmax is taken of, from element `begin` of a row on, which lies at `at`.
// What is not plain goes through a loop and shared memory: unrolled, it would be ten times the
// code.
template <class S, class In, class Out, class F>
__device__ __forceinline__ void load_share(const SoftmaxJob<In, Out>& job, MaskedRow row,
                                           const In* at, std::int64_t step, std::int64_t begin,
                                           int left, int lane, Detour<F> detour,
                                           F (&x)[S::kElements]) {
  if (job.plain) return S::load(at, step, left, lane, kPad<In>, x);
  constexpr int V = S::kPack;
  left = static_cast<int>(max(std::int64_t{0}, min(std::int64_t{left}, row.columns - begin)));
#pragma unroll 1
  for (int i = 0; i < S::kElements; i += V) {
    const int j = (i / V * S::kLanes + lane) * V;
    F v[V];
    if (j < left) widen_pack(read_pack<In, V>(at + j * step), v);
#pragma unroll
    for (int e = 0; e < V; ++e)
      detour[i + e] = j + e < left ? scaled_and_masked(v[e], job.scale,
                                                       mask_of<F>(job, row.mask_at, begin + j + e))
                                   : -kInfinity<F>;
  }
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) x[i] = detour[i];
}

// The greatest element of a chunk that G lanes hold.
template <int G, int N, class F>
__device__ __forceinline__ F greatest_of_share(const F (&x)[N]) {
  F max = x[0];
#pragma unroll
  for (int i = 1; i < N; ++i) max = greatest_or_nan(max, x[i]);
  return greatest_of_lanes<G>(max);
}

// The sum of a chunk's weights under its maximum. x becomes the weights, unless it is kept.
template <int G, int R, int V, bool kKeepX, class F>
__device__ __forceinline__ F weigh(F (&x)[R * V], F max) {
  const WeightScale<F> scale = weight_scale(max);
  F w[R * V];
#pragma unroll
  for (int i = 0; i < R * V; ++i) {
    w[i] = weight(x[i], scale);
    if constexpr (!kKeepX) x[i] = w[i];
  }
  return fold_lanes<G, R, V>(w);
}

// Stores a share of a row: from x, which holds its elements (kLog) or its weights.
template <bool kLog, class S, class Out, class F>
__device__ __forceinline__ void store_share(Out* at, std::int64_t step, int left, int lane,
                                            const F (&x)[S::kElements], SoftmaxPart<F> row, F last,
                                            bool masked_is_zero) {
  const RowKind kind = kind_of_row(row.max);
  if (kind != RowKind::ordinary)
    return fill_share(at, step, left, lane, S::kLanes,
                      narrow<Out>(special_row<F>(kind, masked_is_zero, kLog)));
  constexpr int V = S::kPack;
  S::template store<true>(at, step, left, lane, [&](int r, F(&y)[V]) {
#pragma unroll
    for (int e = 0; e < V; ++e)
      y[e] = kLog ? log_softmax(x[r * V + e], row.max, last) : x[r * V + e] * last;
  });
}

template <bool kLog, class In, class Out, int V, int G, int R>
__global__ void __launch_bounds__(kShortThreads)
    softmax_short_kernel(const __grid_constant__ SoftmaxJob<In, Out> job) {
  using F = compute_t<In>;
  using S = Share<G, R, V>;
  constexpr int kRows = kShortThreads / G;  // of a block
  extern __shared__ __align__(16) unsigned char memory[];
  const int lane = threadIdx.x % G;
  const int first = threadIdx.x / kWarp * (kWarp / G);  // of the warp, whose lanes stay together
  for (std::int64_t base = std::int64_t{blockIdx.x} * kRows + first; base < job.rows.rows;
       base += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t r = base + threadIdx.x % kWarp / G;
    const int left = r < job.rows.rows ? static_cast<int>(job.rows.length) : 0;
    const RowStarts<2> starts = row_starts(job.rows.outer, r);
    F x[R * V];
    load_share<S>(job, masked_row(job, r), job.x + starts.of[1], V == 1 ? job.rows.step[1] : 1, 0,
                  left, lane, Detour<F>(memory), x);
    F max = greatest_of_share<G>(x);
    if (kind_of_row(max) == RowKind::far) {
#pragma unroll
      for (int i = 0; i < R * V; ++i) x[i] = x[i] - max;
      max = F(0);
    }
    const SoftmaxPart<F> row{max, weigh<G, R, V, kLog>(x, max)};
    const F last = kLog ? log_of_sum(row) : F(1) / row.sum;
    store_share<kLog, S>(job.out + starts.of[0], job.rows.step[0], left, lane, x, row, last,
                         job.masked_is_zero);
  }
}

// What `count` chunks make; every lane has it. The tree of neighbours with every sum under the
// row's n at once, which gives the same bits: docs/softmax.md.
template <class F>
__device__ __forceinline__ SoftmaxPart<F> join_parts(const SoftmaxPart<F>* parts, int count) {
  const int lane = threadIdx.x % kWarp;
  F max = -kInfinity<F>;
#pragma unroll 1
  for (int i = lane; i < count; i += kWarp) max = greatest_or_nan(max, parts[i].max);
  max = greatest_of_lanes<kWarp>(max);
  const std::int32_t n = exponent_of(within_reach(max));
  return {max, fold_chunks<F>(count, [&](int i) {
            const SoftmaxPart<F> part = parts[i];
            return part.sum * power_of_two<F>(exponent_of(within_reach(part.max)) - n);
          })};
}

// A chunk a warp, the row in the registers of a block. Many small blocks hide what each waits for.
template <bool kLog, class In, class Out, int V>
__global__ void __launch_bounds__(kRowWarps<compute_t<In>>* kWarp)
    softmax_row_kernel(const __grid_constant__ SoftmaxJob<In, Out> job) {
  using F = compute_t<In>;
  constexpr int R = kFoldChunk / kWarp / V;
  using S = Share<kWarp, R, V>;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ SoftmaxPart<F> parts[kRowWarps<F>];
  const int lane = threadIdx.x % kWarp, chunk = threadIdx.x / kWarp;
  const int begin = chunk * kFoldChunk, left = static_cast<int>(job.rows.length) - begin;
  const std::int64_t step_in = V == 1 ? job.rows.step[1] : 1;
  const std::int64_t step_out = V == 1 ? job.rows.step[0] : 1;
  for (std::int64_t r = blockIdx.x; r < job.rows.rows; r += gridDim.x) {
    const RowStarts<2> starts = row_starts(job.rows.outer, r);
    const In* const from = job.x + starts.of[1] + begin * step_in;
    const MaskedRow masked = masked_row(job, r);
    F x[R * V], max;
    load_share<S>(job, masked, from, step_in, begin, left, lane, Detour<F>(memory), x);
    SoftmaxPart<F> row;
    while (true) {
      max = greatest_of_share<kWarp>(x);
      const SoftmaxPart<F> part{max, weigh<kWarp, R, V, kLog>(x, max)};
      if (lane == 0) parts[chunk] = part;
      __syncthreads();
      row = join_parts(parts, blockDim.x / kWarp);
      if (kind_of_row(row.max) != RowKind::far) break;
      load_share<S>(job, masked, from, step_in, begin, left, lane, Detour<F>(memory), x);
#pragma unroll
      for (int i = 0; i < R * V; ++i) x[i] = x[i] - row.max;
      __syncthreads();
    }
    const F last = kLog ? log_of_sum(row) : softmax_factor(row, F(1) / row.sum, max);
    store_share<kLog, S>(job.out + starts.of[0] + begin * step_out, step_out, left, lane, x, row,
                         last, job.masked_is_zero);
    if (r + gridDim.x < job.rows.rows) __syncthreads();  // before the next row's parts come
  }
}

// The same with the blocks of a cluster, which stay and take row after row. kFetch: the job is
// plain and in packs, and the next row is on its way to shared memory meanwhile.
template <bool kLog, class In, class Out, int V, bool kFetch>
__global__ void __launch_bounds__(kRowWarps<compute_t<In>>* kWarp)
    softmax_cluster_kernel(const __grid_constant__ SoftmaxJob<In, Out> job, const ChunkRows plan) {
  using F = compute_t<In>;
  constexpr int R = kFoldChunk / kWarp / V;
  using S = Share<kWarp, R, V>;
  extern __shared__ __align__(16) unsigned char memory[];
  RowParts<SoftmaxPart<F>> parts(memory, plan.chunks, plan.blocks);
  unsigned char* const room = memory + parts.bytes(plan.chunks);
  const NextChunk<In, V, R> next(room, blockDim.x);
  const int lane = threadIdx.x % kWarp;
  const int chunk = static_cast<int>(blockIdx.x % plan.blocks) * plan.warps + threadIdx.x / kWarp;
  const std::int64_t begin = std::int64_t{chunk} * kFoldChunk;
  const int left = static_cast<int>(min(job.rows.length - begin, std::int64_t{kFoldChunk}));
  const std::int64_t row_step = gridDim.x / plan.blocks;
  const std::int64_t step_in = V == 1 ? job.rows.step[1] : 1;
  const std::int64_t step_out = V == 1 ? job.rows.step[0] : 1;
  const auto at = [&](std::int64_t r) {  // the row's chunk, of out and of x
    RowStarts<2> starts = row_starts(job.rows.outer, r);
    starts.of[0] += begin * step_out;
    starts.of[1] += begin * step_in;
    return starts;
  };

  std::int64_t r = blockIdx.x / plan.blocks;
  RowStarts<2> starts, next_starts = at(r);
  if constexpr (kFetch)
    if (r < job.rows.rows) next.fetch(job.x + next_starts.of[1], left, lane);
  for (; r < job.rows.rows; r += row_step) {
    F x[R * V], max;
    starts = next_starts;
    next_starts = at(r + row_step);
    const auto load_again = [&] {
      if constexpr (kFetch)
        S::load(job.x + starts.of[1], 1, left, lane, kPad<In>, x);
      else
        load_share<S>(job, masked_row(job, r), job.x + starts.of[1], step_in, begin, left, lane,
                      Detour<F>(room), x);
    };
    if constexpr (kFetch) {
      next.wait();
      S::each(left, lane, [&](int i, int, bool inside) {
        widen_pack(inside ? next.take(i) : pack_of<In, V>(kPad<In>), x + i * V);
      });
      if (r + row_step < job.rows.rows) next.fetch(job.x + next_starts.of[1], left, lane);
    } else {
      load_again();
    }
    SoftmaxPart<F> row;
    while (true) {
      max = greatest_of_share<kWarp>(x);
      parts.bring(chunk, {max, weigh<kWarp, R, V, kLog>(x, max)});
      row = join_parts(parts.all(), plan.chunks);
      if (kind_of_row(row.max) != RowKind::far) break;
      load_again();
#pragma unroll
      for (int i = 0; i < R * V; ++i) x[i] = x[i] - row.max;
    }
    const F last = kLog ? log_of_sum(row) : softmax_factor(row, F(1) / row.sum, max);
    store_share<kLog, S>(job.out + starts.of[0], step_out, left, lane, x, row, last,
                         job.masked_is_zero);
  }
  parts.leave();
}

template <class F>
struct LongShared {  // then: weights of the chunks that wait, 1024 each
  SoftmaxPart<F> parts[kLongUnits];
  SoftmaxPart<F> trees[kLongWarps][WarpTree<SoftmaxPart<F>>::kLevels];
  F max[kLongWarps * kMostWaiting];
};

template <bool kLog, class In, class Out, int V>
__global__ void __launch_bounds__(kLongWarps* kWarp)
    softmax_long_kernel(const __grid_constant__ SoftmaxJob<In, Out> job, const LongRows plan) {
  using F = compute_t<In>;
  constexpr int R = kFoldChunk / kWarp / V, kShare = R * V;
  using S = Share<kWarp, R, V>;
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
    const MaskedRow masked = masked_row(job, r);
    const In* const from = job.x + starts.of[1];
    const std::int64_t step = job.rows.step[1];
    F x[kShare], shift = F(0);
    SoftmaxPart<F> row;
    const auto left_of = [&](std::int64_t c) {
      return static_cast<int>(min(length - c * kFoldChunk, std::int64_t{kFoldChunk}));
    };
    const auto load_chunk = [&](std::int64_t c) {
      load_share<S>(job, masked, from + c * kFoldChunk * step, step, c * kFoldChunk, left_of(c),
                    lane, Detour<F>(memory + plan.detour), x);
      if (shift != F(0)) {
#pragma unroll
        for (int i = 0; i < kShare; ++i) x[i] = x[i] - shift;
      }
    };
    const auto reduce_chunk = [&](std::int64_t c, int seen) {
      load_chunk(c);
      const F max = greatest_of_share<kWarp>(x);
      const SoftmaxPart<F> part{max, weigh<kWarp, R, V, kLog>(x, max)};
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
      row = join_parts(shared.parts, plan.units);
      if (kind_of_row(row.max) != RowKind::far) break;
      shift = row.max;
      cluster_barrier(plan.blocks);
    }

    const F last = kLog ? log_of_sum(row) : F(1) / row.sum;
    int seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c, ++seen) {
        F max = F(0);
        if (seen < plan.waiting) {
#pragma unroll
          for (int i = 0; i < kShare; ++i) x[i] = mine[(seen * kShare + i) * kWarp];
          max = my_max[seen];
        } else if constexpr (kLog) {
          load_chunk(c);
        } else {
          load_chunk(c);
          max = greatest_of_share<kWarp>(x);
          weigh<kWarp, R, V, false>(x, max);
        }
        const F factor = kLog ? last : softmax_factor(row, last, max);
        store_share<kLog, S>(job.out + starts.of[0] + c * kFoldChunk * job.rows.step[0],
                             job.rows.step[0], left_of(c), lane, x, row, factor,
                             job.masked_is_zero);
      }
    }
    cluster_barrier(plan.blocks);  // before the next row's parts come
  }
}

}  // namespace twinops
