// One launch over many tensors: multi_tensor_kernel and its parameters.
//
// Memory: elements are read and written in vectors of 16 bytes, aligned as a tensor's own memory
// is. Pointers travel by value in the kernel's parameters, so there is no copy and nothing that a
// captured graph could outlive.
// Vectors in flight and what was tried: docs/lab/loss-scaling-cuda.md#long-lists.
#pragma once

#include <cstdint>

namespace twinops {

inline constexpr int kVectorBytes = 16;
inline constexpr int kMultiTensorThreads = 256;

template <class T>
inline constexpr int kVectorElements = kVectorBytes / static_cast<int>(sizeof(T));

// What is special about a tensor's first and last vector, in 16 bits.
struct TensorEnds {
  // head: elements of the first vector that lie before the tensor. tail: elements of the last
  // vector that are the tensor's. misaligned: x and out lie differently in their vectors, so that
  // elements move one by one.
  __host__ __device__ static constexpr TensorEnds of(int head, int tail, bool misaligned) {
    return {static_cast<std::uint16_t>(head | tail << 4 | (misaligned ? 1 << 15 : 0))};
  }
  __host__ __device__ constexpr int head() const { return bits & 15; }
  __host__ __device__ constexpr int tail() const { return bits >> 4 & 31; }
  __host__ __device__ constexpr bool misaligned() const { return bits >> 15 != 0; }

