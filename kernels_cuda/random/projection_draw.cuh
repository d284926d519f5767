// How random_projection lays out its work on a GPU, and how R is drawn. The kernel:
// random_projection.cuh.
#pragma once

#include <cuda_runtime.h>

#include "numerics/fold.hpp"
#include "operators/random_projection.hpp"

namespace twinops {

inline constexpr int kProjectionThreads = 256, kProjectionWarps = kProjectionThreads / 32;
inline constexpr int kWarpOutputs = 32;  // of a warp
// Terms of a body: a subtree whose sums stay in registers.
inline constexpr int kProjectionBody = 16;
inline constexpr int kChunkLevels = 12;  // of the tree over a block's chunks

// Rows of a block, and of a thread, which has as many rows by 4 outputs.
template <class F>
inline constexpr int kProjectionRows = 128 / static_cast<int>(sizeof(F));
template <class F>
inline constexpr int kThreadRows = kProjectionRows<F> / 4;

struct ProjectionParams {
  Projection p;
  void* sums;                     // [splits, rows, outputs] in compute type; nullptr for one split
  std::int64_t chunks, of_split;  // of all; of a split, a power of two
  std::int64_t tiles;             // of outputs
  int groups_log;                 // groups of warps that share a chunk's terms
  int bodies_log;                 // bodies of a slab, which is drawn at once
  int passes_log;                 // passes that bring a chunk of x to shared memory
  bool third_level;               // of the bodies' tree is in shared memory

  TWINOPS_INLINE int outputs_of_tile() const {
    return kProjectionWarps * kWarpOutputs >> groups_log;
  }
  TWINOPS_INLINE int slab_terms() const { return kProjectionBody << bodies_log; }
  // Entries of a slab: [warp][term][output].
  TWINOPS_INLINE int slab_size() const { return kProjectionWarps * kWarpOutputs * slab_terms(); }
};

// How a chunk of n terms is folded: as 2^k >= n terms. Term t is number t / 2^stride_log of part t
// mod 2^stride_log, and a part is a body. Group g has parts g, g + groups, ... and takes them in
// the order that folds neighbours first.
struct ChunkShape {
  int terms;
  int stride_log, group_parts_log;  // parts of the chunk; of a group
  int bodies_log, slabs;            // bodies of a slab; slabs of the chunk
  int passes_log;

  __device__ ChunkShape(const ProjectionParams& params, std::int64_t chunk) {
    const std::int64_t left = params.p.terms - chunk * kFoldChunk;
    terms = left < kFoldChunk ? static_cast<int>(left) : kFoldChunk;
    stride_log = params.groups_log;
    while (kProjectionBody << stride_log < terms) ++stride_log;
    group_parts_log = stride_log - params.groups_log;
    bodies_log = min(params.bodies_log, group_parts_log);
    slabs = 1 << (group_parts_log - bodies_log);
    passes_log = min(params.passes_log, group_parts_log - bodies_log);
  }
  // The part that group g takes as its u-th.
  __device__ int part(int u, int g, int groups_log) const {
    const unsigned turned =
        group_parts_log == 0 ? 0 : __brev(static_cast<unsigned>(u)) >> (32 - group_parts_log);
    return g + static_cast<int>(turned << groups_log);
  }
};

// A step of a block: a slab of a chunk for a tile of outputs.
struct ProjectionStep {
  std::int64_t tile, chunk;
  int slab;
};

// Stores four neighbours to shared memory; `at` is aligned to 16 bytes.
__device__ __forceinline__ void put_four(float* at, const float (&v)[4]) {
  *reinterpret_cast<float4*>(at) = make_float4(v[0], v[1], v[2], v[3]);
}
__device__ __forceinline__ void put_four(double* at, const double (&v)[4]) {
  reinterpret_cast<double2*>(at)[0] = make_double2(v[0], v[1]);
  reinterpret_cast<double2*>(at)[1] = make_double2(v[2], v[3]);
}

// Draws the entries of a slab into shared memory. Where Philox blocks do not lie across terms or
// outputs, a thread's draws are a few additions apart.
template <class F>
class SlabDrawer {
 public:
  __device__ SlabDrawer(const ProjectionParams& params, const volatile Sequence& sequence)
      : params_(params),
        s_{sequence.seed, sequence.subsequence, sequence.block},
        keys_(philox_keys(s_.seed)) {}

  __device__ void draw(const ProjectionStep& step, F* slab) const {
    const Projection& p = params_.p;
    const ChunkShape shape(params_, step.chunk);
    const std::int64_t line = p.backward ? p.terms : p.outputs;
    const bool aligned = (p.random.first | static_cast<std::uint64_t>(line)) % 4 == 0;
    if (aligned && p.backward)
      draw_aligned<true>(step, shape, slab);
    else if (aligned)
      draw_aligned<false>(step, shape, slab);
    else if (p.backward)
      draw_backward(step, shape, slab);
    else
      draw_forward(step, shape, slab);
  }

 private:
  __device__ PhiloxBlock<std::uint32_t> block(std::uint64_t b) const {
    b += s_.block;
    return philox_rounds<std::uint32_t>(
        {{static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
          static_cast<std::uint32_t>(s_.subsequence),
          static_cast<std::uint32_t>(s_.subsequence >> 32)}},
        keys_);
  }
  // The index in the chunk of term i of a slab, for group g.
  __device__ int term(const ProjectionStep& step, const ChunkShape& shape, int i, int g) const {
    const int u = (step.slab << shape.bodies_log) + i / kProjectionBody;
    return shape.part(u, g, params_.groups_log) + ((i % kProjectionBody) << shape.stride_log);
  }
  __device__ F* place(F* slab, int group, int output, int i) const {
    const int warp = group << (3 - params_.groups_log) | output / kWarpOutputs;
    return slab + (warp * params_.slab_terms() + i) * kWarpOutputs + output % kWarpOutputs;
  }

