// The parameters of softmax's and log_softmax's kernels.
#pragma once

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/softmax/split_axes.cuh"
#include "numerics/softmax.hpp"

namespace twinops {

// The operands of rows; from kMask on they are the mask's.
inline constexpr int kOut = SoftmaxArguments::kOut, kX = SoftmaxArguments::kX,
                     kMask = SoftmaxArguments::kOperands;

// Softmax of x itself, without scale and mask, in rows a stride apart: "simple" rows.
template <class In_, class Out_>
struct SimpleSoftmaxParams {
  using In = In_;
  using Out = Out_;
  using F = compute_t<In>;
  static constexpr bool kSimple = true;
  static constexpr int kMostWarps = kRowWarps<F>;  // of a block

  const In* x;
  const In* x_end;
  Out* out;
  Rows<kMask, 1> rows;
  bool masked_is_zero;
};
// Any softmax of fewer than 2^31 rows.
template <class In_, class Out_>
struct SoftmaxParams {
  using In = In_;
  using Out = Out_;
  using F = compute_t<In>;
  static constexpr bool kSimple = false;
  static constexpr int kMostWarps = kRowWarps<F>;

  const In* x;
  const In* x_end;
  Out* out;
  struct {
    std::int64_t rows, length, step[kMask];
    CountedAxes<kMask + RowMask::kOperands, kSoftmaxAxes> outer;
  } rows;
  RowMask mask;
  F scale;
  bool plain;  // without scale and mask
  bool masked_is_zero;

  bool is_simple() const { return plain && rows.outer.rank <= 1; }
  SimpleSoftmaxParams<In, Out> simple() const {
    const auto& stride = rows.outer.stride;
    return {x,
            x_end,
            out,
            {rows.rows,
             rows.length,
             {rows.step[kOut], rows.step[kX]},
             {rows.outer.rank, {rows.rows}, {{stride[kOut][0]}, {stride[kX][0]}}}},
            masked_is_zero};
  }
};
static_assert(sizeof(SoftmaxParams<float16, float16>) <= kSmallParameters);

// Whether a row's maximum may be out of exp's range (RowKind::out_of_range): of numbers of T as
// they are, and of what a launch with Params makes of them.
template <class T>
inline constexpr bool kHasOutOfRange = kOverflow<T> > kExpReach<compute_t<T>>;
template <class Params>
inline constexpr bool kMeetsOutOfRange = !Params::kSimple || kHasOutOfRange<typename Params::In>;

template <class T>
inline constexpr T kPad = -kInfinity<T>;  // stands beyond a row: its weight is +0
template <>
inline constexpr float16 kPad<float16> = portable::narrow_float16(-kInfinity<float>);
template <>
inline constexpr bfloat16 kPad<bfloat16> = portable::narrow_bfloat16(-kInfinity<float>);

}  // namespace twinops
