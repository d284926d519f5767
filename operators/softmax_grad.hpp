// The backward passes of softmax and log_softmax. docs/operators/softmax_grad.md.
#pragma once

#include "operators/execution.hpp"
#include "operators/mask_gradient.hpp"
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

  CombinedMask combined;  // where it is asked for, mask.data is still to be made

  BroadcastSums dmask, dbias;
  // Where rows of x's shape lie that have no gaps: of the same rows in the same order, and only
  // where sums are asked for.
  Layout<1> packed;
  std::int64_t packed_step;

  TWINOPS_INLINE Type compute_type() const {
    return types.in == Type::float64 ? Type::float64 : Type::float32;
  }
  TWINOPS_INLINE bool sums_asked() const { return dmask.asked() || dbias.asked(); }
  // Whether what is summed up is not dx itself, and how many bytes it takes.
  TWINOPS_INLINE bool needs_packed() const { return scale != 1 || types.out != compute_type(); }
  TWINOPS_INLINE std::size_t packed_bytes() const {
    return static_cast<std::size_t>(rows.rows * rows.length) * size_of(compute_type());
  }
};

// Carries out a gradient and the sums that it is asked for. run(arguments) makes dx; sum(sums,
// values, place) adds up the gradients with respect to softmax's values, which are dx where that is
// of the compute type and not scaled. Else they are made first, in scratch memory, because dx may
// be written over what they are made of.
template <class Run, class Sum>
void run_with_sums(const SoftmaxGradArguments& a, Execution& execution, Run&& run, Sum&& sum) {
  if (!a.sums_asked()) return run(a);
  const auto sum_all = [&](const void* values, BroadcastSums::Place place) {
    if (a.dmask.asked()) sum(a.dmask, values, place);
    if (a.dbias.asked()) sum(a.dbias, values, place);
  };
  if (!a.needs_packed()) {
    run(a);
    return sum_all(a.dx, BroadcastSums::kDx);
  }
  const Workspace packed(execution, a.packed_bytes());
  SoftmaxGradArguments d = a;
  d.dx = packed.data();
  d.types.out = a.compute_type();
  d.scale = 1;
  d.rows.step[SoftmaxGradArguments::kDx] = a.packed_step;
  for (int axis = 0; axis < d.rows.outer.rank; ++axis)
    d.rows.outer.stride[SoftmaxGradArguments::kDx][axis] = a.packed.stride[0][axis];
  run(d);
  sum_all(packed.data(), BroadcastSums::kPacked);
  run(a);
}

// Reads all of a call but what overlaps; `y` is the name of what the forward pass gave. `more`: the
// strides of one further operand of the caller's, whose rows come back beside.
struct SoftmaxGradCall {
  SoftmaxGradArguments arguments;
  Layout<1> more;  // of the same rows in the same order
  std::int64_t more_step;
};
SoftmaxGradCall read_softmax_grad(const Call& call, const char* y, const Strides& more);

inline constexpr std::array<ArgumentInfo, 3> kGradMaskArguments{{
    {"mask", ArgumentInfo::Direction::input, ArgumentInfo::Form::tensor, false,
     kRowMaskArguments[0].types,
     "The forward pass's. What it masks out gets a gradient of 0, and its dy is not read.", "dx",
     row_mask_types},
    {"lengths", ArgumentInfo::Direction::input, ArgumentInfo::Form::tensor, false,
     kRowMaskArguments[1].types, "The forward pass's."},
    {"dmask", ArgumentInfo::Direction::output, ArgumentInfo::Form::tensor, false, kFloatingTypes,
     "The gradient of a mask of numbers, summed over the axes that it was broadcast over: its type "
     "and shape, without gaps."},
}};

inline constexpr std::array<ArgumentInfo, 2> kGradBiasArguments{{
    {"bias", ArgumentInfo::Direction::input, ArgumentInfo::Form::tensor, false, kFloatingTypes,
     "The forward pass's. Where it is -infinity, its element is masked out.", "dx", bias_types},
    {"dbias", ArgumentInfo::Direction::output, ArgumentInfo::Form::tensor, false, kFloatingTypes,
     "The gradient of bias, summed over the axes that it was broadcast over: its type and shape, "
     "without gaps."},
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
