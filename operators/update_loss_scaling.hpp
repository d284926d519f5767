// update_loss_scaling: the step of dynamic loss scaling that follows check_finite_and_unscale.
// docs/operators/update_loss_scaling.md.
#pragma once

#include "numerics/loss_scaling.hpp"
#include "operators/tensor_list.hpp"

namespace twinops {

struct UpdateLossScaling {
  static const OperatorInfo info;

  struct Arguments {
    TensorList list;
    const void* found_inf;  // one bool, uint8 or float32: any value but 0 is found
    Type found_inf_type;
    Type scale_type;  // float32 or float64
    const void* scale;
    const std::int32_t* good_steps;
    const std::int32_t* bad_steps;
    void* scale_out;
    std::int32_t* good_steps_out;
    std::int32_t* bad_steps_out;
    LossScaleRule rule;
    bool stop_update;  // the state passes through unchanged
  };
  static Arguments parse(const Call& call);
};

}  // namespace twinops
