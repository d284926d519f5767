// A bias and a mask in one call: they become one mask in scratch memory, in the shape that both are
// broadcast to, and kernels see that mask alone. softmax's is of numbers. Its gradient's is of
// bytes, because a bias enters it only where it masks an element out. docs/operators/softmax.md.
#pragma once

#include "numerics/float16.hpp"
#include "numerics/softmax.hpp"
#include "operators/execution.hpp"
#include "operators/layout.hpp"
#include "operators/types.hpp"

namespace twinops {

// Numbers, or bytes that are not 0 where an element is masked out.
struct MaskElements {
  const void* data = nullptr;
  Type type = Type::uint8;

  TWINOPS_INLINE bool are_bytes() const { return type == Type::uint8 || type == Type::boolean; }
  TWINOPS_INLINE bool let_count(std::int64_t place) const {
    switch (type) {
      case Type::float16:
      case Type::bfloat16:
      case Type::float32:
        return !masks_out(number<float>(place));
      case Type::float64:
        return !masks_out(number<double>(place));
      default:
        return static_cast<const std::uint8_t*>(data)[place] == 0;
    }
  }
  // F: the type that numbers of this type are computed in.
  template <class F>
  TWINOPS_INLINE F number(std::int64_t place) const {
    switch (type) {
      case Type::float16:
        return static_cast<F>(widen(static_cast<const float16*>(data)[place]));
      case Type::bfloat16:
        return static_cast<F>(widen(static_cast<const bfloat16*>(data)[place]));
      case Type::float64:
        return static_cast<F>(static_cast<const double*>(data)[place]);
      default:
        return static_cast<F>(static_cast<const float*>(data)[place]);
    }
  }
};

struct CombinedMask {
  enum Operand { kMade, kBias, kMask, kOperands };
  bool is_asked = false;
  Type type = Type::uint8;  // of what is made
  MaskElements bias, mask;
  std::int64_t elements = 0;  // of what is made
  Layout<kOperands> axes;

  TWINOPS_INLINE std::size_t bytes() const {
    return is_asked ? static_cast<std::size_t>(elements) * size_of(type) : 0;
  }
  // What is made of an element of each. T: of `type`.
  template <class T>
  TWINOPS_INLINE T value(std::int64_t bias_at, std::int64_t mask_at) const {
    if constexpr (sizeof(T) == 1) {
      return !(bias.let_count(bias_at) && mask.let_count(mask_at));
    } else {
      using F = compute_t<T>;
      const F number = bias.number<F>(bias_at);
      return narrow<T>(mask.are_bytes() ? bias_where(mask.let_count(mask_at), number)
                                        : bias_and_mask(number, mask.number<F>(mask_at)));
    }
  }
};

// Calls f with the TypeTag of what is made.
template <class F>
void with_type_of(const CombinedMask& combined, F&& f) {
  if (combined.type == Type::uint8) return f(TypeTag<std::uint8_t>{});
  with_floating_type(combined.type, f);
}

// Calls run(arguments), of softmax or its gradient, after make(combined, memory, execution) has
// made one mask of a bias and a mask, where there are both.
template <class Arguments, class Make, class Run>
void with_combined_mask(const Arguments& a, Execution& execution, Make&& make, Run&& run) {
  if (!a.combined.is_asked) return run(a);
  const Workspace memory(execution, a.combined.bytes());
  make(a.combined, memory.data(), execution);
  Arguments with = a;
  with.mask.data = memory.data();
  with.combined.is_asked = false;
  run(with);
}

}  // namespace twinops