  // A Philox block is four outputs of a term, or (backward) four terms of an output, one for each
  // of four groups.
  template <bool kBackward>
  __device__ __forceinline__ void draw_aligned(const ProjectionStep& step, const ChunkShape& shape,
                                               F* slab) const {
    const Projection& p = params_.p;
    const int groups_log = params_.groups_log, terms_log = 4 + shape.bodies_log;
    const int tile = params_.outputs_of_tile();
    const int along_log = kBackward ? 8 - groups_log : 6 - groups_log;
    const int along = static_cast<int>(threadIdx.x) & ((1 << along_log) - 1);
    const int output = kBackward ? along : 4 * along;
    if (output >= p.outputs - step.tile * tile) return;
    const std::uint64_t e = p.draw(step.chunk * kFoldChunk, step.tile * tile + output);
    const std::uint64_t first = s_.block + e / 4;
    const auto of_term = kBackward ? 0 : static_cast<std::uint64_t>(p.outputs) / 4;
    F* const to = place(slab, 0, output, 0);
    const int of_group = params_.slab_terms() * kWarpOutputs << (3 - groups_log);
    const int rows = 1 << (kBackward ? terms_log + groups_log - 2 : terms_log + groups_log);
#pragma unroll 4
    for (int row = static_cast<int>(threadIdx.x) >> along_log; row < rows;
         row += kProjectionThreads >> along_log) {
      const int i = row & ((1 << terms_log) - 1);
      const int g = row >> terms_log << (kBackward ? 2 : 0);
      const auto t = static_cast<unsigned>(term(step, shape, i, g));
      const std::uint64_t b = first + (kBackward ? t / 4 : t * of_term);
      const PhiloxBlock<std::uint32_t> drawn = philox_rounds<std::uint32_t>(
          {{static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
            static_cast<std::uint32_t>(s_.subsequence),
            static_cast<std::uint32_t>(s_.subsequence >> 32)}},
          keys_);
      F v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = projection_entry<F>(drawn.w[k], p.words);
      F* const at = to + g * of_group + i * kWarpOutputs;
      if constexpr (kBackward) {
#pragma unroll
        for (int k = 0; k < 4; ++k) at[k * of_group] = v[k];
      } else {
        put_four(at, v);
      }
    }
  }

  // Philox blocks lie along the outputs of a term, with one more at an end.
  __device__ void draw_forward(const ProjectionStep& step, const ChunkShape& shape, F* slab) const {
    const Projection& p = params_.p;
    const int tile = params_.outputs_of_tile();
    const unsigned blocks = static_cast<unsigned>(tile) / 4 + 1;
    const unsigned terms = static_cast<unsigned>(kProjectionBody) << shape.bodies_log;
    const int items = static_cast<int>((terms << params_.groups_log) * blocks);
    const std::int64_t left = p.outputs - step.tile * tile;
#pragma unroll 2
    for (int item = threadIdx.x; item < items; item += kProjectionThreads) {
      const unsigned row = static_cast<unsigned>(item) / blocks;
      const int b = item - static_cast<int>(row * blocks);
      const int i = static_cast<int>(row % terms), g = static_cast<int>(row / terms);
      const int t = term(step, shape, i, g);
      const std::uint64_t e = p.draw(step.chunk * kFoldChunk + t, step.tile * tile);
      const int output = 4 * b - static_cast<int>(e % 4);
      if (output >= left) continue;
      const auto drawn = block(e / 4 + static_cast<unsigned>(b));
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (output + k >= 0 && output + k < tile)
          *place(slab, g, output + k, i) = projection_entry<F>(drawn.w[k], p.words);
    }
  }

  // Philox blocks lie along the terms of an output: four groups take a block's words. groups_log >=
  // 2.
  __device__ void draw_backward(const ProjectionStep& step, const ChunkShape& shape,
                                F* slab) const {
    const Projection& p = params_.p;
    const int tile_log = 8 - params_.groups_log, tile = 1 << tile_log;
    const int terms_log = 4 + shape.bodies_log;
    const int items = 1 << (tile_log + terms_log + params_.groups_log - 2);
    const std::int64_t left = p.outputs - step.tile * tile;
#pragma unroll 2
    for (int item = threadIdx.x; item < items; item += kProjectionThreads) {
      const int output = item & (tile - 1), i = item >> tile_log & ((1 << terms_log) - 1);
      const int g = item >> (tile_log + terms_log) << 2;
      if (output >= left) continue;
      const int t = term(step, shape, i, g);
      const std::uint64_t e = p.draw(step.chunk * kFoldChunk + t, step.tile * tile + output);
      PhiloxBlock<std::uint32_t> drawn = block(e / 4);
      if (e % 4 != 0) drawn = later_words(drawn, block(e / 4 + 1), static_cast<unsigned>(e % 4));
#pragma unroll
      for (int k = 0; k < 4; ++k)
        *place(slab, g + k, output, i) = projection_entry<F>(drawn.w[k], p.words);
    }
  }

  // Words `skip` to `skip + 3` of two blocks.
  __device__ static PhiloxBlock<std::uint32_t> later_words(const PhiloxBlock<std::uint32_t>& a,
                                                           const PhiloxBlock<std::uint32_t>& b,
                                                           unsigned skip) {
    PhiloxBlock<std::uint32_t> words{};
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      words.w[k] = k + skip < 4 ? pick(a, k + skip) : pick(b, k + skip - 4);
    return words;
  }

  const ProjectionParams& params_;
  const Sequence s_;
  const PhiloxKeys keys_;
};

}  // namespace twinops
