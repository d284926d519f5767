// Which elements of a row softmax is taken of, and what is added to them: the arguments mask,
// lengths and bias and the attributes scale, causal and causal_offset. docs/operators/softmax.md.
#pragma once

#include "operators/combined_mask.hpp"
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
    return kind == Kind::none || MaskElements{data, type}.let_count(place);
  }
};

// Strides along every axis of x, 0 where a tensor is broadcast.
struct MaskStrides {
  Strides mask, lengths, query;
};

// What a mask is read for: a gradient asks only which elements count.
enum class MaskUse { forward, gradient };

// Reads all of it but `step`, which follows from the strides, and, where `combined` is asked for,
// `data`. x_name: what messages call x.
RowMask read_row_mask(const Call& call, MaskUse use, const char* x_name, const Tensor& x, int axis,
                      MaskStrides& strides, CombinedMask& combined);

// The attribute scale, rounded to the type that `type` is computed in.
double read_scale(const Call& call, Type type);

// The types of numbers that are added to x, and of a mask.
constexpr TypeSet bias_types(Type x) {
  TypeSet types{x};
  if (size_of(x) == 2) types.add(Type::float32);
  return types;
}
constexpr TypeSet row_mask_types(Type x) {
  TypeSet types = bias_types(x);
  types.add(Type::boolean);
  types.add(Type::uint8);
  return types;
}

inline constexpr std::array<ArgumentInfo, 2> kRowMaskArguments{{
    {"mask",
     ArgumentInfo::Direction::input,
     ArgumentInfo::Form::tensor,
     false,
     {Type::float16, Type::bfloat16, Type::float32, Type::float64, Type::boolean, Type::uint8},
     "Broadcast to x's shape. bool or uint8: not 0 means masked out. x's type, or float32 for a "
     "16-bit x: added to scale * x; -infinity masks out.",
     "x",
     row_mask_types},
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
     "or float32 for a 16-bit x; -infinity masks out.",
     "x", bias_types},
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
