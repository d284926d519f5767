// A short list of tensors in one launch: a block for each stretch of up to kListThreads packs of
// one member, which its parameters name. So a block waits for one cold look at them and then for
// its elements, where the way through starts and windows (packs.cuh) has to wait three times.
#pragma once

#include "kernels_cuda/packs.cuh"

namespace twinops {

// Where a block's packs lie, where out is x: in 64 bits, because a launch waits for its parameters.
// An address is a multiple of 16 below 2^53.
struct StretchInPlace {
  std::uint64_t bits;

  StretchInPlace() = default;
  StretchInPlace(const char* x, char*, std::uint32_t packs, Edge edge)
      : bits(reinterpret_cast<std::uint64_t>(x) / kPackBytes << 15 | (edge.apart() ? 1 << 14 : 0) |
             (edge.tail() - 1) << 11 | edge.head() << 8 | (packs - 1)) {}

  __device__ char* x() const { return reinterpret_cast<char*>((bits >> 15) * kPackBytes); }
  __device__ char* out() const { return x(); }
  __device__ unsigned packs() const { return (bits & 255) + 1; }
  __device__ Edge edge() const {
    return Edge::of(bits >> 8 & 7, (bits >> 11 & 7) + 1, (bits >> 14 & 1) != 0);
  }
};
static_assert(kListThreads <= 256 && kPackBytes == 16);

struct StretchApart : StretchInPlace {
  char* to;

  StretchApart() = default;
  StretchApart(const char* x, char* out, std::uint32_t packs, Edge edge)
      : StretchInPlace(x, out, packs, edge), to(out) {}
  __device__ char* out() const { return to; }
};

template <class StretchOf, int Bytes>
struct StretchList {
  using Stretch = StretchOf;
  static constexpr int kMost = Bytes / static_cast<int>(sizeof(Stretch));
  Stretch blocks[kMost];
};

// Calls body on every element, as list_kernel does.
template <class T, class List, class Body>
__global__ void __launch_bounds__(kListThreads)
    stretch_kernel(const __grid_constant__ List list, const __grid_constant__ Body body) {
  auto state = body.begin();
  const auto stretch = list.blocks[blockIdx.x];
  const Edge edge = stretch.edge();
  const unsigned pack = threadIdx.x;
  if (pack >= stretch.packs() || body.idle(state)) return;
  Place place;
  place.low = pack == 0 ? edge.head() : 0;
  place.high = pack + 1 == stretch.packs() ? edge.tail() : kPackElements<T>;
  place.whole = place.low == 0 && place.high == kPackElements<T> && !edge.apart();
  place.x = stretch.x() + pack * kPackBytes;
  place.out = stretch.out() + pack * kPackBytes;
  __builtin_assume(__isGlobal(place.x) && __isGlobal(place.out));
  PackOf<T> elements;
  if (place.whole && body.reads(state)) elements.load(place);
  body.prepare(state);
  elements.map(body, state, place);
  body.end(state);
}

}  // namespace twinops
