// A short list of tensors in one launch: a block for each stretch of up to kListThreads packs of
// one member, which its parameters name. So a block waits for one cold look at them and then for
// its elements, where the way through starts and windows (packs.cuh) has to wait three times.
#pragma once

#include "kernels_cuda/packs.cuh"

namespace twinops {

// Where a block's packs lie; kInPlace: out is x.
template <bool kInPlace>
struct Stretch {
  char* x;
  char* out;
  std::uint16_t packs;
  Edge edge;
};
template <>
struct Stretch<true> {
  char* x;
  std::uint16_t packs;
  Edge edge;
};

template <int Bytes, bool kInPlace>
struct StretchList {
  static constexpr int kMost = Bytes / static_cast<int>(sizeof(Stretch<kInPlace>));
  Stretch<kInPlace> blocks[kMost];
};

// Calls body on every element, as list_kernel does.
template <class T, class List, class Body>
__global__ void __launch_bounds__(kListThreads)
    stretch_kernel(const __grid_constant__ List list, const __grid_constant__ Body body) {
  auto state = body.begin();
  const auto stretch = list.blocks[blockIdx.x];
  const unsigned pack = threadIdx.x;
  if (pack >= stretch.packs || body.idle(state)) return;
  Place place;
  place.low = pack == 0 ? stretch.edge.head() : 0;
  place.high = pack + 1 == stretch.packs ? stretch.edge.tail() : kPackElements<T>;
  place.whole = place.low == 0 && place.high == kPackElements<T> && !stretch.edge.apart();
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
