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
  Type type;
  const void* next;  // the x of the stretch behind, to fetch ahead; x itself where there is none
};

// Calls body(context, stretch) for every stretch of the list; returns whether any call returned
// true.
using StretchBody = bool (*)(const void* context, const Stretch& stretch);
bool for_each_stretch(const TensorList& list, const Execution& execution, StretchBody body,
                      const void* context);

template <class F>
TWINOPS_INLINE bool for_each_stretch(const TensorList& list, const Execution& execution,
                                     const F& f) {
  return for_each_stretch(
      list, execution,
      [](const void* context, const Stretch& s) { return (*static_cast<const F*>(context))(s); },
      &f);
}

}  // namespace twinops
