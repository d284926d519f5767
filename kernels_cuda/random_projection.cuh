// The kernel of random_projection and its gradient.
//
// A block computes 32 rows by 64 outputs. Of each chunk of 1024 terms it draws the entries of R
// into shared memory once, a byte for four of them (a bit that an entry is not 0, a bit that it is
// negative), and uses them for all its rows; R itself is never in memory. A thread owns one output
// of eight rows and holds its sums in registers.
//
// Memory: x is read once for every 64 outputs, y written once. Order: numerics/fold.hpp. A chunk
// goes in sixteen parts of 64 terms, every 16th each, in the order that makes parts and chunks one
// tree of neighbours; a part's 64 terms are folded in registers. Terms whose entry is 0 are +0,
// which changes no sum but for the sign of a zero.
#pragma once

#include <algorithm>

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/launch.cuh"
#include "numerics/fold.hpp"
#include "operators/random_projection.hpp"

namespace twinops {

inline constexpr int kProjectionThreads = 256;
inline constexpr int kProjectionTile = 64;  // outputs of a block
inline constexpr int kProjectionRows = 32;  // rows of a block
inline constexpr int kThreadRows = kProjectionRows * kProjectionTile / kProjectionThreads;
inline constexpr int kProjectionParts = 16, kProjectionPart = kFoldChunk / kProjectionParts;

template <class F>
struct ProjectionShared {
  // Forward: a term's entries for outputs 4 i to 4 i + 3. Backward: an output's, for terms 4 i on.
  std::uint8_t forward[kFoldChunk][kProjectionTile / 4];
  F x[kProjectionRows][kProjectionPart];

  // The byte that holds entry (t, o), and the entry's bit in it.
  template <bool kBackward>
  __device__ std::uint8_t& byte(int t, int o) {
    if constexpr (kBackward)
      return (&forward[0][0])[t / 4 * kProjectionTile + o];
    else
      return forward[t][o / 4];
  }
};

// Four entries that follow one another: low bits of those that are not 0, high bits of those that
// are negative; none from `count` on.
__device__ inline std::uint8_t draw_four(const Projection& p, const Sequence& sequence,
                                         std::uint64_t e, int count) {
  WordReader reader(RandomLayout::contiguous, 1);
  std::uint32_t bits = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (j >= count) break;
    const std::uint32_t word = reader.word(sequence, e + static_cast<std::uint64_t>(j));
    if (is_plus_one(word, p.words)) bits |= 1u << j;
    if (is_minus_one(word, p.words)) bits |= 17u << j;
  }
  return static_cast<std::uint8_t>(bits);
}

__device__ inline int at_most(std::int64_t n, int most) {
  return n < most ? static_cast<int>(n) : most;
}

// Fills the entries of terms [first, first + kFoldChunk) and of the tile's outputs; those that are
// not in the matrix are 0.
template <bool kBackward, class F>
__device__ void draw_entries(const Projection& p, const Sequence& sequence, std::int64_t first,
                             std::int64_t output, ProjectionShared<F>& shared) {
  const int terms = at_most(p.terms - first, kFoldChunk);
  const int outputs = at_most(p.outputs - output, kProjectionTile);
  for (int i = threadIdx.x; i < kFoldChunk * kProjectionTile / 4; i += kProjectionThreads) {
    const int t = kBackward ? i / kProjectionTile * 4 : i / (kProjectionTile / 4);
    const int o = kBackward ? i % kProjectionTile : i % (kProjectionTile / 4) * 4;
    const int count = t >= terms || o >= outputs ? 0 : kBackward ? terms - t : outputs - o;
    shared.template byte<kBackward>(t, o) =
        count == 0 ? 0 : draw_four(p, sequence, p.draw(first + t, output + o), count);
  }
}

// x, -x or +0, by an entry's two bits at the bottom of `bits` (bit 0: not 0, bit 4: negative).
__device__ inline float signed_by(std::uint32_t bits, float x) {
  const std::uint32_t keep = 0u - (bits & 1u), sign = bits << 27 & 0x80000000u;
  return __uint_as_float((__float_as_uint(x) ^ sign) & keep);
}
__device__ inline double signed_by(std::uint32_t bits, double x) {
  const std::uint64_t keep = std::uint64_t{0} - (bits & 1u);
  const std::uint64_t sign = static_cast<std::uint64_t>(bits & 16u) << 59;
  return __longlong_as_double(
      static_cast<long long>((static_cast<std::uint64_t>(__double_as_longlong(x)) ^ sign) & keep));
}

// Where a row begins.
__device__ inline std::int64_t projection_row(const Projection& p, int operand, std::int64_t row) {
  std::int64_t offset = 0;
  for (int axis = p.outer.rank - 1; axis >= 0; --axis) {
    const std::int64_t index = axis == 0 ? row : row % p.outer.size[axis];
    if (axis != 0) row /= p.outer.size[axis];
    offset += index * p.outer.stride[operand][axis];
  }
  return offset;
}

