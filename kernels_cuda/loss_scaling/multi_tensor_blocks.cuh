// A short list of tensors in one launch: a block for each stretch of up to kListThreads packs of
// one member. The parameters name the stretches, or, where they are of few members, the members. So
// a block waits for one cold look at them and then for its elements, where the way through starts
// and windows (packs.cuh) has to wait three times.
#pragma once

#include "kernels_cuda/loss_scaling/multi_tensor_args.cuh"

namespace twinops {

// Packs in a row: where they lie and what of them is a tensor's.
struct BlockPacks {
  char* x;
  char* out;
  unsigned count;
  int head, tail;  // as in Edge
};

// The same without `out`, in one word. With every 1000 bytes of parameters a launch takes 0.03 us
// longer, and a kernel asks once.
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

  __device__ BlockPacks packs() const {
    const auto low = static_cast<unsigned>(bits_);
    const auto x = reinterpret_cast<char*>(bits_ >> 14 << 4);
    return {x, x, (low >> 6 & 255) + 1, static_cast<int>(low >> 3 & 7),
            static_cast<int>(low & 7) + 1};
  }

 private:
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

  template <class T>
  __device__ BlockPacks of_block(unsigned block) const {
    const Stretch<kInPlace> stretch = blocks[block];
    BlockPacks packs = stretch.run.packs();
    if constexpr (!kInPlace) packs.out = stretch.out;
    return packs;
  }
};

// Few members, each in blocks of kListThreads packs. Parameters of up to 256 bytes are all that a
// launch takes in the shorter of the driver's two times (docs/performance.md).
template <bool kInPlace>
class MemberList {
 public:
  static constexpr std::size_t kMost = 8;

  // Members lie equally in x and out; blocks are fewer than 2^16 - 1.
  void add(const char* x, char* out, std::uint32_t packs, Edge edge) {
    first_block_[members_] = static_cast<std::uint16_t>(blocks_);
    x_[members_] = const_cast<char*>(x);
    if constexpr (!kInPlace) out_[members_] = out;
    packs_[members_] = packs;
    edges_[members_] = edge;
    ++members_;
    blocks_ += blocks_for(packs);
  }
  unsigned blocks() const { return blocks_; }
  static std::uint32_t blocks_for(std::uint32_t packs) {
    return (packs + kListThreads - 1) / kListThreads;
  }

  template <class T>
  __device__ BlockPacks of_block(unsigned block) const {
    unsigned m = 0;
#pragma unroll
    for (unsigned i = 1; i < kMost; ++i) m += block >= first_block_[i];
    const Edge edge = edges_[m];
    constexpr unsigned kMostPacks = kListThreads;
    const unsigned first = (block - first_block_[m]) * kMostPacks, left = packs_[m] - first;
    const std::size_t bytes = std::size_t{first} * kPackBytes;
    BlockPacks packs;
    packs.x = x_[m] + bytes;
    packs.out = kInPlace ? packs.x : out_[m] + bytes;
    packs.count = min(left, kMostPacks);
    packs.head = first == 0 ? edge.head() : 0;
    packs.tail = left <= kMostPacks ? edge.tail() : kPackElements<T>;
    return packs;
  }

 private:
  static constexpr std::uint16_t kNone = 0xffff;

  // In the order in which a block looks at them.
  std::uint16_t first_block_[kMost] = {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  Edge edges_[kMost];
  std::uint32_t packs_[kMost];
  char* x_[kMost];
  char* out_[kInPlace ? 1 : kMost];
  std::uint16_t members_ = 0, blocks_ = 0;
};

// Calls body on every element, as list_kernel does. The body comes first: behind the list it would
// be a second cold look at the parameters, which a warp waits for before it asks for its stretch.
template <class T, class Body, class List>
__global__ void __launch_bounds__(kListThreads)
    stretch_kernel(const __grid_constant__ Body body, const __grid_constant__ List list) {
  const BlockPacks packs = list.template of_block<T>(blockIdx.x);
  auto state = body.begin();
  const unsigned pack = threadIdx.x;
  if (pack >= packs.count || body.idle(state)) return;
  Place place;
  place.low = pack == 0 ? packs.head : 0;
  place.high = pack + 1 == packs.count ? packs.tail : kPackElements<T>;
  place.whole = place.low == 0 && place.high == kPackElements<T>;
  place.x = packs.x + pack * kPackBytes;
  place.out = packs.out + pack * kPackBytes;
  __builtin_assume(__isGlobal(place.x) && __isGlobal(place.out));
  PackOf<T> elements;
  if (place.whole && body.reads(state)) elements.load(place);
  body.prepare(state);
  elements.map(body, state, place);
  body.end(state);
}

}  // namespace twinops
