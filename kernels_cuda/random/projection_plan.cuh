// How random_projection is divided into blocks on a GPU. The kernel: random_projection.cuh.
#pragma once

#include <algorithm>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/random/projection_draw.cuh"
#include "operators/execution.hpp"

namespace twinops {

struct ProjectionPlan {
  ProjectionParams params;
  std::int64_t row_blocks, tile_blocks;
  int splits;
  std::size_t shared, scratch;  // bytes
};

// The clocks that a plan takes, by a model: what a block's sums and draws issue, the bytes of x
// that it loads, and the scratch memory of splits.
inline double plan_clocks(const ProjectionPlan& plan, int rows_of_block, std::size_t size,
                          int multiprocessors) {
  const ProjectionParams& l = plan.params;
  const double terms = static_cast<double>(std::min<std::int64_t>(
                   std::max<std::int64_t>(l.p.terms, kProjectionBody), l.of_split * kFoldChunk)),
               outputs = l.outputs_of_tile(), rows = rows_of_block;
  const double of_tile = terms * outputs * (rows * 1.5 / 128 + 0.2) + 4000;
  const double of_x = terms * rows * static_cast<double>(size) / 24;
  const auto tiles = static_cast<double>((l.tiles + plan.tile_blocks - 1) / plan.tile_blocks);
  const double of_block = tiles * of_tile + (l.of_split == 1 ? 1 : tiles) * of_x;
  const std::int64_t blocks = plan.row_blocks * plan.tile_blocks * plan.splits;
  const auto waves = static_cast<double>((blocks + multiprocessors - 1) / multiprocessors);
  const double scratch =
      plan.splits == 1 ? 0 : 8000 + 2.0 * static_cast<double>(plan.scratch) / 24 / multiprocessors;
  return waves * of_block + scratch;
}

// Divides shared memory: two slabs, a level of the bodies' tree, and as much of a chunk of x as
// fits.
inline void plan_shared(ProjectionPlan& plan, std::size_t size, int rows_of_block, int device) {
  const int most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  ProjectionParams& l = plan.params;
  const std::int64_t longest = std::min<std::int64_t>(l.p.terms, kFoldChunk);
  std::int64_t terms = kProjectionBody << l.groups_log;
  while (terms < longest) terms *= 2;
  const auto available = static_cast<std::size_t>(most) - 1024;
  for (int i = 0; i < 3; ++i) {
    l.bodies_log = i == 0 && size == sizeof(float) ? 1 : 0;
    l.third_level = i < 2;
    const std::size_t fixed =
        size * static_cast<std::size_t>(2 * l.slab_size() +
                                        (l.third_level ? kProjectionThreads * rows_of_block : 0));
    for (l.passes_log = 0; l.passes_log < 6; ++l.passes_log) {
      const auto part =
          std::max<std::int64_t>(terms >> l.passes_log, l.slab_terms() << l.groups_log);
      plan.shared = fixed + size * static_cast<std::size_t>(part * rows_of_block);
      if (plan.shared <= available) return;
    }
  }  // if nothing fits, the launch fails
}

inline ProjectionPlan plan_projection(const Projection& p, int rows_of_block, std::size_t size,
                                      bool has_scratch, int device) {
  const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  ProjectionPlan plan{};
  ProjectionParams& l = plan.params;
  l.p = p;
  l.chunks = std::max<std::int64_t>(1, (p.terms + kFoldChunk - 1) / kFoldChunk);
  plan.row_blocks = (p.rows + rows_of_block - 1) / rows_of_block;

  ProjectionPlan best{};
  double least = 0;
  const auto consider = [&] {
    const double clocks = plan_clocks(plan, rows_of_block, size, multiprocessors);
    if (best.splits != 0 && clocks >= least) return;
    least = clocks;
    best = plan;
  };
  // At most as many groups as a thread has rows in a batch of end_chunk().
  for (l.groups_log = p.backward ? 2 : 0; l.groups_log <= 2; ++l.groups_log) {
    const std::int64_t tile = l.outputs_of_tile();
    l.tiles = (p.outputs + tile - 1) / tile;
    constexpr std::int64_t kMostChunks = std::int64_t{1} << kChunkLevels;
    std::int64_t all = 1;
    while (all < l.chunks) all *= 2;
    for (l.of_split = std::min(all, kMostChunks); l.of_split > 0; l.of_split /= 2) {
      const std::int64_t splits = (l.chunks + l.of_split - 1) / l.of_split;
      if (splits > 1024 && l.of_split != kMostChunks) break;
      plan.splits = static_cast<int>(splits);
      plan.scratch = splits == 1 ? 0 : static_cast<std::size_t>(splits * p.rows * p.outputs) * size;
      const std::int64_t blocks = plan.row_blocks * splits;
      for (std::int64_t waves = 1; waves <= 4; ++waves) {
        plan.tile_blocks = std::clamp<std::int64_t>(waves * multiprocessors / blocks, 1,
                                                    std::min<std::int64_t>(l.tiles, 65535));
        consider();
      }
      // Without scratch memory one block takes all chunks, unless they are too many for it.
      if (!has_scratch || blocks >= 2 * multiprocessors) break;
    }
  }
  plan_shared(best, size, rows_of_block, device);
  return best;
}

}  // namespace twinops
