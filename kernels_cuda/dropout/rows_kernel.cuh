// Dropout where the tensor is not one aligned piece, but lies in long runs: rows of a matrix with a
// seed each, a shard along an inner axis, views, memory that is not aligned.
//
// A row is what the innermost axis walks. A warp takes a tile of a row, about a thousand elements:
// where its operands lie, its seed's round keys and where its draws begin are found once, in
// uniform registers. Then it goes along the row in packs, two in flight a thread. Tiles begin and
// end at multiples of eight logical elements, so that bytes of mask are whole; the eight elements
// that two rows share (rows of a length that is no multiple of eight) and the mask's padding are
// taken by warps of their own, a lane an element.
//
// Memory that is not aligned is read and written in aligned words of 16 bytes that are shifted in
// registers (dropout_shift.cuh). Draws that do not begin at a multiple of four shift the bits of
// what is kept, not the words: one bit an element goes from lane to lane, and a warp draws one
// group of four more for two packs.
//
// On an H200, 2^28 elements, of the rate of a copy: 0.84 to 0.85 in 16 bits and 0.90 in float32
// with a seed a row of 1024 or a shard of 1024 columns, 0.66 and 0.86 where both tensors are
// unaligned (0.86 in 16 bits where a bit mask is read): instructions are the limit. Tried and no
// faster: registers cut to 48, so that ten blocks fit a multiprocessor; three packs in flight.
#pragma once

#include <algorithm>

#include "kernels_cuda/dropout/element_walk.cuh"
#include "kernels_cuda/dropout/row_tile.cuh"

