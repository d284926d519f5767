// The random words of a tensor, one after the other, for the scalar references.
#pragma once

#include "operators/execution.hpp"
#include "operators/random_fill.hpp"

namespace twinops {

// Calls put(offset in out, word) for every element.
template <class Put>
void for_each_word(const RandomFill& fill, Execution& execution, Put&& put) {
  execution.random_words = fill.random.words;
  for (std::int64_t i = 0; i < fill.elements; ++i) {
    std::int64_t rest = i, out = 0, draw = 0, row = 0;
    for (int axis = fill.layout.rank - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % fill.layout.size[axis];
      rest /= fill.layout.size[axis];
      out += index * fill.layout.stride[RandomFill::kOut][axis];
      draw += index * fill.layout.stride[RandomFill::kDraw][axis];
      row += index * fill.layout.stride[RandomFill::kRow][axis];
    }
    Sequence s = fill.random.sequence();
    if (fill.random.seeds != nullptr) s.seed = fill.random.seeds[row];
    put(out, word_of(fill.random.order(), s, fill.random.first + static_cast<std::uint64_t>(draw)));
  }
}

}  // namespace twinops
