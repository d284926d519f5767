// Two lists of tensors, member i written from member i: what check_finite_and_unscale and
// update_loss_scaling work on. Members that lie in one run of memory are `dense`, whatever their
// shape.
#pragma once

#include <vector>

#include "operators/call.hpp"
#include "operators/layout.hpp"

namespace twinops {

struct TensorList {
  struct Dense {
    const void* x;
    void* out;
    std::int64_t elements;  // > 0
    std::int64_t before;    // elements of the dense members before it
    Type type;
  };
  struct Strided {
    const void* x;
    void* out;
    std::int64_t elements;  // > 0
    Type type;
    Layout<2> layout;  // operand 0 is out, operand 1 is x
  };
  std::vector<Dense> dense;
  std::vector<Strided> strided;
  std::int64_t dense_elements = 0, elements = 0;  // of all
};

// Reads arguments `x` and `out`. Refuses lists of different length, members of different shape or
// type.
TensorList read_tensor_list(const Call& call, const char* x, const char* out);

// Reads a tensor that must have one element.
const Tensor& read_scalar(const Call& call, const char* argument);

}  // namespace twinops
