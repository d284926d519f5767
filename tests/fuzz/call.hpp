// A call as a fuzzer's bytes describe it: a case of tools/proof, whichever operator it is of, and
// changes to it. So a new operator is fuzzed as soon as it has cases.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tests/fuzz/bytes.hpp"
#include "tests/fuzz/memory.hpp"
#include "tools/proof/problem.hpp"
#include "twinops/twinops.h"

namespace fuzz {

// What is wrong with a description on purpose.
enum class Spoiling {
  nothing,
  null_data,
  null_shape,
  rank,
  type,
  lanes,
  device,
  byte_offset,
  null_name,
  null_tensor,
  count,
  struct_size,
  kind,
  kMost
};

struct View {  // one tensor of the call
  std::string argument;
  bool is_output;
  proof::TensorSpec spec;
  std::size_t element;  // bytes
  std::byte* lowest;    // of its elements
  std::byte* origin;    // the element whose indexes are all 0
  std::size_t bytes;    // from the lowest element to beyond the highest
  std::int64_t elements;
  DLTensor tensor;
};

struct Call {
  explicit Call(const proof::Problem& of) : problem(of) {}
  Call(const Call&) = delete;

  proof::Problem problem;
  std::deque<View> views;
  std::vector<const DLTensor*> pointers;
  std::vector<twinops_argument> arguments;
  std::vector<twinops_attribute> attributes;
  int threads = 1;
  int runner = 0;               // 0: the library's threads; else the host's, in order or in reverse
  int failing_allocation = -1;  // the number of the allocation that gives nothing
  bool own_allocator = false;
  std::vector<std::string> garbage;  // that attributes point to
};

// The changes that the bytes ask for.
void change(proof::Problem& problem, Bytes& bytes);
// Gives the problem memory and makes the call; false where it is too large to be run.
bool make(Call& call, Bytes& bytes, GuardedMemory& memory, DLDevice device);

// Calls f(byte offset from view.origin) for every element of a view.
template <class F>
void for_each_element(const View& view, F&& f) {
  const std::vector<std::int64_t>& shape = view.spec.shape;
  if (view.elements == 0) return;
  std::vector<std::int64_t> index(shape.size(), 0), strides = view.spec.strides;
  if (strides.empty() && !shape.empty()) {
    strides.assign(shape.size(), 1);
    for (std::size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  }
  std::int64_t offset = 0;
  while (true) {
    f(offset * static_cast<std::int64_t>(view.element));
    std::size_t axis = shape.size();
    while (axis-- > 0) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace fuzz
