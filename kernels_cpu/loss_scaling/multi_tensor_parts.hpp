// A list of tensors, divided over the threads by elements, not by tensors, so that one large tensor
// and a thousand small ones keep all threads equally busy. Strided tensors are gathered into a
// small buffer and scattered back, so that a kernel sees contiguous elements only.
#pragma once

#include "operators/execution.hpp"
#include "operators/tensor_list.hpp"

namespace twinops {

// Calls body(context, part) for every part of the list. Returns whether any call returned true.
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
