// A list of tensors, cut over the threads by elements, not by tensors: one large tensor and a
// thousand small ones keep every thread equally busy. Strided members are gathered into a small
// buffer and scattered back, so that a kernel sees consecutive elements only.
#pragma once

#include "operators/execution.hpp"
#include "operators/tensor_list.hpp"

namespace twinops {

// Calls body(context, part) until all of the list's have come; returns whether any call returned
// true.
using PartBody = bool (*)(const void* context, const TensorList::Part& part);
bool for_each_part(const TensorList& list, const Execution& execution, PartBody body,
                   const void* context);

template <class F>
TWINOPS_INLINE bool for_each_part(const TensorList& list, const Execution& execution, const F& f) {
  return for_each_part(
      list, execution,
      [](const void* context, const TensorList::Part& part) {
        return (*static_cast<const F*>(context))(part);
      },
      &f);
}

}  // namespace twinops