namespace twinops {

inline constexpr int kDropoutRowThreads = 128, kDropoutRowWarps = kDropoutRowThreads / 32;
inline constexpr std::int64_t kDropoutTile = 4096;       // elements of a warp, at most
inline constexpr std::int64_t kDropoutRowLeast = 96;     // columns; below, dropout_run.cuh
inline constexpr std::int64_t kDropoutManyTiles = 8192;  // that keep a large GPU busy

// n / d for n < 2^31 by a multiplication.
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

struct DropoutRows {
  DropoutWork work;
  std::int64_t columns;
  std::uint32_t rows, tiles_of_row, tiles, tile_elements;
  std::int64_t edges;  // bytes of mask, with its padding, that no tile has
  DropoutDivisor by_tiles, by_size[kMaxAxes];
};

// Tile number `tile`: one division for the row, one more for each axis beyond two.
template <bool kSums>
__device__ __forceinline__ DropoutTile place_of_tile(const DropoutRows& launch,
                                                     std::uint32_t tile) {
  DropoutTile t;
  std::uint32_t row = launch.by_tiles.quotient(tile);
  const std::int64_t segment = tile - row * launch.tiles_of_row;
  const std::int64_t start = row * launch.columns;
  t.begin = (start + 7) / 8 * 8 + segment * launch.tile_elements;
  const std::int64_t left = (start + launch.columns) / 8 * 8 - t.begin;
  t.elements = static_cast<std::uint32_t>(
      max(std::int64_t{0}, min(left, std::int64_t{launch.tile_elements})));
#pragma unroll
  for (int k = 0; k < DropoutWork::kOperands; ++k)
    t.offset[k] = k == DropoutWork::kRow ? 0 : t.begin - start;
  const auto& walk = launch.work.walk;
#pragma unroll 1
  for (int axis = walk.rank - 2; axis >= 0; --axis) {
    const std::uint32_t outer = axis == 0 ? 0 : launch.by_size[axis].quotient(row);
    const auto index =
        static_cast<std::int64_t>(row - outer * static_cast<std::uint32_t>(walk.size[axis]));
    row = outer;
#pragma unroll
    for (int k = 0; k < DropoutWork::kOperands; ++k) {
      const bool is_term = k == DropoutWork::kBias || k == DropoutWork::kResidual;
      if (k != DropoutWork::kLogical && (kSums || !is_term))
        t.offset[k] += index * walk.stride[k][axis];
    }
  }
  return t;
}

// Units of eight elements, by eight lanes each: of a lane first, first + 4, ... before end.
struct DropoutUnits {
  std::int64_t first, end;
  std::uint32_t steps;  // of the warp
};

// What no tile has: eight elements that lie in two rows or end the tensor, and padding of the mask.
__device__ inline DropoutUnits dropout_edges(const DropoutRows& launch, std::int64_t edge) {
  const std::int64_t ends = launch.columns % 8 != 0 ? std::int64_t{launch.rows} : 0;
  const std::int64_t end = (edge + 1) * launch.columns;
  std::int64_t unit = end % 8 != 0 ? end / 8 : -1;
  if (edge >= ends) unit = (launch.work.elements + 7) / 8 + edge - ends;
  return {unit, edge < launch.edges ? unit + 1 : 0, 1};
}

// A tile by packs; or what is left of it for others, where the upper half of its blocks' numbers is
// not the same.
template <class T, PackSource kSource, bool kShifted, bool kSums>
__device__ __forceinline__ DropoutUnits dropout_tile(const DropoutRows& launch,
                                                     const Sequence& sequence,
                                                     std::uint32_t number) {
  const DropoutWork& work = launch.work;
  const std::uint32_t lane = threadIdx.x % 32;
  const DropoutTile tile = place_of_tile<kSums>(launch, number);
  if (tile.elements == 0) return {};
  std::uint64_t seed = sequence.seed;
  if (is_drawn(kSource) && work.random.seeds != nullptr)
    seed = work.random.seeds[tile.offset[DropoutWork::kRow]];
  TilePacks<T, kSource, kShifted, kSums> packs(work, tile);
  packs.load(lane);
  const TileDraws<kSource> draws(
      work.random, sequence, seed,
      work.random.first + static_cast<std::uint64_t>(tile.offset[DropoutWork::kDraw]));
  if (!draws.draws.template reaches<kSource>(std::int64_t{tile.elements} + 8))
    return {tile.begin / 8 + lane / 8, (tile.begin + tile.elements) / 8, (tile.elements + 31) / 32};
#pragma unroll 1
  for (std::uint32_t pack = 0;;) {
    packs.finish(draws, pack + lane);
    pack += 32 * kDropoutFlight;
    if (pack >= packs.packs()) return {};
    packs.load(pack + lane);
  }
}

template <class T, PackSource kSource, bool kShifted, bool kSums>
__global__ void __launch_bounds__(kDropoutRowThreads)
    dropout_rows_kernel(const __grid_constant__ DropoutRows launch) {
  const Sequence sequence = launch.work.random.sequence();
  const std::uint32_t number =
      blockIdx.x * static_cast<unsigned>(kDropoutRowWarps) + uniform_word(threadIdx.x / 32);
  const DropoutUnits units =
      number < launch.tiles
          ? dropout_tile<T, kSource, kShifted, kSums>(launch, sequence, number)
          : dropout_edges(launch, std::int64_t{number - launch.tiles} * 4 + threadIdx.x % 32 / 8);
#pragma unroll 1
  for (std::uint32_t step = 0; step < units.steps; ++step) {
    const std::int64_t unit = units.first + 4 * step;
    dropout_unit_of_lanes<T>(launch.work, sequence, unit < units.end ? unit : -1);
  }
}

// Whether what the innermost axis walks lies in runs, and draws follow one another along it.
inline bool goes_by_runs(const DropoutWork& work) {
  const auto& walk = work.walk;
  if (walk.rank == 0 || walk.size[walk.rank - 1] < 8) return false;
  const auto step = [&](int operand) { return walk.stride[operand][walk.rank - 1]; };
  return step(DropoutWork::kX) == 1 && step(DropoutWork::kY) == 1 &&
         (work.bias == nullptr || step(DropoutWork::kBias) == 1) &&
         (work.residual == nullptr || step(DropoutWork::kResidual) == 1) &&
         (work.source != DropoutWork::Source::draw ||
          (step(DropoutWork::kDraw) == 1 &&
           (work.random.seeds == nullptr || step(DropoutWork::kRow) == 0)));
}

// Whether every eight logical elements that begin at a multiple of eight are aligned in memory.
template <class T>
bool dropout_rows_are_aligned(const DropoutWork& work) {
  const auto& walk = work.walk;
  const auto aligned = [&](const void* p, int operand) {
    auto beyond = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p) % 16);
    for (int axis = 0; axis < walk.rank - 1; ++axis)
      beyond |= (walk.stride[operand][axis] - walk.stride[DropoutWork::kLogical][axis]) *
                static_cast<std::int64_t>(sizeof(T)) % 16;
    return p == nullptr || beyond == 0;
  };
  return aligned(work.x, DropoutWork::kX) && aligned(work.y, DropoutWork::kY) &&
         aligned(work.bias, DropoutWork::kBias) && aligned(work.residual, DropoutWork::kResidual);
}

