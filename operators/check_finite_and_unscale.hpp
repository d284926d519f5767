// check_finite_and_unscale: divides a list of tensors by the loss scale, and says whether any value
// is not finite. docs/operators/check_finite_and_unscale.md.
#pragma once

#include "operators/tensor_list.hpp"

namespace twinops {

struct CheckFiniteAndUnscale {
  static const OperatorInfo info;

  struct Arguments {
    TensorList list;
    const void* scale;  // one float32 or float64, on the device
    Type scale_type;
    void*
        found_inf;  // one bool, uint8 or float32, on the device: set, never cleared unless `reset`
    Type found_inf_type;
    bool check_input;  // what is tested: the values read, not the values stored
    bool reset;        // found_inf starts at 0
  };
  static Arguments parse(const Call& call);
};

}  // namespace twinops
