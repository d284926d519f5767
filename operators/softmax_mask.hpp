// Which elements of a row softmax is taken of, and what is added to them: the arguments mask and
// lengths and the attributes scale, causal and causal_offset. docs/operators/softmax.md.
#pragma once

#include "numerics/combined_mask.hpp"
#include "numerics/float16.hpp"
#include "numerics/softmax.hpp"
#include "operators/execution.hpp"
#include "operators/softmax_rows.hpp"

namespace twinops {

struct RowMask {
  enum class Kind : std::uint8_t {
    none,
    excluded,       // bytes: not 0 means masked out
    added,          // numbers of x's type
    added_float32,  // float32 where x is of 16 bits
  };
  const void* data = nullptr;
  std::int64_t step = 0;          // between the mask's elements along a row
  const void* lengths = nullptr;  // nullptr: none
  std::int64_t causal_offset = 0;
  Kind kind = Kind::none;
  Type type = Type::uint8;    // of the mask
  bool wide_lengths = false;  // int64, else int32
  bool causal = false;

  // What lies somewhere for each row: its mask, its length, and its own place along the axis before
  // the last.
  enum Operand { kMask, kLength, kQuery, kOperands };

  // Bytes of an element of the mask.
  std::size_t element() const { return size_of(type); }

  // Every element counts, and nothing is added to it.
  TWINOPS_INLINE bool is_plain() const {
    return kind == Kind::none && lengths == nullptr && !causal;
  }

  // How many elements of a row count, from its first on; those beyond are masked out. `at`: the
  // row's offsets by Operand.
  TWINOPS_INLINE std::int64_t columns(const std::int64_t* at, std::int64_t length) const {
    std::int64_t n = length;
    if (lengths != nullptr) {
      const std::int64_t given = wide_lengths
                                     ? static_cast<const std::int64_t*>(lengths)[at[kLength]]
                                     : static_cast<const std::int32_t*>(lengths)[at[kLength]];
      n = given < n ? given : n;
    }
    if (causal) {
      const std::int64_t seen = at[kQuery] + causal_offset + 1;
      n = seen < n ? seen : n;
    }
    return n < 0 ? 0 : n;
  }

  // Whether the mask's element at `place` lets an element of x count.
  TWINOPS_INLINE bool lets_count(std::int64_t place) const {
    if (kind == Kind::none) return true;
    switch (type) {
      case Type::float16:
        return !masks_out(widen(static_cast<const float16*>(data)[place]));
      case Type::bfloat16:
        return !masks_out(widen(static_cast<const bfloat16*>(data)[place]));
      case Type::float32:
        return !masks_out(static_cast<const float*>(data)[place]);
      case Type::float64:
        return !masks_out(static_cast<const double*>(data)[place]);
      default:
        return static_cast<const std::uint8_t*>(data)[place] == 0;
    }
  }
};

// A bias and a mask beside it, which are made one mask of numbers in scratch memory first, in the
// shape that both are broadcast to. Kernels then see that mask alone.
struct CombinedMask {
  bool asked = false;
  Type type = Type::float32;  // of what is made: the type that x is computed in
  std::int64_t elements = 0;
  const void *bias = nullptr, *mask = nullptr;
  Type bias_type = Type::float32, mask_type = Type::uint8;
  enum Operand { kOut, kBias, kMask, kOperands };
  Layout<kOperands> axes;

  std::size_t bytes() const {
    return asked ? static_cast<std::size_t>(elements) * size_of(type) : 0;
  }
  // The number at an element of each.
  template <class F>
  TWINOPS_INLINE F value(std::int64_t bias_at, std::int64_t mask_at) const {
    const F number = number_at<F>(bias, bias_type, bias_at);
    if (mask_type == Type::boolean || mask_type == Type::uint8)
      return combined_where(static_cast<const std::uint8_t*>(mask)[mask_at] == 0, number);
    return combined(number, number_at<F>(mask, mask_type, mask_at));
  }

 private:
  template <class F>
  TWINOPS_INLINE static F number_at(const void* data, Type type, std::int64_t at) {
    switch (type) {
      case Type::float16:
        return static_cast<F>(widen(static_cast<const float16*>(data)[at]));
      case Type::bfloat16:
        return static_cast<F>(widen(static_cast<const bfloat16*>(data)[at]));
      case Type::float64:
        return static_cast<F>(static_cast<const double*>(data)[at]);
      default:
        return static_cast<F>(static_cast<const float*>(data)[at]);
    }
  }
};

// Calls run(arguments), of softmax or its gradient, after make(combined, memory, execution) has
// made one mask of a bias and a mask, where there are both.
template <class Arguments, class Make, class Run>
void with_combined_mask(const Arguments& a, Execution& execution, Make&& make, Run&& run) {
  if (!a.combined.asked) return run(a);
  const Workspace memory(execution, a.combined.bytes());
  make(a.combined, memory.data(), execution);
  Arguments with = a;
  with.mask.data = memory.data();
  with.combined.asked = false;
  run(with);
}

// Strides along every axis of x, 0 where a tensor is broadcast.
struct MaskStrides {
  Strides mask, lengths, query;
};

// Reads all of it but `step`, which follows from the strides. x_name: what messages call x.
RowMask read_row_mask(const Call& call, const char* x_name, const Tensor& x, int axis,
                      MaskStrides& strides, CombinedMask& combined);

// The attribute scale, rounded to the type that `type` is computed in.
double read_scale(const Call& call, Type type);

inline constexpr std::array<ArgumentInfo, 2> kRowMaskArguments{{
    {"mask",
     ArgumentInfo::Direction::input,
     ArgumentInfo::Form::tensor,
     false,
     {Type::float16, Type::bfloat16, Type::float32, Type::float64, Type::boolean, Type::uint8},
     "Broadcast to x's shape. bool or uint8: not 0 means masked out. x's type, or float32 for a "
     "16-bit x: added to scale * x; -infinity masks out."},
    {"lengths",
     ArgumentInfo::Direction::input,
     ArgumentInfo::Form::tensor,
     false,
     {Type::int32, Type::int64},
     "Of the shape of x's first dimensions, one or more before the axis, each as in x or 1: how "
     "many elements of a row count. The rest is masked out."},
}};

inline constexpr std::array<ArgumentInfo, 1> kBiasArguments{{
    {"bias", ArgumentInfo::Direction::input, ArgumentInfo::Form::tensor, false, kFloatingTypes,
     "Broadcast to x's shape by itself: numbers that are added beside a mask or lengths. x's type, "
     "or float32 for a 16-bit x."},
}};

inline constexpr std::array<AttributeInfo, 2> kCausalAttributes{{
    {"causal", AttributeValue::of(false), nullptr,
     "Masks out element j of row i (i: the index along the axis before the last) where j > i + "
     "causal_offset."},
    {"causal_offset", AttributeValue::of(std::int64_t{0}), nullptr,
     "Moves the diagonal: columns - rows aligns it with the last row."},
}};

inline constexpr auto kRowMaskAttributes =
    join(std::array<AttributeInfo, 1>{{
             {"scale", AttributeValue::of(1.0), nullptr,
              "What x is multiplied with first; finite. Rounded to float for all but float64."},
         }},
         kCausalAttributes);

}  // namespace twinops
