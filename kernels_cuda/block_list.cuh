// A short list of tensors in one launch: a block for each stretch of up to kListThreads packs of
// one member, which its parameters name. So a block waits for one cold look at them and then for
// its elements, where the way through starts and windows (packs.cuh) has to wait three times.
#pragma once

#include "kernels_cuda/packs.cuh"

namespace twinops {

// Packs in a row, and their edge: one word, so that a kernel asks once.
struct Shape {
  Shape() = default;
  Shape(std::uint32_t packs, Edge edge) : bits(packs | std::uint32_t{edge.bits} << 16) {}
  __device__ unsigned packs() const { return bits & 0xffff; }
  __device__ Edge edge() const { return {static_cast<std::uint16_t>(bits >> 16)}; }

  std::uint32_t bits;
};

// Where a block's packs lie; kInPlace: out is x.
template <bool kInPlace>
struct Stretch {
  char* x;
  char* out;
  Shape shape;
};
template <>
struct Stretch<true> {
  char* x;
  Shape shape;
};

template <int Bytes, bool kInPlace>
struct StretchList {
  static constexpr int kMost = Bytes / static_cast<int>(sizeof(Stretch<kInPlace>));
  Stretch<kInPlace> blocks[kMost];
};

// Calls body on every element, as list_kernel does. The body comes first: behind the list it would
// be a second cold look at the parameters, which a warp waits for before it asks for its stretch.
template <class T, class Body, class List>
__global__ void __launch_bounds__(kListThreads)
    stretch_kernel(const __grid_constant__ Body body, const __grid_constant__ List list) {
  const auto stretch = list.blocks[blockIdx.x];
  auto state = body.begin();
  const unsigned pack = threadIdx.x, packs = stretch.shape.packs();
  const Edge edge = stretch.shape.edge();
  if (pack >= packs || body.idle(state)) return;
  Place place;
  place.low = pack == 0 ? edge.head() : 0;
  place.high = pack + 1 == packs ? edge.tail() : kPackElements<T>;
  place.whole = place.low == 0 && place.high == kPackElements<T> && !edge.apart();
  place.x = stretch.x + pack * kPackBytes;
  if constexpr (requires { stretch.out; })
    place.out = stretch.out + pack * kPackBytes;
  else
    place.out = stretch.x + pack * kPackBytes;
  __builtin_assume(__isGlobal(place.x) && __isGlobal(place.out));
  PackOf<T> elements;
  if (place.whole && body.reads(state)) elements.load(place);
  body.prepare(state);
  elements.map(body, state, place);
  body.end(state);
}

}  // namespace twinops
