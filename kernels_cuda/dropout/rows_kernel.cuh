// Dropout of tensors whose innermost axis lies in long contiguous runs, called rows here: a seed a
// row, a shard along an inner axis, views, unaligned memory.
//
// A warp takes a tile of a row, about a thousand elements. Offsets, round keys and where the draws
// begin are found once for a tile, in uniform registers. Tiles begin and end at multiples of eight
// logical elements, so that they hold whole bytes of a bit mask. Octets that two rows share, and
// the mask's padding, are boundary octets and go to warps of their own, a lane an element.
// Memory: as in contiguous_kernel.cuh; unaligned memory in aligned words of 16 bytes that are
// shifted in registers (unaligned_io.cuh).
// Rates and what was tried: docs/lab/dropout-cuda.md#rows.
#pragma once

#include <algorithm>

#include "kernels_cuda/dropout/row_tile.cuh"
#include "kernels_cuda/dropout/strided_octet.cuh"

namespace twinops {

inline constexpr int kDropoutRowThreads = 128, kDropoutRowWarps = kDropoutRowThreads / 32;
inline constexpr std::int64_t kDropoutTile = 4096;       // elements, at most
inline constexpr std::int64_t kDropoutRowLeast = 96;     // columns; below, contiguous_octet.cuh
inline constexpr std::int64_t kDropoutManyTiles = 8192;  // enough to keep a large GPU busy

// n / d for n < 2^31 by a multiplication. Unlike FastDivide it takes d = 1, which is the usual
// number of tiles of a row.
struct DropoutDivisor {
  std::uint32_t factor, shift;

  static DropoutDivisor of(std::uint64_t d) {
    std::uint32_t log = 0;
    while (std::uint64_t{1} << log < d) ++log;
    return {static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + log)) + d - 1) / d), 31 + log};
  }
  __device__ std::uint32_t quotient(std::uint32_t n) const {
    return static_cast<std::uint32_t>(std::uint64_t{n} * factor >> shift);
  }
};

// The parameters of a launch.
struct DropoutRowsParams {
  DropoutWork work;
  std::int64_t columns;
  std::uint32_t rows, tiles_of_row, tiles, tile_elements;
  std::int64_t boundary_octets;  // of elements that no tile has, or of padding
  DropoutDivisor by_tiles, by_size[kMaxAxes];
};

// Locates tile number `tile`: one division for the row, one more for each axis beyond two.
template <bool kSums>
__device__ __forceinline__ DropoutTile place_of_tile(const DropoutRowsParams& params,
                                                     std::uint32_t tile) {
  DropoutTile t;
  std::uint32_t row = params.by_tiles.quotient(tile);
  const std::int64_t segment = tile - row * params.tiles_of_row;
  const std::int64_t start = row * params.columns;
  t.begin = (start + 7) / 8 * 8 + segment * params.tile_elements;
  const std::int64_t left = (start + params.columns) / 8 * 8 - t.begin;
  t.elements = static_cast<std::uint32_t>(
      max(std::int64_t{0}, min(left, std::int64_t{params.tile_elements})));
#pragma unroll
  for (int k = 0; k < DropoutWork::kOperands; ++k)
    t.offset[k] = k == DropoutWork::kRow ? 0 : t.begin - start;
  const auto& layout = params.work.layout;
#pragma unroll 1
  for (int axis = layout.rank - 2; axis >= 0; --axis) {
    const std::uint32_t outer = axis == 0 ? 0 : params.by_size[axis].quotient(row);
    const auto index =
        static_cast<std::int64_t>(row - outer * static_cast<std::uint32_t>(layout.size[axis]));
    row = outer;
#pragma unroll
    for (int k = 0; k < DropoutWork::kOperands; ++k) {
      const bool is_term = k == DropoutWork::kBias || k == DropoutWork::kResidual;
      if (k != DropoutWork::kLogical && (kSums || !is_term))
        t.offset[k] += index * layout.stride[k][axis];
    }
  }
  return t;
}

