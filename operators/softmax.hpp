// softmax and log_softmax over one axis. docs/operators/softmax.md, docs/operators/log_softmax.md.
#pragma once

#include "operators/softmax_mask.hpp"

namespace twinops {

struct SoftmaxArguments {
  enum Operand { kOut, kX, kOperands };  // of rows
  const void* x;
  void* out;
  TypePair types;  // of x, of out
  Rows<kOperands> rows;
  bool masked_is_zero;  // a row of nothing but -infinity: probabilities 0, not NaN
  double scale;         // of the compute type
  RowMask mask;
  Layout<RowMask::kOperands> mask_outer;  // of the axes of rows.outer, in the same order
  CombinedMask combined;                  // where it is asked for, mask.data is still to be made

  // softmax of x itself.
  TWINOPS_INLINE bool is_plain() const { return scale == 1 && mask.is_plain(); }
};

// Reads all of a call; `out` is the output's name. `more`: the strides of two further operands of
// the caller's, whose rows come back beside.
struct SoftmaxCall {
  SoftmaxArguments arguments;
  Layout<2> more;  // of the same rows in the same order
  std::int64_t more_step[2];
};
SoftmaxCall read_softmax(const Call& call, const char* out, const std::array<Strides, 2>& more);

inline constexpr auto kSoftmaxAttributes =
    join(std::array<AttributeInfo, 2>{{
             {"axis", AttributeValue::of(std::int64_t{-1}), nullptr,
              "The axis that rows lie along; counted from the end if negative."},
             {"masked_rows", AttributeValue::of("nan"), "nan|zeros",
              "What a row of nothing but -infinity, or masked out throughout, gives: NaN, or "
              "probabilities of 0."},
         }},
         kRowMaskAttributes);

struct Softmax {
  static constexpr bool kLog = false;
  static const OperatorInfo info;
  using Arguments = SoftmaxArguments;
  static Arguments parse(const Call& call);
};

struct LogSoftmax {
  static constexpr bool kLog = true;
  static const OperatorInfo info;
  using Arguments = SoftmaxArguments;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
