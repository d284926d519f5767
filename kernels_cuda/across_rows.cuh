// Rows that lie across memory, as along axis 1 of [N, C, H, W]: the elements of a row are `step`
// apart, and neighbouring rows lie side by side.
//
// Threads follow memory. 2^k lanes of a warp hold V neighbouring rows each, which is as wide as an
// access is; the warp's other lanes, its registers and the other warps that share a chunk hold
// further elements of the same rows:
//
//   element of a chunk   b9 ...        ... b0
//                        register | lanes | warp
//
// so the fold of docs/numerics.md, from the top index bit down, adds registers first, then lanes,
// then warps, by way of shared memory. A short row takes no more than one warp. What lies beyond a
// row is +0, so any power of two that covers it gives the same bits.
#pragma once

#include "kernels_cuda/row_fold.cuh"
#include "kernels_cuda/row_launch.cuh"
#include "kernels_cuda/row_starts.cuh"
#include "operators/softmax_rows.hpp"

namespace twinops {

// A tile is `lanes` * V rows, of which a block takes `at_once` chunks at a time. Tiles whose rows
// are one warp's stand several in a block.
struct AcrossPlan {
  int lanes_log;  // 2^: lanes of a warp that lie side by side
  int warps_log;  // 2^: warps that share a chunk
  int at_once;
  int chunks;  // of a row
  int tiles;   // of a block

  TWINOPS_INLINE int lanes() const { return 1 << lanes_log; }
  TWINOPS_INLINE int warps() const { return 1 << warps_log; }
  TWINOPS_INLINE int places() const { return kWarp >> lanes_log; }
  TWINOPS_INLINE int threads() const { return tiles * at_once * warps() * kWarp; }
};

// V rows of one thread at one element: words, or an element.
template <class T, int V>
struct RowsAcross {
  using type = Words<T, V>;
};
template <class T>
struct RowsAcross<T, 1> {
  using type = T;
};
template <class T, int V>
using rows_across_t = typename RowsAcross<T, V>::type;

template <class T, int V>
__device__ __forceinline__ rows_across_t<T, V> read_across(const T* from) {
  if constexpr (V == 1) {
    return *from;
  } else if constexpr (Words<T, V>::kCount == 2) {
    const uint2 words = *reinterpret_cast<const uint2*>(from);
    return {{words.x, words.y}};
  } else {
    const uint4 words = *reinterpret_cast<const uint4*>(from);
    return {{words.x, words.y, words.z, words.w}};
  }
}
template <int V, class T>
__device__ __forceinline__ rows_across_t<T, V> fill_across(T value) {
  if constexpr (V == 1) {
    return value;
  } else {
    struct alignas(V * sizeof(T)) Elements {
      T of[V];
    } elements;
    for (int v = 0; v < V; ++v) elements.of[v] = value;
    return bit_cast<Words<T, V>>(elements);
  }
}
template <class T>
__device__ __forceinline__ void widen_across(T element, compute_t<T> (&x)[1]) {
  x[0] = widen(element);
}
template <class T, int V>
__device__ __forceinline__ void widen_across(const Words<T, V>& words, compute_t<T> (&x)[V]) {
#pragma unroll
  for (int i = 0; i < Words<T, V>::kCount; ++i) {
    if constexpr (sizeof(T) == 2) {
      const float2 two = widen_two(words.of[i], T{});
      x[2 * i] = two.x;
      x[2 * i + 1] = two.y;
    } else if constexpr (sizeof(T) == 4) {
      x[i] = __uint_as_float(words.of[i]);
    } else if (i % 2 == 0) {
      x[i / 2] = __hiloint2double(static_cast<int>(words.of[i + 1]), static_cast<int>(words.of[i]));
    }
  }
}
// kNumbers: y is no NaN, or the canonical one where the hardware keeps it so.
template <bool kNumbers, class T, int V>
__device__ __forceinline__ void write_across(T* to, compute_t<T> (&y)[V]) {
  if constexpr (V == 1)
    *to = narrow<T>(y[0]);
  else
    write_words(to, narrow_words<T, V, kNumbers>(y));
}

// Where a thread is: which rows are its own, and which elements of a chunk.
template <int V>
struct AcrossPlace {
  int side;             // its lanes' number among those side by side
  int place;            // ... and along the row
  int warp;             // of those that share a chunk
  int group;            // which of the chunks at once
  std::uint32_t row;    // the first of V
  bool inside;          // rows beyond the last are not
  int first, step_log;  // element of register k: first + (k << step_log)