  std::uint16_t bits;
};

inline constexpr int kMultiTensorBuckets = 512;
// In launches of up to so many vectors a thread takes one, and each block has a bucket.
inline constexpr std::uint32_t kSingleVectorMost = kMultiTensorBuckets * kMultiTensorThreads;

// The parameters for m tensors. `bytes` holds x[m], out[m] (the same place as x if every tensor is
// in place), start[m + 1] (the number of vectors before each tensor), ends[m]. Pointers are those
// of element -head. Blocks are counted in buckets of 2^bucket_shift blocks; first_tensor[b] is the
// tensor that bucket b begins in, so that a block finds its tensors in few steps.
template <int Bytes>
struct MultiTensorArgs {
  std::uint32_t tensors;
  std::uint32_t vectors;
  std::uint16_t out_at, starts_at, ends_at;  // offsets into `bytes`
  std::uint16_t bucket_shift;
  std::uint16_t first_tensor[kMultiTensorBuckets + 1];
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
  __host__ __device__ TensorEnds ends(std::uint32_t i) const {
    return reinterpret_cast<const TensorEnds*>(bytes + ends_at)[i];
  }
};

// The last i of [low, high] with start(i) <= vector; start(low) <= vector must hold.
template <class Start>
__host__ __device__ inline std::uint32_t last_start(std::uint32_t low, std::uint32_t high,
                                                    std::uint32_t vector, Start start) {
  while (low < high) {
    const std::uint32_t middle = (low + high + 1) / 2;
    if (start(middle) <= vector)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// Where a vector lies, and which of its elements [low, high) are the tensor's. whole: all of them,
// so that it moves in one access.
struct Place {
  const char* x;
  char* out;
  int low, high;
  bool whole;
};

// The tensors of a block's vectors, brought to shared memory by all threads at once: a small launch
// finds its parameters cold, and each look that waits for another takes a tenth of its time.
template <int Unroll>
struct Window {
  static constexpr std::uint32_t kVectors = kMultiTensorThreads * Unroll;  // of a block
  static constexpr std::uint32_t kMost = kVectors + 1;  // each tensor has at least one vector

  std::uint32_t starts[kMost + 1];
  const char* x[kMost];
  char* out[kMost];
  TensorEnds tensor_ends[kMost];

  // Every thread of the block calls it. [begin, end): the block's vectors. Returns the number of
  // tensors.
  template <class Args>
  __device__ std::uint32_t load(const Args& args, std::uint32_t begin, std::uint32_t end) {
    const std::uint32_t bucket = Unroll == 1 ? blockIdx.x : blockIdx.x >> args.bucket_shift;
    std::uint32_t first = args.first_tensor[bucket], last = args.first_tensor[bucket + 1];
    if (Unroll != 1 && args.bucket_shift != 0) {
      const auto start = [&](std::uint32_t i) { return args.start(i); };
      first = last_start(first, last, begin, start);
      last = last_start(first, min(last, first + (end - begin) - 1), end - 1, start);
    }
    const std::uint32_t tensors = last - first + 1;
    for (std::uint32_t i = threadIdx.x; i < tensors; i += kMultiTensorThreads) {
      starts[i] = args.start(first + i);
      x[i] = args.x(first + i);
      out[i] = args.out(first + i);
      tensor_ends[i] = args.ends(first + i);
    }
    if (threadIdx.x == 0) starts[tensors] = args.start(last + 1);
    __syncthreads();
    return tensors;
  }

  // The place of a vector of the window's tensor number m.
  template <class T>
  __device__ Place place(std::uint32_t m, std::uint32_t vector) const {
    const std::uint32_t index = vector - starts[m];
    const TensorEnds ends = tensor_ends[m];
    Place p;
    p.low = index == 0 ? ends.head() : 0;
    p.high = starts[m + 1] == vector + 1 ? ends.tail() : kVectorElements<T>;
    p.whole = p.low == 0 && p.high == kVectorElements<T> && !ends.misaligned();
    p.x = x[m] + std::uint64_t{index} * kVectorBytes;
    p.out = out[m] + std::uint64_t{index} * kVectorBytes;
    __builtin_assume(__isGlobal(p.x) && __isGlobal(p.out));
    return p;
  }
};

// The elements of a vector in registers.
template <class T>
union TensorVector {
  uint4 words;
  T elements[kVectorElements<T>];

  __device__ void load(const Place& place) { words = *reinterpret_cast<const uint4*>(place.x); }

  // Stores body.element() of each element: from registers if the vector is whole, else one by one.
  template <class Body, class State>
  __device__ void map(const Body& body, State& state, const Place& place) {
    if (place.whole) {
#pragma unroll
      for (int j = 0; j < kVectorElements<T>; ++j) elements[j] = body.element(state, elements[j]);
      *reinterpret_cast<uint4*>(place.out) = words;
    } else {
#pragma unroll 1
      for (int j = place.low; j < place.high; ++j)
        reinterpret_cast<T*>(place.out)[j] =
            body.element(state, reinterpret_cast<const T*>(place.x)[j]);
    }
  }
};

// Calls body.element() for every element of every tensor. A body is a kernel parameter; each thread
// has a State of it:
//   State begin() const             issues what a thread reads before its first element
//   bool idle(State) const          nothing is to be done
//   bool reads(State) const         element() uses its T
//   void prepare(State&) const      computes with what begin() has read, after all loads are issued
//   T element(State&, T) const      the element to store
//   void end(State) const           reports what the thread has found
// A thread waits where it first uses what begin() has read, so as much as can be is left to
// prepare().
template <class T, int Unroll, class Body, class Args>
__global__ void __launch_bounds__(kMultiTensorThreads)
    multi_tensor_kernel(const __grid_constant__ Body body, const __grid_constant__ Args args) {
  constexpr std::uint32_t kVectors = Window<Unroll>::kVectors;
  __shared__ Window<Unroll> window;

  auto state = body.begin();
  const std::uint32_t begin = blockIdx.x * kVectors;
  if (begin >= args.vectors || body.idle(state)) return;
  const std::uint32_t end = min(begin + kVectors, args.vectors);
  const std::uint32_t tensors = window.load(args, begin, end);

  TensorVector<T> vectors[Unroll];
  std::uint32_t tensor[Unroll];
  std::uint32_t m = 0;
#pragma unroll
  for (int k = 0; k < Unroll; ++k) {  // all loads are issued before one is waited for
    const std::uint32_t vector = begin + k * kMultiTensorThreads + threadIdx.x;
    if (vector >= end) break;
    if (k == 0)
      m = last_start(0, tensors - 1, vector, [&](std::uint32_t i) { return window.starts[i]; });
    while (window.starts[m + 1] <= vector) ++m;
    tensor[k] = m;
    const Place place = window.template place<T>(m, vector);
    if (place.whole && body.reads(state)) vectors[k].load(place);
  }
  body.prepare(state);
#pragma unroll
  for (int k = 0; k < Unroll; ++k) {
    const std::uint32_t vector = begin + k * kMultiTensorThreads + threadIdx.x;
    if (vector >= end) break;
    vectors[k].map(body, state, window.template place<T>(tensor[k], vector));
  }
  body.end(state);
}

}  // namespace twinops
