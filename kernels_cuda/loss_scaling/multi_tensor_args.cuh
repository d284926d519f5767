// A list of tensors in one launch. Memory is walked in packs of 16 bytes, aligned as the tensor's
// own memory is; `starts[i]` is the number of packs before member i. Pointers, starts and edges
// travel by value in the kernel's parameters, so there is no copy and nothing that a captured graph
// could outlive.
//
// Tried on an H200 and left: 2 or 8 packs in flight a thread instead of 4 (BERT-large in float16
// 0.90 and 0.93 of the copy rate instead of 0.98), streaming hints on loads and stores (0.96).
#pragma once

#include <cstdint>

namespace twinops {

inline constexpr int kPackBytes = 16;
inline constexpr int kListThreads = 256;

template <class T>
inline constexpr int kPackElements = kPackBytes / static_cast<int>(sizeof(T));

// What is special about a member's first and last pack, in 16 bits.
struct Edge {
  // Elements of the first pack that lie before the tensor; elements of the last pack that are the
  // tensor's; x and out do not lie equally in their packs, so that elements move one by one.
  __host__ __device__ static constexpr Edge of(int head, int tail, bool apart) {
    return {static_cast<std::uint16_t>(head | tail << 4 | (apart ? 1 << 15 : 0))};
  }
  __host__ __device__ constexpr int head() const { return bits & 15; }
  __host__ __device__ constexpr int tail() const { return bits >> 4 & 31; }
  __host__ __device__ constexpr bool apart() const { return bits >> 15 != 0; }

  std::uint16_t bits;
};

inline constexpr int kListBuckets = 512;
inline constexpr std::uint32_t kFewPacks = kListBuckets * kListThreads;  // a bucket for each block

// Bytes holds, for m members: x[m], out[m] (the same place as x where every member is in place),
// starts[m + 1], edges[m]. Pointers are those of element -head. Blocks are counted in buckets of
// 2^bucket_shift; first_member[b] is the member that bucket b begins in, so that a block finds its
// own members in few steps, mostly none.
template <int Bytes>
struct PackedList {
  std::uint32_t members;
  std::uint32_t packs;
  std::uint16_t out_at, starts_at, edges_at;  // offsets into bytes
  std::uint16_t bucket_shift;
  std::uint16_t first_member[kListBuckets + 1];
  alignas(8) unsigned char bytes[Bytes];

