// A short list of tensors in one launch: a block for each stretch of up to kListThreads packs of
// one member, which its parameters name. So a block waits for one cold look at them and then for
// its elements, where the way through starts and windows (packs.cuh) has to wait three times.
#pragma once

#include "kernels_cuda/packs.cuh"

namespace twinops {

// Packs in a row: where they lie and what of them is a tensor's, in one word. With every 1000 bytes
// of parameters a launch takes 0.03 us longer, and a kernel asks once.
class PackRun {
 public:
  static constexpr int kMostPacks = 256;
  // Whether one word can say it: of packs that lie equally in x and out, and no pointer of CUDA's
  // is out of its reach.
  static bool can_tell(const char* x, Edge edge) {
    return !edge.apart() && reinterpret_cast<std::uintptr_t>(x) >> 54 == 0;
  }

  PackRun() = default;  // no run
  PackRun(char* x, std::uint32_t packs, Edge edge)
      : bits_(reinterpret_cast<std::uintptr_t>(x) << 10 | (packs - 1) << 6 | edge.head() << 3 |
              (edge.tail() - 1)) {}

  __device__ char* x() const { return reinterpret_cast<char*>(bits_ >> 14 << 4); }
  __device__ unsigned packs() const { return (low() >> 6 & 255) + 1; }
  __device__ int head() const { return low() >> 3 & 7; }
  __device__ int tail() const { return (low() & 7) + 1; }

 private:
  __device__ unsigned low() const { return static_cast<unsigned>(bits_); }

  std::uint64_t bits_;  // x / kPackBytes: 50 bits, packs - 1: 8, head: 3, tail - 1: 3
};
static_assert(PackRun::kMostPacks >= kListThreads);

// What a block works on; kInPlace: out is x.
template <bool kInPlace>
struct Stretch {
  PackRun run;
  char* out;
};
template <>
struct Stretch<true> {
  PackRun run;
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
  const unsigned pack = threadIdx.x, packs = stretch.run.packs();
  if (pack >= packs || body.idle(state)) return;
  Place place;
  place.low = pack == 0 ? stretch.run.head() : 0;
  place.high = pack + 1 == packs ? stretch.run.tail() : kPackElements<T>;
  place.whole = place.low == 0 && place.high == kPackElements<T>;
  place.x = stretch.run.x() + pack * kPackBytes;
  if constexpr (requires { stretch.out; })
    place.out = stretch.out + pack * kPackBytes;
  else
    place.out = stretch.run.x() + pack * kPackBytes;
  __builtin_assume(__isGlobal(place.x) && __isGlobal(place.out));
  PackOf<T> elements;
  if (place.whole && body.reads(state)) elements.load(place);
  body.prepare(state);
  elements.map(body, state, place);
  body.end(state);
}

}  // namespace twinops
