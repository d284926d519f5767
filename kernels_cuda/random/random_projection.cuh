// The kernel of random_projection and its gradient.
//
// Memory: x is read once a tile of up to 256 outputs, y is written once. R is drawn slab by slab as
// numbers +1, 0 and -1 into shared memory, one slab ahead, and is never in global memory.
// A block has 32 rows (16 of float64) and a tile of outputs at a time. A warp has 32 rows by 32
// outputs, a thread 8 by 4. Where a tile has fewer than 256 outputs, the warps that are left share
// the terms.
// Order: numerics/fold.hpp. A thread folds 16 terms, every 64th of a chunk, in registers. The
// chunk's 64 parts come in the order that folds neighbours first. Terms are products with entries,
// which are exact for finite x; a chunk with an infinity or a NaN goes by selections.
// Where there are fewer blocks than multiprocessors, blocks share the chunks by subtrees of the
// tree over chunks. Their sums go through scratch memory to a second kernel.
// What bounds it, what was tried and what to do next:
// docs/lab/random-cuda.md#the-kernel-of-random_projection.
#pragma once

#include <algorithm>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/common/ptx.cuh"
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/random/projection_plan.cuh"
#include "kernels_cuda/random/projection_sums.cuh"

namespace twinops {

template <class F>
struct ChunkSums {
  F level[kChunkLevels + 1][kThreadRows<F>][4];
};

inline constexpr int kBatch = 4;  // rows of a thread with sums in shared memory at once

// Adds the sum of chunk `number` to a ChunkTree with levels `level(i)`. Returns the total when it
// is the last.
template <class F, class Level>
__device__ __forceinline__ F add_chunk(F sum, std::int64_t number, bool last, Level&& level) {
  int i = 0;
  for (; number >> i & 1; ++i) sum = level(i) + sum;
  if (!last) return level(i) = sum;
  for (++i; number >> i != 0; ++i)
    if (number >> i & 1) sum = level(i) + sum;
  return sum + F{};
}

// Stores the thread's outputs of its row r: to y, or to the sums of its split.
template <class T>
__device__ __forceinline__ void store_outputs(const ProjectionParams& params,
                                              const ProjectionStep& step, int r, int first,
                                              const compute_t<T> (&sums)[4]) {
  using F = compute_t<T>;
  constexpr int V = kLaneVector<F>;
  const Projection& p = params.p;
  const std::int64_t row = std::int64_t{blockIdx.x} * kProjectionRows<F> + row_of<F>(r);
  if (row >= p.rows) return;
#pragma unroll
  for (int o = 0; o < 4; o += V) {
    const std::int64_t output = step.tile * params.outputs_of_tile() + first + output_of<F>(o);
    if (params.sums != nullptr) {
      F* const to = static_cast<F*>(params.sums) + (blockIdx.z * p.rows + row) * p.outputs + output;
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (output + k < p.outputs) to[k] = sums[o + k];
      continue;
    }
    T* const to = static_cast<T*>(p.y) + projection_row(p, Projection::kY, row) + output * p.y_step;
    struct alignas(V * sizeof(T)) Vector {
      T of[V];
    } vector;
#pragma unroll
    for (int k = 0; k < V; ++k)
      vector.of[k] = narrow<T>(projected(sums[o + k], static_cast<F>(p.scale)));
    if (p.y_step == 1 && output + V <= p.outputs &&
        reinterpret_cast<std::uintptr_t>(to) % sizeof(Vector) == 0) {
      *reinterpret_cast<Vector*>(to) = vector;
      continue;
    }
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (output + k < p.outputs) to[k * p.y_step] = vector.of[k];
  }
}

// Ends a chunk: adds the groups' sums through shared memory, each thread for its part of the rows,
// and then the chunk to the tree of chunks. Stores after the last chunk.
template <class T>
__device__ __forceinline__ void end_chunk(const ProjectionParams& params,
                                          const ProjectionStep& step, std::int64_t number,
                                          bool last, const ThreadSums<compute_t<T>>& sums,
                                          compute_t<T>* shared, ChunkSums<compute_t<T>>& tree) {
  using F = compute_t<T>;
  constexpr int R = kThreadRows<F>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int of_group_log = 3 - params.groups_log, groups = 1 << params.groups_log;
  const int group = warp >> of_group_log, place = warp & ((1 << of_group_log) - 1);
  const int rows = kBatch >> params.groups_log;  // of a thread in a batch
#pragma unroll
  for (int batch = 0; batch < R; batch += kBatch) {
    __syncthreads();  // nobody reads the old contents any more
#pragma unroll
    for (int r = 0; r < kBatch; ++r)
#pragma unroll
      for (int o = 0; o < 4; ++o)
        shared[((warp * kBatch + r) * 32 + lane) * 4 + o] = sums[batch + r][o];
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < rows; ++i) {
      const int r = group * rows + i;
      F v[4][4];
#pragma unroll
      for (int g = 0; g < 4; ++g)
#pragma unroll
        for (int o = 0; o < 4; ++o)
          v[o][g] = g < groups
                        ? shared[((((g << of_group_log) | place) * kBatch + r) * 32 + lane) * 4 + o]
                        : F(0);
      F folded[4];
#pragma unroll
      for (int o = 0; o < 4; ++o)
        folded[o] = add_chunk(fold(v[o], 4), number, last, [&](int level) -> F& {
          return tree.level[level][batch / kBatch * rows + i][o];
        });
      if (last) store_outputs<T>(params, step, batch + r, place * kWarpOutputs, folded);
    }
  }
}

