// The elements of a list of tensors, one after the other, for the scalar references.
#pragma once

#include "operators/tensor_list.hpp"

namespace twinops {

// Calls f(x, out) with typed references for every element of every tensor.
template <class F>
void for_each_element(const TensorList& list, F&& f) {
  for (std::size_t k = 0; k < list.dense_count(); ++k) {
    with_floating_type(list.type(k), [&]<class T>(TypeTag<T>) {
      for (std::int64_t i = 0; i < list.elements(k); ++i)
        f(static_cast<const T*>(list.x(k))[i], static_cast<T*>(list.out(k))[i]);
    });
  }
  for (const TensorList::Strided& m : list.strided()) {
    with_floating_type(m.type, [&]<class T>(TypeTag<T>) {
      for (std::int64_t i = 0; i < m.elements; ++i) {
        std::int64_t rest = i, x = 0, out = 0;
        for (int axis = m.layout.rank - 1; axis >= 0; --axis) {
          const std::int64_t index = rest % m.layout.size[axis];
          rest /= m.layout.size[axis];
          out += index * m.layout.stride[TensorList::Strided::kOut][axis];
          x += index * m.layout.stride[TensorList::Strided::kX][axis];
        }
        f(static_cast<const T*>(m.x)[x], static_cast<T*>(m.out)[out]);
      }
    });
  }
}

}  // namespace twinops