// Octets for eight lanes each: a lane takes part in first, first + 4, ... before end.
struct DropoutOctets {
  std::int64_t first, end;
  std::uint32_t steps;  // of the warp
};

// Boundary octet number `boundary`: one that two rows share or that ends the tensor, then the
// mask's padding.
__device__ inline DropoutOctets dropout_boundary_octets(const DropoutRowsParams& params,
                                                        std::int64_t boundary) {
  const std::int64_t ends = params.columns % 8 != 0 ? std::int64_t{params.rows} : 0;
  const std::int64_t end = (boundary + 1) * params.columns;
  std::int64_t octet = end % 8 != 0 ? end / 8 : -1;
  if (boundary >= ends) octet = (params.work.elements + 7) / 8 + boundary - ends;
  return {octet, boundary < params.boundary_octets ? octet + 1 : 0, 1};
}

// Takes a tile vector by vector. Returns no octets, or all of the tile's where the upper half of
// the Philox counter changes within it.
template <class T, MaskSource kSource, bool kUnaligned, bool kSums>
__device__ __forceinline__ DropoutOctets dropout_tile(const DropoutRowsParams& params,
                                                      const Sequence& sequence,
                                                      std::uint32_t number) {
  const DropoutWork& work = params.work;
  const std::uint32_t lane = threadIdx.x % 32;
  const DropoutTile tile = place_of_tile<kSums>(params, number);
  if (tile.elements == 0) return {};
  std::uint64_t seed = sequence.seed;
  if (is_drawn(kSource) && work.random.seeds != nullptr)
    seed = work.random.seeds[tile.offset[DropoutWork::kRow]];
  TileVectors<T, kSource, kUnaligned, kSums> vectors(work, tile);
  vectors.load(lane);
  const TileDraws<kSource> draws(
      work.random, sequence, seed,
      work.random.first + static_cast<std::uint64_t>(tile.offset[DropoutWork::kDraw]));
  if (!draws.draws.template reaches<kSource>(std::int64_t{tile.elements} + 8))
    return {tile.begin / 8 + lane / 8, (tile.begin + tile.elements) / 8, (tile.elements + 31) / 32};
#pragma unroll 1
  for (std::uint32_t vector = 0;;) {
    vectors.finish(draws, vector + lane);
    vector += 32 * kDropoutInFlight;
    if (vector >= vectors.vectors()) return {};
    vectors.load(vector + lane);
  }
}

template <class T, MaskSource kSource, bool kUnaligned, bool kSums>
__global__ void __launch_bounds__(kDropoutRowThreads)
    dropout_rows_kernel(const __grid_constant__ DropoutRowsParams params) {
  const Sequence sequence = params.work.random.sequence();
  const std::uint32_t number =
      blockIdx.x * static_cast<unsigned>(kDropoutRowWarps) + uniform_word(threadIdx.x / 32);
  const DropoutOctets octets =
      number < params.tiles
          ? dropout_tile<T, kSource, kUnaligned, kSums>(params, sequence, number)
          : dropout_boundary_octets(params,
                                    std::int64_t{number - params.tiles} * 4 + threadIdx.x % 32 / 8);
#pragma unroll 1
  for (std::uint32_t step = 0; step < octets.steps; ++step) {
    const std::int64_t octet = octets.first + 4 * step;
    dropout_octet_of_lanes<T, layout_of(kSource)>(params.work, sequence,
                                                  octet < octets.end ? octet : -1);
  }
}

// Whether every operand is contiguous along the innermost axis, and draw indexes follow one another
// there, in a layout that is drawn by octets.
inline bool has_contiguous_runs(const DropoutWork& work) {
  const auto& layout = work.layout;
  if (layout.rank == 0 || layout.size[layout.rank - 1] < 8) return false;
  const auto step = [&](int operand) { return layout.stride[operand][layout.rank - 1]; };
  return step(DropoutWork::kX) == 1 && step(DropoutWork::kY) == 1 &&
         (work.bias == nullptr || step(DropoutWork::kBias) == 1) &&
         (work.residual == nullptr || step(DropoutWork::kResidual) == 1) &&
         (work.source != DropoutWork::Source::draw ||
          (work.random.layout != RandomLayout::torch && step(DropoutWork::kDraw) == 1 &&
           (work.random.seeds == nullptr || step(DropoutWork::kRow) == 0)));
}

