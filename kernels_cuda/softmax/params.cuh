// What a launch of softmax or log_softmax brings to its kernel.
#pragma once

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/softmax/split_axes.cuh"
#include "numerics/softmax.hpp"

namespace twinops {

// Softmax of x itself, in rows a stride apart: operand 0 of rows is out, operand 1 is x.
template <class In_, class Out_>
struct SimpleSoftmaxJob {
  using In = In_;
  using Out = Out_;
  using F = compute_t<In>;
  static constexpr bool kSimple = true;
  static constexpr int kMostWarps = kRowWarps<F>;  // of a block

  const In* x;
  const In* x_end;
  Out* out;
  Rows<2, 1> rows;
  bool masked_is_zero;
};
// Any softmax of fewer than 2^31 rows. A kernel may have an instance of its own for what is simple,
// which is shorter.
template <class In_, class Out_>
struct SoftmaxJob {
  using In = In_;
  using Out = Out_;
  using F = compute_t<In>;
  static constexpr bool kSimple = false;
  static constexpr int kMostWarps = kRowWarps<F>;
  static constexpr int kMask = 2;  // the first of the mask's operands among those of rows

  const In* x;
  const In* x_end;
  Out* out;
  struct {
    std::int64_t rows, length, step[2];
    CountedAxes<kMask + RowMask::kOperands, kSoftmaxAxes> outer;
  } rows;
  RowMask mask;
  F scale;
  bool plain;  // softmax of x itself
  bool masked_is_zero;

  bool is_simple() const { return plain && rows.outer.rank <= 1; }
  SimpleSoftmaxJob<In, Out> simple() const {
    const auto& stride = rows.outer.stride;
    return {x,
            x_end,
            out,
            {rows.rows,
             rows.length,
             {rows.step[0], rows.step[1]},
             {rows.outer.rank, {rows.rows}, {{stride[0][0]}, {stride[1][0]}}}},
            masked_is_zero};
  }
};
static_assert(sizeof(SoftmaxJob<float16, float16>) <= kFewParameters);

// Whether a row's maximum may be out of reach (RowKind::far): of numbers of T as they are, and of
// what a job makes of them.
template <class T>
inline constexpr bool kHasFar = kOverflow<T> > kExpReach<compute_t<T>>;
template <class Job>
inline constexpr bool kMeetsFar = !Job::kSimple || kHasFar<typename Job::In>;

template <class T>
inline constexpr T kPad = -kInfinity<T>;  // beyond a row: weights of +0
template <>
inline constexpr float16 kPad<float16> = portable::narrow_float16(-kInfinity<float>);
template <>
inline constexpr bfloat16 kPad<bfloat16> = portable::narrow_bfloat16(-kInfinity<float>);

}  // namespace twinops
