// What the kernels of dropout, bias_dropout_residual and their backward passes do: one arithmetic,
//   y = (kept ? (x + bias) * scale : +0) + residual,
// where the mask is drawn, read, or the same for all, and may be stored.
#pragma once

#include "numerics/dropout.hpp"
#include "operators/layout.hpp"
#include "operators/random.hpp"

namespace twinops {

// Elements that lie side by side: x, y and residual are without gaps, in logical order, and draw
// indexes follow one another. Element i's bias is bias[i mod bias_period].
struct FlatDropout {
  enum class Source { all, none, draw, bits, bytes };  // which elements are kept
  enum class Sink { nothing, bits, bytes };            // where the mask goes

  std::int64_t elements;
  const void* x;
  void* y;
  const void* bias;      // nullptr, or as many elements as bias_period
  const void* residual;  // nullptr, or of x's shape
  std::int64_t bias_period;
  Source source;
  Sink sink;
  const void* mask_in;  // in logical order: bits in 32-bit words, or bytes
  void* mask_out;
  KeepRange keep;
  double scale;  // rounded to the compute type already
  RandomArguments random;
};

// Any elements: where they are not flat, `layout` says where element i lies.
struct DropoutWork : FlatDropout {
  Type type;
  bool flat;
  enum Operand { kLogical, kY, kX, kBias, kResidual, kDraw, kRow, kOperands };
  Layout<kOperands> layout;    // in the logical order of elements
  std::uint64_t random_words;  // that the call reserves
};

// The names of an operator's arguments; nullptr for what it has not.
struct DropoutNames {
  const char *x, *y, *mask, *bias, *residual;
  bool mask_is_input;
};

// Reads and checks all of a call. Attributes: p, mode, training, and those of a random sequence.
DropoutWork read_dropout(const Call& call, const DropoutNames& names);

// The same without its own checks of y and of what overlaps: for operators of which dropout is a
// part. `x` is what names.x is called by in messages.
struct DropoutTarget {
  void* data;
  Strides strides;
  bool contiguous;
};
DropoutWork read_dropout_work(const Call& call, const DropoutNames& names, const Tensor& x,
                              const DropoutTarget& y);

inline constexpr std::array<AttributeInfo, 13> kDropoutAttributes = join(
    std::array<AttributeInfo, 3>{{
        {"p", AttributeValue::of(0.5), nullptr,
         "The probability of dropping an element, in [0, 1]; rounded to float."},
        {"mode", AttributeValue::of("upscale_in_train"), "upscale_in_train|downgrade_in_infer",
         "Where 1 - p is made up for: kept elements are scaled by 1 / (1 - p) in training, or all "
         "by 1 - p outside it."},
        {"training", AttributeValue::of(true), nullptr,
         "Outside training nothing is dropped or drawn."},
    }},
    kRandomAttributes);

inline constexpr TypeSet kMaskTypes{Type::boolean, Type::uint8, Type::uint32};

}  // namespace twinops
