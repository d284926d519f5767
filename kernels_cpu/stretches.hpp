// A list of tensors as stretches of consecutive elements, cut over the threads by elements, not by
// tensors: one large tensor and a thousand small ones keep every thread equally busy. Strided
// members are gathered into a small buffer and scattered back, so that a kernel sees stretches
// only.
#pragma once

#include "operators/execution.hpp"
#include "operators/tensor_list.hpp"

namespace twinops {

struct Stretch {
  const void* x;
  void* out;  // x itself, or apart from it
  std::int64_t elements;
};

// Of one type, one worked on after the other.
struct Stretches {
  Type type;
  const Stretch* first;
  std::size_t count;  // > 0
};

// Calls body(context, stretches) until all of the list's have come; returns whether any call
// returned true.
using StretchBody = bool (*)(const void* context, const Stretches& stretches);
bool for_each_stretch(const TensorList& list, const Execution& execution, StretchBody body,
                      const void* context);

template <class F>
TWINOPS_INLINE bool for_each_stretch(const TensorList& list, const Execution& execution,
                                     const F& f) {
  return for_each_stretch(
      list, execution,
      [](const void* context, const Stretches& stretches) {
        return (*static_cast<const F*>(context))(stretches);
      },
      &f);
}

}  // namespace twinops
