// A tensor as the operators see it: a checked view of a DLTensor. It borrows data, shape and
// strides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/small_vector.hpp"
#include "operators/types.hpp"

namespace twinops {

enum class Backend { cpu, cuda };
const char* name(Backend backend);

// Where memory is. Pinned host memory counts as the CPU's, managed memory as its GPU's.
struct Device {
  Backend backend;
  int index;
  bool operator==(const Device&) const = default;
};
// Pinned memory is the host's, managed memory its GPU's. Refuses what is neither's.
Device read_device(DLDevice device);

struct Tensor {
  void* data;  // byte_offset is already in it
  const std::int64_t* shape;
  const std::int64_t* strides;  // in elements; nullptr: row-major without gaps
  std::int64_t elements;
  Device device;
  int rank;
  Type type;
  bool contiguous;  // row-major without gaps, whatever strides say

  std::int64_t stride(int axis) const;  // 0 where there are no elements
};

inline bool same_shape(const Tensor& a, const Tensor& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.shape[i] != b.shape[i]) return false;
  return true;
}

// Along every axis: a tensor's own, and those of a row-major one of its shape. All 0 where there
// are no elements: the products of such a shape need not fit 64 bits.
using Strides = SmallVector<std::int64_t>;
Strides strides_of(const Tensor& tensor);
Strides row_major(const Tensor& tensor);

// What is known of tensors that were read one after the other. Of nearly every list it is all that
// need be asked, so that its Tensors are not even made.
struct Survey {
  Device device;  // of the first
  Type type;      // of the last
  bool one_device, one_type;
  bool dense;                 // none has a gap inside, and each has elements
  bool apart;                 // no gaps inside, each beyond the one before: all in [begin, end)
  std::uintptr_t begin, end;  // addresses; 0 where there are no elements
  std::int64_t elements;      // of all

  // Whether they lie one behind the other, as those of a flat buffer do.
  bool is_one_run() const {
    return dense && apart && one_type &&
           end - begin == static_cast<std::uintptr_t>(elements) * size_of(type);
  }
};

// Where a tensor of a list begins: how many elements those before it have, and its own first one;
// behind the last, how many all have. Who walks over a list looks at these alone, one behind the
// other, and not at the descriptions that came, which lie anywhere.
struct Start {
  std::int64_t before;
  void* data;  // nullptr where the tensor has no elements
};

// Where the results of reading go, one of the two at least: `count` Tensors; count + 1 Starts.
struct Readings {
  Tensor* tensors;
  Start* starts;
};

// Reads `count` DLTensors, counting them in `done`; returns what they showed. Throws
// Error(invalid_argument), saying what is wrong with number `done`, but not where, on: NULL, a type
// outside `types`, a device that is neither CPU nor CUDA, a negative dimension, more elements than
// fit 64-bit byte offsets, or than 64 bits count in all, NULL data of a tensor that has elements,
// data not aligned to its element.
Survey read_tensors(const DLTensor* const* tensors, std::size_t count, TypeSet types,
                    Readings readings, std::size_t& done);

// Of one that was read.
inline void* address_of(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

// Whether two arrays, the first of which was read, hold the same tensors: same memory, type, shape
// and strides.
bool same_views(const DLTensor* const* a, const DLTensor* const* b, std::size_t count);

}  // namespace twinops
