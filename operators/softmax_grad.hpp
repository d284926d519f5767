// The backward passes of softmax and log_softmax. docs/operators/softmax_grad.md.
#pragma once

#include "operators/softmax_mask.hpp"

namespace twinops {

struct SoftmaxGradArguments {
  enum Operand { kDx, kY, kDy, kOperands };  // of rows
  const void* y;
  const void* dy;
  void* dx;
  TypePair types;  // of y and dy, of dx
  Rows<kOperands> rows;
  double scale;  // that the forward pass multiplied x with; of the compute type
  RowMask mask;  // the forward pass's
  Layout<RowMask::kOperands> mask_outer;  // of the axes of rows.outer, in the same order
};

// Reads all of a call but what overlaps; `y` is the name of what the forward pass gave. `more`: the
// strides of one further operand of the caller's, whose rows come back beside.
struct SoftmaxGradCall {
  SoftmaxGradArguments arguments;
  Layout<1> more;  // of the same rows in the same order
  std::int64_t more_step;
};
SoftmaxGradCall read_softmax_grad(const Call& call, const char* y, const Strides& more);

inline constexpr std::array<ArgumentInfo, 2> kGradMaskArguments{{
    {"mask", ArgumentInfo::Direction::input, ArgumentInfo::Form::tensor, false,
     kRowMaskArguments[0].types,
     "The forward pass's. What it masks out gets a gradient of 0, and its dy is not read.", "dx",
     row_mask_types},
    {"lengths", ArgumentInfo::Direction::input, ArgumentInfo::Form::tensor, false,
     kRowMaskArguments[1].types, "The forward pass's."},
}};

inline constexpr auto kSoftmaxGradAttributes =
    join(std::array<AttributeInfo, 3>{{
             {"axis", AttributeValue::of(std::int64_t{-1}), nullptr,
              "The axis that rows lie along; counted from the end if negative."},
             {"masked_rows", AttributeValue::of("nan"), "nan|zeros",
              "The forward pass's. What is masked out has a gradient of 0 either way."},
             {"scale", AttributeValue::of(1.0), nullptr,
              "What the forward pass multiplied x with; dx is multiplied with it last."},
         }},
         kCausalAttributes);

struct SoftmaxGrad {
  static constexpr bool kLog = false;
  static const OperatorInfo info;
  using Arguments = SoftmaxGradArguments;
  static Arguments parse(const Call& call);
};

struct LogSoftmaxGrad {
  static constexpr bool kLog = true;
  static const OperatorInfo info;
  using Arguments = SoftmaxGradArguments;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
