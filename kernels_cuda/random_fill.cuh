// The kernel of philox_words and uniform. Memory: each element is written once; four elements, a
// Philox block, a thread. Nothing depends on the grid.
#pragma once

#include <algorithm>

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/launch.cuh"
#include "operators/random_fill.hpp"

namespace twinops {

inline constexpr int kFillThreads = 256;

template <bool kUniform>
__device__ std::uint32_t converted(RandomLayout layout, std::uint32_t word) {
  return kUniform ? to_bits(uniform_of(layout, word)) : word;
}

// Elements [i, i + 4), one by one, wherever they lie.
template <bool kUniform>
__device__ void fill_four(const RandomFill& fill, const Sequence& sequence, std::int64_t i) {
  WordReader reader(fill.random.layout, fill.random.period);
  for (int j = 0; j < 4 && i + j < fill.elements; ++j) {
    std::int64_t rest = i + j, out = 0, draw = 0, row = 0;
    for (int axis = fill.walk.rank - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % fill.walk.size[axis];
      rest /= fill.walk.size[axis];
      out += index * fill.walk.stride[RandomFill::kOut][axis];
      draw += index * fill.walk.stride[RandomFill::kDraw][axis];
      row += index * fill.walk.stride[RandomFill::kRow][axis];
    }
    Sequence s = sequence;
    if (fill.random.seeds != nullptr) s.seed = fill.random.seeds[row];
    const std::uint32_t word = reader.word(s, fill.random.first + static_cast<std::uint64_t>(draw));
    static_cast<std::uint32_t*>(fill.out)[out] = converted<kUniform>(fill.random.layout, word);
  }
}

template <bool kUniform>
__global__ void __launch_bounds__(kFillThreads)
    fill_kernel(const __grid_constant__ RandomFill fill, bool by_blocks) {
  const Sequence sequence = fill.random.sequence();
  const std::int64_t step = std::int64_t{gridDim.x} * kFillThreads;
  const std::int64_t groups = (fill.elements + 3) / 4;
  for (std::int64_t group = std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x; group < groups;
       group += step) {
    if (!by_blocks || group * 4 + 4 > fill.elements) {
      fill_four<kUniform>(fill, sequence, group * 4);
      continue;
    }
    const auto b =
        philox_block(sequence.seed, sequence.subsequence,
                     sequence.block + fill.random.first / 4 + static_cast<std::uint64_t>(group));
    const auto value = [&](int k) { return converted<kUniform>(fill.random.layout, b.w[k]); };
    static_cast<uint4*>(fill.out)[group] = make_uint4(value(0), value(1), value(2), value(3));
  }
}

template <bool kUniform>
void fill_on_cuda(const RandomFill& fill, Execution& execution) {
  execution.random_words = fill.random.words;
  if (fill.elements == 0) return;
  const CurrentDevice current(execution.device.index);
  const bool by_blocks = fill.flat && fill.random.layout == RandomLayout::contiguous &&
                         fill.random.first % 4 == 0 &&
                         reinterpret_cast<std::uintptr_t>(fill.out) % 16 == 0;
  const std::int64_t blocks = ((fill.elements + 3) / 4 + kFillThreads - 1) / kFillThreads;
  fill_kernel<kUniform>
      <<<static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)), kFillThreads, 0,
         static_cast<cudaStream_t>(execution.stream)>>>(fill, by_blocks);
  check(cudaGetLastError(), "launch of philox_words or uniform");
  ++execution.launches;
}

}  // namespace twinops