// Folds the bodies of a slab.
template <bool kProducts, class F>
__device__ __forceinline__ void fold_slab(const ProjectionParams& params, const ChunkShape& shape,
                                          int slab, const F* x, const F* entries,
                                          BodyRegisters<F>& waiting, F* third,
                                          BodyMemory<F>& memory, ThreadSums<F>& sums) {
  const int warp = threadIdx.x / 32, group = warp >> (3 - params.groups_log);
  x += row_of<F>(0);
  entries += warp * params.slab_terms() * kWarpOutputs + output_of<F>(0);
#pragma unroll 1
  for (int b = 0; b < 1 << shape.bodies_log; ++b) {
    const int u = (slab << shape.bodies_log) + b;
    // Within a pass, parts lie in the order of their index above its own low bits.
    const int part = shape.part(u, group, params.groups_log) >>
                         (params.groups_log + shape.passes_log) << params.groups_log |
                     group;
    fold_terms<kProjectionBody, 1, kProducts>(x + part * kProjectionBody * kProjectionRows<F>,
                                              entries + b * kProjectionBody * kWarpOutputs, sums);
    add_body(waiting, third, memory, sums, u, shape.group_parts_log);
  }
}

template <class T>
__global__ void __launch_bounds__(kProjectionThreads, 1)
    projection_kernel(const __grid_constant__ ProjectionParams params) {
  using F = compute_t<T>;
  TWINOPS_DYNAMIC_SHARED(smem);
  __shared__ Sequence sequence;
  F* const slabs = reinterpret_cast<F*>(smem);  // two
  // Behind the slabs: a level of the bodies' tree, then x.
  F* const level = slabs + 2 * params.slab_size();
  F* const third = params.third_level ? level + threadIdx.x : nullptr;
  F* const x = level + (params.third_level ? kProjectionThreads * 4 * kThreadRows<F> : 0);
  if (threadIdx.x == 0) sequence = params.p.random.sequence();
  __syncthreads();

  const std::int64_t begin = blockIdx.z * params.of_split;
  const std::int64_t end = min(begin + params.of_split, params.chunks);
  const std::int64_t row =
      std::int64_t{blockIdx.x} * kProjectionRows<F> + threadIdx.x % kProjectionRows<F>;
  const T* const x_row = row < params.p.rows ? static_cast<const T*>(params.p.x) +
                                                   projection_row(params.p, Projection::kX, row)
                                             : nullptr;
  BodyRegisters<F> waiting;
  BodyMemory<F> memory;
  ChunkSums<F> chunks;
  ThreadSums<F> sums;
  ProjectionStep now{}, next{blockIdx.y, begin, 0};
  std::int64_t loaded_chunk = -1;
  int loaded_pass = 0, turn = 0;
  bool by_products = true;
  for (bool ready = false;; turn ^= 1) {
    if (next.tile < params.tiles)
      SlabDrawer<F>(params, sequence).draw(next, slabs + turn * params.slab_size());
    if (ready) {
      const ChunkShape shape(params, now.chunk);
      F* const slab = slabs + (turn ^ 1) * params.slab_size();
      const int pass = now.slab >> (shape.group_parts_log - shape.bodies_log - shape.passes_log);
      if (now.chunk != loaded_chunk || pass != loaded_pass) {
        const T* const from =
            x_row == nullptr ? nullptr : x_row + now.chunk * kFoldChunk * params.p.x_step;
        __syncthreads();  // nobody reads the old x any more
        by_products = __syncthreads_and(load_chunk<T>(params, shape, from, pass, x)) != 0;
        loaded_chunk = now.chunk;
        loaded_pass = pass;
      }
      if (by_products)
        fold_slab<true>(params, shape, now.slab, x, slab, waiting, third, memory, sums);
      else
        fold_slab<false>(params, shape, now.slab, x, slab, waiting, third, memory, sums);
      if (now.slab + 1 == shape.slabs)
        end_chunk<T>(params, now, now.chunk - begin, now.chunk + 1 == end, sums, slab, chunks);
    }
    __syncthreads();  // the next slab is drawn, and this one is free
    if (next.tile >= params.tiles) return;
    now = next;
    ready = true;
    if (++next.slab == ChunkShape(params, next.chunk).slabs) {
      next.slab = 0;
      if (++next.chunk == end) {
        next.chunk = begin;
        next.tile += gridDim.y;
      }
    }
  }
}

