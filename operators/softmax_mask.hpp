// Which elements of a row softmax is taken of, and what is added to them: the arguments mask and
// lengths and the attributes scale, causal and causal_offset. docs/operators/softmax.md.
#pragma once

#include "numerics/qualifiers.hpp"
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
  bool wide_lengths = false;  // int64, else int32
  bool causal = false;

  // What lies somewhere for each row: its mask, its length, and its own place along the axis before
  // the last.
  enum Operand { kMask, kLength, kQuery, kOperands };

  // Bytes of an element of the mask of an x of `type`.
  std::size_t element(Type type) const {
    return kind == Kind::excluded ? 1 : kind == Kind::added ? size_of(type) : sizeof(float);
  }

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
};

// Strides along every axis of x, 0 where a tensor is broadcast.
struct MaskStrides {
  Strides mask, lengths, query;
};

// Reads all of it but `step`, which follows from the strides.
RowMask read_row_mask(const Call& call, const Tensor& x, int axis, MaskStrides& strides);

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

inline constexpr std::array<AttributeInfo, 3> kRowMaskAttributes{{
    {"scale", AttributeValue::of(1.0), nullptr,
     "What x is multiplied with first; finite. Rounded to float for all but float64."},
    {"causal", AttributeValue::of(false), nullptr,
     "Masks out element j of row i (i: the index along the axis before the last) where j > i + "
     "causal_offset."},
    {"causal_offset", AttributeValue::of(std::int64_t{0}), nullptr,
     "Moves the diagonal: columns - rows aligns it with the last row."},
}};

}  // namespace twinops
