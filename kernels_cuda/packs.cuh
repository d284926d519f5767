// A list of tensors in one launch. Memory is walked in packs of 16 bytes, aligned as the tensor's
// own memory is; `starts[i]` is the number of packs before member i. Pointers, starts and edges
// travel by value in the kernel's parameters, so there is no copy and nothing that a captured graph
// could outlive.
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

// Bytes holds, for m members: x[m], out[m] (the same place as x where every member is in place),
// starts[m + 1], edges[m]. Pointers are those of element -head.
template <int Bytes>
struct PackedList {
  std::uint32_t members;
  std::uint32_t packs;
  std::uint16_t out_at, starts_at, edges_at;  // offsets into bytes
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

// The members that a block's packs lie in, with their starts in shared memory.
template <int Unroll>
struct Window {
  static constexpr std::uint32_t kPacks = kListThreads * Unroll;  // a block's
  std::uint32_t starts[kPacks + 1];                               // each member has a pack at least
  std::uint32_t first;                                            // member that starts[0] is of

  // The last member of [low, high] that starts at or before `pack`.
  template <class Start>
  __device__ static std::uint32_t search(std::uint32_t low, std::uint32_t high, std::uint32_t pack,
                                         Start start) {
    while (low < high) {
      const std::uint32_t middle = (low + high + 1) / 2;
      if (start(middle) <= pack)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  // All threads of the block; [begin, end) is not empty. Returns the number of members less one.
  template <class List>
  __device__ std::uint32_t load(const List& list, std::uint32_t begin, std::uint32_t end) {
    const auto start = [&](std::uint32_t i) { return list.start(i); };
    const std::uint32_t low = search(0, list.members - 1, begin, start);
    const std::uint32_t high =
        search(low, min(list.members - 1, low + (end - begin) - 1), end - 1, start);
    for (std::uint32_t i = threadIdx.x; i <= high - low; i += kListThreads)
      starts[i] = list.start(low + i);
    if (threadIdx.x == 0) first = low;
    __syncthreads();
    return high - low;
  }
};

// Calls body on every element of the list. Body<T> has a State that lives with a thread:
//   State begin() const;            what a thread needs before its first element
//   bool idle(State) const;         nothing is to be done
//   bool reads(State) const;        element() looks at its T
//   T element(State&, T) const;     the element to store
//   void end(State) const;          what a thread has found
template <class T, int Unroll, class List, class Body>
__global__ void __launch_bounds__(kListThreads)
    list_kernel(const __grid_constant__ List list, const __grid_constant__ Body body) {
  constexpr int kElements = kPackElements<T>;
  __shared__ Window<Unroll> window;
  union Pack {
    uint4 words;
    T elements[kElements];
  };

  auto state = body.begin();
  const std::uint32_t begin = blockIdx.x * Window<Unroll>::kPacks;
  if (begin >= list.packs || body.idle(state)) return;
  const std::uint32_t end = min(begin + Window<Unroll>::kPacks, list.packs);
  const std::uint32_t last_member = window.load(list, begin, end);

  Pack packs[Unroll];
  char* whole[Unroll];  // where a pack that moved as a whole goes
  std::uint32_t m = 0, member = 0;
#pragma unroll
  for (int k = 0; k < Unroll; ++k) {
    const std::uint32_t pack = begin + k * kListThreads + threadIdx.x;
    whole[k] = nullptr;
    if (pack >= end) continue;
    if (k == 0)
      m = window.search(0, last_member, pack, [&](std::uint32_t i) { return window.starts[i]; });
    while (m < last_member && window.starts[m + 1] <= pack) ++m;
    member = window.first + m;

    const Edge edge = list.edge(member);
    const std::uint32_t index = pack - window.starts[m];
    const bool is_last = list.start(member + 1) == pack + 1;
    const int low = index == 0 ? edge.head() : 0, high = is_last ? edge.tail() : kElements;
    const std::uint64_t offset = std::uint64_t{index} * kPackBytes;
    const char* from = list.x(member) + offset;
    char* to = list.out(member) + offset;
    if (low == 0 && high == kElements && !edge.apart()) {
      if (body.reads(state)) packs[k].words = __ldcs(reinterpret_cast<const uint4*>(from));
      whole[k] = to;
    } else {
      for (int j = low; j < high; ++j)
        reinterpret_cast<T*>(to)[j] = body.element(state, reinterpret_cast<const T*>(from)[j]);
    }
  }
#pragma unroll
  for (int k = 0; k < Unroll; ++k) {
    if (whole[k] == nullptr) continue;
#pragma unroll
    for (int j = 0; j < kElements; ++j)
      packs[k].elements[j] = body.element(state, packs[k].elements[j]);
    __stcs(reinterpret_cast<uint4*>(whole[k]), packs[k].words);
  }
  body.end(state);
}

}  // namespace twinops