  __device__ __forceinline__ AcrossPlace(const AcrossPlan& plan, std::int64_t rows) {
    const int lane = threadIdx.x % kWarp, number = static_cast<int>(threadIdx.x) / kWarp;
    side = lane & (plan.lanes() - 1);
    place = lane >> plan.lanes_log;
    warp = number & (plan.warps() - 1);
    group = plan.tiles == 1 ? number >> plan.warps_log : 0;
    const std::uint32_t tile = blockIdx.x * plan.tiles + (plan.tiles == 1 ? 0 : number);
    row = ((tile << plan.lanes_log) + side) * V;
    inside = row < static_cast<std::uint32_t>(rows);
    first = place << plan.warps_log | warp;
    step_log = plan.warps_log + 5 - plan.lanes_log;
  }
  // How many registers hold something, if `left` elements of a chunk are the row's. The same for
  // all threads.
  __device__ __forceinline__ int registers(int left) const {
    return (left + (1 << step_log) - 1) >> step_log;
  }
};

// Where row `row` of each operand begins.
template <int N>
struct AcrossStarts {
  std::int64_t of[N];
};
template <int N>
__device__ __forceinline__ AcrossStarts<N> across_starts(const Layout<N>& outer,
                                                         std::uint32_t row) {
  AcrossStarts<N> starts;
#pragma unroll
  for (int k = 0; k < N; ++k) starts.of[k] = 0;
#pragma unroll 1
  for (int axis = outer.rank - 1; axis >= 0; --axis) {
    const auto size = static_cast<std::uint32_t>(outer.size[axis]);
    const std::uint32_t next = axis == 0 ? 0 : row / size, index = row - next * size;
#pragma unroll
    for (int k = 0; k < N; ++k) starts.of[k] += index * outer.stride[k][axis];
    row = next;
  }
  return starts;
}

// K registers of V rows, from `at` on, elements `step` apart: those of `left` that are the row's.
template <int V, int K, class T>
__device__ __forceinline__ void load_across(const AcrossPlace<V>& of, const T* at,
                                            std::int64_t step, int left, T pad,
                                            rows_across_t<T, V> (&packs)[K]) {
  at += of.first * step;
  left = of.inside ? left - of.first : 0;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    packs[k] = fill_across<V>(pad);
    if (k << of.step_log < left) packs[k] = read_across<T, V>(at);
    at += step << of.step_log;
  }
}
// Stores value(k, y) in the same places.
template <bool kNumbers, int V, int K, class T, class Value>
__device__ __forceinline__ void store_across(const AcrossPlace<V>& of, T* at, std::int64_t step,
                                             int left, Value&& value) {
  at += of.first * step;
  left = of.inside ? left - of.first : 0;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (k << of.step_log < left) {
      compute_t<T> y[V];
      value(k, y);
      write_across<kNumbers>(at, y);
    }
    at += step << of.step_log;
  }
}

// The fold over registers of what term(k, s) gives for register k: by halves, the top index bit
// first, as a recursion that keeps few sums at a time.
template <int K, int V, int kCount = 1, class F, class Term>
__device__ __forceinline__ void fold_registers(F (&s)[V], Term&& term, int k = 0) {
  if constexpr (kCount == K) {
    term(k, s);
  } else {
    F upper[V];
    fold_registers<K, V, 2 * kCount>(s, term, k);
    fold_registers<K, V, 2 * kCount>(upper, term, k + kCount);
#pragma unroll
    for (int v = 0; v < V; ++v) s[v] = s[v] + upper[v];
  }
}

// Shared memory of the warps that share a chunk: what each has of every row, and what that makes.
template <class F>
struct AcrossRoom {
  F* of_warps;  // [row][warp], a place between rows
  F* joined;    // [row]
};

// Joins v, of each of V rows, over the places and warps that have parts of the same chunk, the
// upper half of the places to the lower one, and so on. Every thread has finish(row's number in the
// tile, join), which one of them computes. All threads of the block.
template <int V, class F, class Join, class Finish>
__device__ __forceinline__ void join_across(const AcrossPlan& plan, const AcrossPlace<V>& of,
                                            AcrossRoom<F> room, F (&v)[V], Join&& join,
                                            Finish&& finish) {
#pragma unroll 1
  for (int mask = kWarp / 2; mask >= plan.lanes(); mask /= 2)
#pragma unroll
    for (F& x : v) x = join(x, __shfl_xor_sync(kAllLanes, x, mask));
  if (plan.warps_log == 0) return finish.by_lanes(v);
  const int warps = plan.warps(), rows = plan.lanes() * V, pitch = warps + 1;
  if (of.place == 0) {
#pragma unroll
    for (int e = 0; e < V; ++e) room.of_warps[(of.side * V + e) * pitch + of.warp] = v[e];
  }
  __syncthreads();
#pragma unroll 1
  for (int i = of.warp * kWarp; i < rows * warps; i += warps * kWarp) {
    const int j = i + static_cast<int>(threadIdx.x) % kWarp, row = j >> plan.warps_log;
    F x = F(0);
    if (row < rows) x = room.of_warps[row * pitch + (j & (warps - 1))];
#pragma unroll 1
    for (int mask = warps / 2; mask > 0; mask /= 2)
      x = join(x, __shfl_xor_sync(kAllLanes, x, mask));
    if ((j & (warps - 1)) == 0 && row < rows) room.joined[row] = finish.of_row(row, x);
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < V; ++e) v[e] = room.joined[of.side * V + e];
}