// A part of the chunk from `first` on, of all rows, in compute type; +0 where there is none.
template <class T>
__device__ void load_part(const Projection& p, std::int64_t row, std::int64_t first, int part,
                          ProjectionShared<compute_t<T>>& shared) {
  for (int i = threadIdx.x; i < kProjectionRows * kProjectionPart; i += kProjectionThreads) {
    const int r = i / kProjectionPart, q = i % kProjectionPart;
    const std::int64_t t = first + part + q * kProjectionParts;
    compute_t<T> x(0);
    if (row + r < p.rows && t < p.terms)
      x = widen(static_cast<const T*>(p.x)[projection_row(p, 1, row + r) + t * p.x_step]);
    shared.x[r][q] = x;
  }
}

template <class F>
__device__ __forceinline__ F fold_eight(const F (&s)[8]) {
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

// The fold of terms c, c + 8, ... of a part, for one output of the thread's rows.
template <bool kBackward, class F>
__device__ __forceinline__ void fold_eighth(ProjectionShared<F>& shared, int part, int c,
                                            int output, int first_row, F (&sums)[kThreadRows]) {
  std::uint32_t bits[8];
#pragma unroll
  for (int m = 0; m < 8; ++m) {
    const int t = part + (c + 8 * m) * kProjectionParts;
    bits[m] = static_cast<std::uint32_t>(shared.template byte<kBackward>(t, output)) >>
              (kBackward ? t % 4 : output % 4);
  }
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    F terms[8];
#pragma unroll
    for (int m = 0; m < 8; ++m) terms[m] = signed_by(bits[m], shared.x[first_row + r][c + 8 * m]);
    sums[r] = fold_eight(terms);
  }
}

// The fold of a part: its eighths as they are folded, 0 with 4, 2 with 6, ..., so that few are
// held.
template <bool kBackward, class F>
__device__ __forceinline__ void fold_part(ProjectionShared<F>& shared, int part, int output,
                                          int first_row, F (&sums)[kThreadRows]) {
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    F halves[kThreadRows];
#pragma unroll 1
    for (int quarter = half; quarter < 4; quarter += 2) {
      F a[kThreadRows], b[kThreadRows];
      fold_eighth<kBackward>(shared, part, quarter, output, first_row, a);
      fold_eighth<kBackward>(shared, part, quarter + 4, output, first_row, b);
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r)
        halves[r] = quarter == half ? a[r] + b[r] : halves[r] + (a[r] + b[r]);
    }
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) sums[r] = half == 0 ? halves[r] : sums[r] + halves[r];
  }
}

template <class T, bool kBackward>
__global__ void __launch_bounds__(kProjectionThreads)
    projection_kernel(const __grid_constant__ Projection p, std::int64_t row_blocks,
                      std::int64_t tiles) {
  using F = compute_t<T>;
  __shared__ ProjectionShared<F> shared;
  const Sequence sequence = p.random.sequence();
  const int o = threadIdx.x % kProjectionTile;
  const int first_row = static_cast<int>(threadIdx.x) / kProjectionTile * kThreadRows;
  for (std::int64_t tile = blockIdx.x; tile < row_blocks * tiles; tile += gridDim.x) {
    const std::int64_t row = tile % row_blocks * kProjectionRows;
    const std::int64_t output = tile / row_blocks * kProjectionTile;
    ChunkTree<F> trees[kThreadRows];
    for (std::int64_t first = 0; first < p.terms; first += kFoldChunk) {
      __syncthreads();  // the entries before are in use
      draw_entries<kBackward>(p, sequence, first, output, shared);
#pragma unroll 1
      for (int k = 0; k < kProjectionParts; ++k) {
        const int part = static_cast<int>(__brev(static_cast<unsigned>(k)) >> 28);
        __syncthreads();  // the part before is in use
        load_part<T>(p, row, first, part, shared);
        __syncthreads();
        F sums[kThreadRows];
        fold_part<kBackward>(shared, part, o, first_row, sums);
        for (int r = 0; r < kThreadRows; ++r) trees[r].add(sums[r]);
      }
    }
    if (output + o >= p.outputs) continue;
    for (int r = 0; r < kThreadRows; ++r) {
      if (row + first_row + r >= p.rows) break;
      static_cast<T*>(p.y)[projection_row(p, 0, row + first_row + r) + (output + o) * p.y_step] =
          narrow<T>(projected(trees[r].total(), static_cast<F>(p.scale)));
    }
  }
}

template <bool kBackward>
void project_on_cuda(const Projection& p, Execution& execution) {
  execution.random_words = p.random.words;
  if (p.rows == 0 || p.outputs == 0) return;
  const CurrentDevice current(execution.device.index);
  const std::int64_t row_blocks = (p.rows + kProjectionRows - 1) / kProjectionRows;
  const std::int64_t tiles = (p.outputs + kProjectionTile - 1) / kProjectionTile;
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>(row_blocks * tiles, std::int64_t{1} << 20));
  with_floating_type(p.type, [&]<class T>(TypeTag<T>) {
    projection_kernel<T, kBackward>
        <<<blocks, kProjectionThreads, 0, static_cast<cudaStream_t>(execution.stream)>>>(
            p, row_blocks, tiles);
  });
  check(cudaGetLastError(), "launch of random_projection");
  ++execution.launches;
}

}  // namespace twinops
