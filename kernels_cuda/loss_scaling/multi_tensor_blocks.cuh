// One launch over few tensors: block_span_kernel and its parameters. Each block has a span, up to
// kMultiTensorThreads vectors of one tensor. The parameters list the spans, or, for up to eight
// tensors, the tensors.
//
// Memory: as in multi_tensor_args.cuh, but a block waits for one cold look at the parameters
// instead of three. Sizes of parameters:
// docs/lab/loss-scaling-cuda.md#a-launch-takes-one-of-two-times.
#pragma once

#include "kernels_cuda/loss_scaling/multi_tensor_args.cuh"

namespace twinops {

// A span: vectors one after the other, and which elements of the first and last are the tensor's.
struct VectorSpan {
  char* x;
  char* out;
  unsigned count;
  int head, tail;  // as in TensorEnds
};

// A span without `out` in one word, because every byte of parameters takes launch time.
class VectorRun {
 public:
  static constexpr int kMostVectors = 256;
  // Whether one word can hold it: x and out lie alike in their vectors, and the pointer has at most
  // 54 bits.
  static bool can_tell(const char* x, TensorEnds ends) {
    return !ends.misaligned() && reinterpret_cast<std::uintptr_t>(x) >> 54 == 0;
  }

  VectorRun() = default;  // no run
  VectorRun(char* x, std::uint32_t vectors, TensorEnds ends)
      : bits_(reinterpret_cast<std::uintptr_t>(x) << 10 | (vectors - 1) << 6 | ends.head() << 3 |
              (ends.tail() - 1)) {}

  __device__ VectorSpan span() const {
    const auto low = static_cast<unsigned>(bits_);
    const auto x = reinterpret_cast<char*>(bits_ >> 14 << 4);
    return {x, x, (low >> 6 & 255) + 1, static_cast<int>(low >> 3 & 7),
            static_cast<int>(low & 7) + 1};
  }

 private:
  std::uint64_t bits_;  // x / kVectorBytes: 50 bits, vectors - 1: 8, head: 3, tail - 1: 3
};
static_assert(VectorRun::kMostVectors >= kMultiTensorThreads);

// The span of a block. kInPlace: out is x.
template <bool kInPlace>
struct BlockSpan {
  VectorRun run;
  char* out;
};
template <>
struct BlockSpan<true> {
  VectorRun run;
};

template <int Bytes, bool kInPlace>
struct BlockSpans {
  static constexpr int kMost = Bytes / static_cast<int>(sizeof(BlockSpan<kInPlace>));
  BlockSpan<kInPlace> blocks[kMost];

  template <class T>
  __device__ VectorSpan of_block(unsigned block) const {
    const BlockSpan<kInPlace> given = blocks[block];
    VectorSpan span = given.run.span();
    if constexpr (!kInPlace) span.out = given.out;
    return span;
  }
};

// Up to eight tensors, each divided into blocks of kMultiTensorThreads vectors, in 256 bytes of
// parameters: with more a launch may take longer (docs/lab/loss-scaling-cuda.md).
template <bool kInPlace>
class TensorTable {
 public:
  static constexpr std::size_t kMost = 8;

  // x and out must lie alike in their vectors, and there may be fewer than 2^16 - 1 blocks.
  void add(const char* x, char* out, std::uint32_t vectors, TensorEnds ends) {
    first_block_[tensors_] = static_cast<std::uint16_t>(blocks_);
    x_[tensors_] = const_cast<char*>(x);
    if constexpr (!kInPlace) out_[tensors_] = out;
    vectors_[tensors_] = vectors;
    tensor_ends_[tensors_] = ends;
    ++tensors_;
    blocks_ += blocks_for(vectors);
  }
  unsigned blocks() const { return blocks_; }
  static std::uint32_t blocks_for(std::uint32_t vectors) {
    return (vectors + kMultiTensorThreads - 1) / kMultiTensorThreads;
  }

  template <class T>
  __device__ VectorSpan of_block(unsigned block) const {
    unsigned m = 0;
#pragma unroll
    for (unsigned i = 1; i < kMost; ++i) m += block >= first_block_[i];
    const TensorEnds ends = tensor_ends_[m];
    constexpr unsigned kMostVectors = kMultiTensorThreads;
    const unsigned first = (block - first_block_[m]) * kMostVectors, left = vectors_[m] - first;
    const std::size_t bytes = std::size_t{first} * kVectorBytes;
    VectorSpan span;
    span.x = x_[m] + bytes;
    span.out = kInPlace ? span.x : out_[m] + bytes;
    span.count = min(left, kMostVectors);
    span.head = first == 0 ? ends.head() : 0;
    span.tail = left <= kMostVectors ? ends.tail() : kVectorElements<T>;
    return span;
  }

 private:
  static constexpr std::uint16_t kNone = 0xffff;

  // In the order in which a block reads them.
  std::uint16_t first_block_[kMost] = {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  TensorEnds tensor_ends_[kMost];
  std::uint32_t vectors_[kMost];
  char* x_[kMost];
  char* out_[kInPlace ? 1 : kMost];
  std::uint16_t tensors_ = 0, blocks_ = 0;
};

// Calls body as multi_tensor_kernel does. `body` comes first: behind `args` it would be a second
// cold look at the parameters, for which a warp waits before it reads its span.
template <class T, class Body, class Args>
__global__ void __launch_bounds__(kMultiTensorThreads)
    block_span_kernel(const __grid_constant__ Body body, const __grid_constant__ Args args) {
  const VectorSpan span = args.template of_block<T>(blockIdx.x);
  auto state = body.begin();
  const unsigned vector = threadIdx.x;
  if (vector >= span.count || body.idle(state)) return;
  Place place;
  place.low = vector == 0 ? span.head : 0;
  place.high = vector + 1 == span.count ? span.tail : kVectorElements<T>;
  place.whole = place.low == 0 && place.high == kVectorElements<T>;
  place.x = span.x + vector * kVectorBytes;
  place.out = span.out + vector * kVectorBytes;
  __builtin_assume(__isGlobal(place.x) && __isGlobal(place.out));
  TensorVector<T> elements;
  if (place.whole && body.reads(state)) elements.load(place);
  body.prepare(state);
  elements.map(body, state, place);
  body.end(state);
}

}  // namespace twinops