  __host__ __device__ const char* x(std::uint32_t i) const {
    return reinterpret_cast<const char* const*>(bytes)[i];
  }
  __host__ __device__ char* out(std::uint32_t i) const {
    return reinterpret_cast<char* const*>(bytes + out_at)[i];
  }
  __host__ __device__ std::uint32_t start(std::uint32_t i) const {
    return reinterpret_cast<const std::uint32_t*>(bytes + starts_at)[i];
  }
  __host__ __device__ Edge edge(std::uint32_t i) const {
    return reinterpret_cast<const Edge*>(bytes + edges_at)[i];
  }
};

// The last i of [low, high] with start(i) <= pack; start(low) is.
template <class Start>
__host__ __device__ inline std::uint32_t last_start(std::uint32_t low, std::uint32_t high,
                                                    std::uint32_t pack, Start start) {
  while (low < high) {
    const std::uint32_t middle = (low + high + 1) / 2;
    if (start(middle) <= pack)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// Where a pack is, and which of its elements are the tensor's: all of them, in one access, if
// `whole`.
struct Place {
  const char* x;
  char* out;
  int low, high;
  bool whole;
};

// The members that a block's packs lie in, brought to shared memory by all its threads at once:
// parameters are cold when a small launch begins, and each look that waits for another costs it a
// tenth.
template <int Unroll>
struct Window {
  static constexpr std::uint32_t kPacks = kListThreads * Unroll;  // a block's
  static constexpr std::uint32_t kMost = kPacks + 1;              // each member has a pack at least

  std::uint32_t starts[kMost + 1];
  const char* x[kMost];
  char* out[kMost];
  Edge edges[kMost];

  // All threads of the block; [begin, end) are its packs. Returns how many members there are.
  template <class List>
  __device__ std::uint32_t load(const List& list, std::uint32_t begin, std::uint32_t end) {
    const std::uint32_t bucket = Unroll == 1 ? blockIdx.x : blockIdx.x >> list.bucket_shift;
    std::uint32_t first = list.first_member[bucket], last = list.first_member[bucket + 1];
    if (Unroll != 1 && list.bucket_shift != 0) {
      const auto start = [&](std::uint32_t i) { return list.start(i); };
      first = last_start(first, last, begin, start);
      last = last_start(first, min(last, first + (end - begin) - 1), end - 1, start);
    }
    const std::uint32_t members = last - first + 1;
    for (std::uint32_t i = threadIdx.x; i < members; i += kListThreads) {
      starts[i] = list.start(first + i);
      x[i] = list.x(first + i);
      out[i] = list.out(first + i);
      edges[i] = list.edge(first + i);
    }
    if (threadIdx.x == 0) starts[members] = list.start(last + 1);
    __syncthreads();
    return members;
  }

  // Of a pack that lies in the window's member number m.
  template <class T>
  __device__ Place place(std::uint32_t m, std::uint32_t pack) const {
    const std::uint32_t index = pack - starts[m];
    const Edge edge = edges[m];
    Place p;
    p.low = index == 0 ? edge.head() : 0;
    p.high = starts[m + 1] == pack + 1 ? edge.tail() : kPackElements<T>;
    p.whole = p.low == 0 && p.high == kPackElements<T> && !edge.apart();
    p.x = x[m] + std::uint64_t{index} * kPackBytes;
    p.out = out[m] + std::uint64_t{index} * kPackBytes;
    __builtin_assume(__isGlobal(p.x) && __isGlobal(p.out));
    return p;
  }
};

// The elements of a pack, in registers.
template <class T>
union PackOf {
  uint4 words;
  T elements[kPackElements<T>];

  __device__ void load(const Place& place) { words = *reinterpret_cast<const uint4*>(place.x); }

  // Stores what body makes of each element: of those loaded if the pack is whole, else one by one.
  template <class Body, class State>
  __device__ void map(const Body& body, State& state, const Place& place) {
    if (place.whole) {
#pragma unroll
      for (int j = 0; j < kPackElements<T>; ++j) elements[j] = body.element(state, elements[j]);
      *reinterpret_cast<uint4*>(place.out) = words;
    } else {
#pragma unroll 1
      for (int j = place.low; j < place.high; ++j)
        reinterpret_cast<T*>(place.out)[j] =
            body.element(state, reinterpret_cast<const T*>(place.x)[j]);
    }
  }
};

// Calls body on every element of the list. A body lives in the kernel's parameters; its State lives
// with a thread:
//   State begin() const;            asks for what a thread needs before its first element; whatever
//                                   looks at the answer makes the thread wait, so that is
//                                   prepare()'s
//   bool idle(State) const;         nothing is to be done
//   bool reads(State) const;        element() looks at its T
//   void prepare(State&) const;     computes with what begin() has read, after the loads are on
//   their way T element(State&, T) const;     the element to store void end(State) const; what a
//   thread has found
template <class T, int Unroll, class Body, class List>
__global__ void __launch_bounds__(kListThreads)
    list_kernel(const __grid_constant__ Body body, const __grid_constant__ List list) {
  constexpr std::uint32_t kPacks = Window<Unroll>::kPacks;
  __shared__ Window<Unroll> window;

  auto state = body.begin();
  const std::uint32_t begin = blockIdx.x * kPacks;
  if (begin >= list.packs || body.idle(state)) return;
  const std::uint32_t end = min(begin + kPacks, list.packs);
  const std::uint32_t members = window.load(list, begin, end);

  PackOf<T> packs[Unroll];
  std::uint32_t member[Unroll];
  std::uint32_t m = 0;
#pragma unroll
  for (int k = 0; k < Unroll; ++k) {  // every load is on its way before any is waited for
    const std::uint32_t pack = begin + k * kListThreads + threadIdx.x;
    if (pack >= end) break;
    if (k == 0)
      m = last_start(0, members - 1, pack, [&](std::uint32_t i) { return window.starts[i]; });
    while (window.starts[m + 1] <= pack) ++m;
    member[k] = m;
    const Place place = window.template place<T>(m, pack);
    if (place.whole && body.reads(state)) packs[k].load(place);
  }
  body.prepare(state);
#pragma unroll
  for (int k = 0; k < Unroll; ++k) {
    const std::uint32_t pack = begin + k * kListThreads + threadIdx.x;
    if (pack >= end) break;
    packs[k].map(body, state, window.template place<T>(member[k], pack));
  }
  body.end(state);
}

}  // namespace twinops