// What join_across() finishes with where nothing is to be done.
struct JoinedAsItIs {
  template <class F, int V>
  __device__ __forceinline__ void by_lanes(F (&)[V]) const {}
  template <class F>
  __device__ __forceinline__ F of_row(int, F x) const {
    return x;
  }
};

// The rows of a tile, one a warp, whose chunks' parts have come to shared memory; up to kWarp *
// kWarp chunks. of_chunk(row, chunk) gives a part, join(part of each lane) what they make.
template <class Part, class OfChunk, class Join, class Take>
__device__ __forceinline__ void join_chunks_across(const AcrossPlan& plan, int rows,
                                                   OfChunk&& of_chunk, Join&& join, Take&& take) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / kWarp; row < rows;
       row += static_cast<int>(blockDim.x) / kWarp) {
    Part of_group{};
#pragma unroll 1
    for (int first = 0; first < plan.chunks; first += kWarp) {
      const int chunk = first + lane;
      const Part part = join(chunk < plan.chunks ? of_chunk(row, chunk) : Part{});
      if (lane == first / kWarp) of_group = part;
    }
    if (plan.chunks > kWarp) of_group = join(of_group);
    if (lane == 0) take(row, of_group);
  }
}

// ---- On the host.

inline constexpr std::int64_t kMostRowsAcross = 1 << 30;
inline constexpr std::int64_t kMostChunksAcross = kWarp * kWarp;

// Whether neighbouring rows of every operand lie closer than a row's own elements.
template <int N>
bool lies_across(const Rows<N>& rows) {
  const int last = rows.outer.rank - 1;
  if (last < 0 || rows.rows > kMostRowsAcross) return false;
  const auto magnitude = [](std::int64_t x) { return x < 0 ? -x : x; };
  for (int k = 0; k < N; ++k)
    if (magnitude(rows.outer.stride[k][last]) >= magnitude(rows.step[k])) return false;
  return true;
}

// Whether V neighbouring rows move as one.
template <int N>
bool moves_as_one(const Rows<N>& rows, const RowMemory (&memory)[N], int V) {
  const int last = rows.outer.rank - 1;
  bool yes = rows.outer.size[last] % V == 0;
  for (int k = 0; k < N; ++k) {
    const auto begin = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory[k].data) /
                                                 memory[k].element);
    yes &= begin % V == 0 && rows.step[k] % V == 0 && rows.outer.stride[k][last] == 1;
    for (int axis = 0; axis < last; ++axis) yes &= rows.outer.stride[k][axis] % V == 0;
  }
  return yes;
}

// For threads that hold K elements of each of V rows of `element` bytes. Rows side by side are as
// wide as 128 bytes, or fewer where that leaves a block small enough for two to be at work.
inline AcrossPlan plan_across(std::int64_t length, int K, int V, int element) {
  constexpr int kWide = 128, kNarrow = 32, kWarps = 16;
  const auto log2_at_least = [](std::int64_t n) {
    int log = 0;
    while (std::int64_t{1} << log < n) ++log;
    return log;
  };
  AcrossPlan plan{};
  plan.chunks = static_cast<int>((length + kFoldChunk - 1) / kFoldChunk);
  const std::int64_t chunk = std::min<std::int64_t>(length, kFoldChunk);
  const auto take = [&](int bytes) {
    plan.lanes_log = std::min(5, log2_at_least(std::max(1, bytes / (V * element))));
    plan.warps_log = log2_at_least((chunk + K * plan.places() - 1) / (K * plan.places()));
  };
  const auto fits = [&](int warps) { return plan.chunks << plan.warps_log <= warps; };
  take(kWide);
  for (int bytes = kWide / 2; !fits(kWarps) && bytes >= kNarrow; bytes /= 2) take(bytes);
  plan.at_once = plan.chunks;
  if (!fits(2 * kWarps)) {  // a row is read twice
    plan.at_once = 1;
    take(2 * kNarrow);
    if (plan.warps() > 2 * kWarps) take(kNarrow);
  }
  plan.tiles = plan.warps_log == 0 && plan.chunks == 1 ? kShortThreads / kWarp : 1;
  return plan;
}
inline unsigned blocks_across(const AcrossPlan& plan, std::int64_t rows, int V) {
  const std::int64_t of_block = std::int64_t{plan.lanes()} * V * plan.tiles;
  return static_cast<unsigned>((rows + of_block - 1) / of_block);
}

}  // namespace twinops