// Adds the sums of the splits.
template <class T>
__global__ void __launch_bounds__(kProjectionThreads)
    projection_tree_kernel(const __grid_constant__ Projection p, const compute_t<T>* sums,
                           int splits) {
  using F = compute_t<T>;
  const std::int64_t all = p.rows * p.outputs, step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    ChunkTree<F> tree;
    for (int split = 0; split < splits; split += 8) {
      F v[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) v[k] = split + k < splits ? sums[(split + k) * all + i] : F(0);
#pragma unroll
      for (int k = 0; k < 8; ++k) tree.add(v[k]);
    }
    static_cast<T*>(
        p.y)[projection_row(p, Projection::kY, i / p.outputs) + i % p.outputs * p.y_step] =
        narrow<T>(projected(tree.total(), static_cast<F>(p.scale)));
  }
}

inline void project_on_cuda(const Projection& p, Execution& execution) {
  execution.random_words = p.random.words;
  if (p.rows == 0 || p.outputs == 0) return;
  const CurrentDevice current(execution.device.index);
  constexpr const char* kWhat = "launch of random_projection";
  const bool is_double = p.type == Type::float64;
  const auto plan = plan_projection(p, is_double ? kProjectionRows<double> : kProjectionRows<float>,
                                    is_double ? sizeof(double) : sizeof(float),
                                    execution.allocate != nullptr, execution.device.index);
  const Workspace workspace(execution, plan.scratch);
  ProjectionParams params = plan.params;
  params.sums = plan.splits > 1 ? workspace.data() : nullptr;
  with_floating_type(p.type, [&]<class T>(TypeTag<T>) {
    const auto kernel = projection_kernel<T>;
    allow_shared(kernel, plan.shared, execution.device.index);
    const dim3 blocks(static_cast<unsigned>(plan.row_blocks),
                      static_cast<unsigned>(plan.tile_blocks), static_cast<unsigned>(plan.splits));
    launch_grid(kWhat, kernel, blocks, kProjectionThreads, plan.shared, execution.stream, params);
    ++execution.launches;
    if (plan.splits == 1) return;
    const std::int64_t tree_blocks =
        (p.rows * p.outputs + kProjectionThreads - 1) / kProjectionThreads;
    launch_grid(kWhat, projection_tree_kernel<T>,
                static_cast<unsigned>(std::min<std::int64_t>(tree_blocks, 1 << 20)),
                kProjectionThreads, 0, execution.stream, p,
                static_cast<const compute_t<T>*>(params.sums), plan.splits);
    ++execution.launches;
  });
}

}  // namespace twinops