// Whether all octets are aligned in memory.
template <class T>
bool dropout_rows_are_aligned(const DropoutWork& work) {
  const auto& layout = work.layout;
  const auto aligned = [&](const void* p, int operand) {
    auto beyond = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p) % 16);
    for (int axis = 0; axis < layout.rank - 1; ++axis)
      beyond |= (layout.stride[operand][axis] - layout.stride[DropoutWork::kLogical][axis]) *
                static_cast<std::int64_t>(sizeof(T)) % 16;
    return p == nullptr || beyond == 0;
  };
  return aligned(work.x, DropoutWork::kX) && aligned(work.y, DropoutWork::kY) &&
         aligned(work.bias, DropoutWork::kBias) && aligned(work.residual, DropoutWork::kResidual);
}

// Launches the kernel if it can take the call. Returns whether it did.
template <class T, bool kSums>
bool launch_dropout_rows(const DropoutWork& work, std::int64_t octets, cudaStream_t stream) {
  const auto& layout = work.layout;
  if (!has_contiguous_runs(work) || layout.size[layout.rank - 1] < kDropoutRowLeast) return false;
  const std::int64_t columns = layout.size[layout.rank - 1], rows = work.elements / columns;
  std::int64_t tile = kDropoutTile, tiles_of_row = 0;
  for (;; tile /= 2) {
    tiles_of_row = (columns + tile - 1) / tile;
    if (tile <= 32 * kDropoutInFlight * kDropoutVectorElements<T> ||
        rows * tiles_of_row >= kDropoutManyTiles)
      break;
  }
  const std::int64_t tiles = rows * tiles_of_row;
  DropoutRowsParams params{};
  params.work = work;
  params.columns = columns;
  params.boundary_octets = (columns % 8 != 0 ? rows : 0) + octets - (work.elements + 7) / 8;
  const std::int64_t warps = tiles + (params.boundary_octets + 3) / 4;
  if (warps >= std::int64_t{1} << 31) return false;
  params.rows = static_cast<std::uint32_t>(rows);
  params.tiles_of_row = static_cast<std::uint32_t>(tiles_of_row);
  params.tiles = static_cast<std::uint32_t>(tiles);
  params.tile_elements = static_cast<std::uint32_t>(tile);
  params.by_tiles = DropoutDivisor::of(static_cast<std::uint64_t>(tiles_of_row));
  for (int axis = 1; axis < layout.rank - 1; ++axis)
    params.by_size[axis] = DropoutDivisor::of(static_cast<std::uint64_t>(layout.size[axis]));
  const auto blocks = static_cast<unsigned>((warps + kDropoutRowWarps - 1) / kDropoutRowWarps);
  const auto go = [&]<MaskSource kSource, bool kUnaligned>() {
    launch_grid("launch of dropout", dropout_rows_kernel<T, kSource, kUnaligned, kSums>, blocks,
                kDropoutRowThreads, 0, stream, params);
  };
  const bool aligned = dropout_rows_are_aligned<T>(work);
  if (work.source != DropoutWork::Source::draw) {
    if (aligned)
      go.template operator()<MaskSource::mask, false>();
    else
      go.template operator()<MaskSource::mask, true>();
  } else if (work.random.layout == RandomLayout::contiguous) {
    if (aligned)
      go.template operator()<MaskSource::contiguous, false>();
    else
      go.template operator()<MaskSource::contiguous, true>();
  } else if (work.random.layout == RandomLayout::strided) {  // rarer layouts share one kernel
    go.template operator()<MaskSource::strided, true>();
  } else {
    go.template operator()<MaskSource::triton, true>();
  }
  return true;
}

}  // namespace twinops