// Launches the kernel, where it can take the tensor; returns whether it did.
template <class T, bool kSums>
bool launch_dropout_rows(const DropoutWork& work, std::int64_t units, cudaStream_t stream) {
  const auto& walk = work.walk;
  if (!goes_by_runs(work) || walk.size[walk.rank - 1] < kDropoutRowLeast) return false;
  const std::int64_t columns = walk.size[walk.rank - 1], rows = work.elements / columns;
  std::int64_t tile = kDropoutTile, tiles_of_row = 0;
  for (;; tile /= 2) {
    tiles_of_row = (columns + tile - 1) / tile;
    if (tile <= 32 * kDropoutFlight * kDropoutElements<T> ||
        rows * tiles_of_row >= kDropoutManyTiles)
      break;
  }
  const std::int64_t tiles = rows * tiles_of_row;
  DropoutRows launch{};
  launch.work = work;
  launch.columns = columns;
  launch.edges = (columns % 8 != 0 ? rows : 0) + units - (work.elements + 7) / 8;
  const std::int64_t warps = tiles + (launch.edges + 3) / 4;
  if (warps >= std::int64_t{1} << 31) return false;
  launch.rows = static_cast<std::uint32_t>(rows);
  launch.tiles_of_row = static_cast<std::uint32_t>(tiles_of_row);
  launch.tiles = static_cast<std::uint32_t>(tiles);
  launch.tile_elements = static_cast<std::uint32_t>(tile);
  launch.by_tiles = DropoutDivisor::of(static_cast<std::uint64_t>(tiles_of_row));
  for (int axis = 1; axis < walk.rank - 1; ++axis)
    launch.by_size[axis] = DropoutDivisor::of(static_cast<std::uint64_t>(walk.size[axis]));
  const auto blocks = static_cast<unsigned>((warps + kDropoutRowWarps - 1) / kDropoutRowWarps);
  const auto go = [&]<PackSource kSource, bool kShifted>() {
    launch_grid("launch of dropout", dropout_rows_kernel<T, kSource, kShifted, kSums>, blocks,
                kDropoutRowThreads, 0, stream, launch);
  };
  const bool aligned = dropout_rows_are_aligned<T>(work);
  if (work.source != DropoutWork::Source::draw) {
    if (aligned)
      go.template operator()<PackSource::mask, false>();
    else
      go.template operator()<PackSource::mask, true>();
  } else if (work.random.layout == RandomLayout::contiguous) {
    if (aligned)
      go.template operator()<PackSource::contiguous, false>();
    else
      go.template operator()<PackSource::contiguous, true>();
  } else if (work.random.layout == RandomLayout::strided) {  // of the rarer layouts one will do
    go.template operator()<PackSource::strided, true>();
  } else {
    go.template operator()<PackSource::triton, true>();
  }
  return true;
}

}  // namespace twinops
