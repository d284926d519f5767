// The kernels of philox_words and uniform.
//
// Memory: each element is written once, 16 bytes an access. Where elements and draws follow one
// another, a thread draws four groups of four words, 32 groups apart, so that a warp stores whole
// lines. A draw index or an address that is no multiple of four shifts words between lanes and
// costs one group in four. Other tensors go an octet a thread, at once where it is contiguous, else
// element by element. Nothing depends on the grid.
// What bounds it and what was tried: docs/lab/random-cuda.md.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/random/octet.cuh"
#include "operators/random_fill.hpp"

namespace twinops {

inline constexpr int kFillThreads = 256;
inline constexpr int kFillGroups = 4;  // of a thread, four elements each

template <bool kUniform>
__device__ __forceinline__ std::uint32_t converted(RandomLayout layout, std::uint32_t word) {
  return kUniform ? to_bits(uniform_of(layout, word)) : word;
}

// The parameters of a launch where elements and draws follow one another: `head` elements up to an
// aligned address, then groups of four, then fewer than four elements.
struct FillParams {
  FlatFill fill;
  PhiloxKeys keys;  // unless the seed is on the device
  std::int64_t head, groups;
  int period_log;  // of the strided layout's period; -1: no power of two
};
static_assert(sizeof(FillParams) <= kSmallParameters);

// Draws for a warp the words of groups first + lane, first + lane + 32, ...
template <RandomLayout kLayout, bool kSeedTensor>
class FillDrawer {
 public:
  __device__ __forceinline__ FillDrawer(const FillParams& params, const Sequence& s,
                                        std::uint64_t first)
      : params_(params), s_(s), keys_(kSeedTensor ? philox_keys(s.seed) : params.keys) {
    if constexpr (kLayout != RandomLayout::strided)
      family_ = philox_family(static_cast<std::uint32_t>(counter(first) >> 32),
                              static_cast<std::uint32_t>(s.subsequence),
                              static_cast<std::uint32_t>(s.subsequence >> 32), keys_);
  }

  // Whether the upper half of the counter is the same for `groups` groups from `first` on.
  __device__ bool one_high(std::uint64_t first, std::uint64_t groups) const {
    return kLayout == RandomLayout::strided ||
           (counter(first) ^ counter(first + groups)) >> 32 == 0;
  }

  // The words of group q. Layout triton: of the elements from 4 q + skip on.
  __device__ __forceinline__ void draw(std::uint64_t q, std::uint32_t skip,
                                       std::uint32_t (&words)[4]) const {
    PhiloxBlock<std::uint32_t> b{};
    if constexpr (kLayout == RandomLayout::triton) {
#pragma unroll
      for (std::uint32_t j = 0; j < 4; ++j)
        b.w[j] = philox_rounds_of(family_, static_cast<std::uint32_t>(counter(q)) + skip + j, keys_)
                     .w[0];
    } else if constexpr (kLayout == RandomLayout::contiguous) {
      b = philox_rounds_of(family_, static_cast<std::uint32_t>(counter(q)), keys_);
    } else {
      const Quotient at = params_.period_log < 0 ? divided(q, params_.fill.random.period)
                                                 : Quotient{q >> params_.period_log,
                                                            q & (params_.fill.random.period - 1)};
      const std::uint64_t turn = s_.block + at.quotient, lane = s_.subsequence + at.rest;
      b = philox_rounds<std::uint32_t>(
          {{static_cast<std::uint32_t>(turn), static_cast<std::uint32_t>(turn >> 32),
            static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(lane >> 32)}},
          keys_);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) words[j] = b.w[j];
  }

 private:
  __device__ std::uint64_t counter(std::uint64_t q) const {
    return s_.block + (kLayout == RandomLayout::triton ? 4 * q : q);
  }

  const FillParams& params_;
  const Sequence s_;
  const PhiloxKeys keys_;
  PhiloxFamily family_;
};

// words = words `skip` to `skip + 3` of a group and the next one.
__device__ __forceinline__ void shift_words(std::uint32_t skip, const std::uint32_t (&next)[4],
                                            std::uint32_t (&words)[4]) {
  std::uint32_t w[7];
#pragma unroll
  for (int j = 0; j < 7; ++j) w[j] = j < 4 ? words[j] : next[j - 4];
#pragma unroll
  for (int j = 0; j < 6; ++j) w[j] = skip & 1 ? w[j + 1] : w[j];
#pragma unroll
  for (int j = 0; j < 4; ++j) words[j] = skip & 2 ? w[j + 2] : w[j];
}

template <bool kUniform, RandomLayout kLayout>
__device__ void fill_flat_one(const FlatFill& fill, const Sequence& s, std::int64_t i) {
  static_cast<std::uint32_t*>(fill.out)[i] =
      converted<kUniform>(kLayout, word_of({kLayout, 1, fill.random.period}, s,
                                           fill.random.first + static_cast<std::uint64_t>(i)));
}

template <bool kUniform, RandomLayout kLayout, bool kSkip, bool kSeedTensor>
__global__ void __launch_bounds__(kFillThreads)
    fill_flat_kernel(const __grid_constant__ FillParams params) {
  const FlatFill& fill = params.fill;
  const Sequence s = fill.random.sequence();
  const std::int64_t tail = params.head + 4 * params.groups;
  if (blockIdx.x == 0) {  // up to three elements before the groups, and behind
    const std::int64_t i =
        threadIdx.x < params.head ? threadIdx.x : tail + threadIdx.x - params.head;
    if (i < fill.elements && threadIdx.x < 8) fill_flat_one<kUniform, kLayout>(fill, s, i);
  }
  const std::uint32_t lane = threadIdx.x % 32;
  const std::int64_t first =
      (std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x - lane) * kFillGroups;
  if (first >= params.groups) return;
  const std::uint64_t e = fill.random.first + static_cast<std::uint64_t>(params.head + 4 * first);
  const auto skip = static_cast<std::uint32_t>(e % 4);
  const FillDrawer<kLayout, kSeedTensor> drawer(params, s, e / 4);
  if (!drawer.one_high(e / 4, 32 * (kFillGroups + 1))) {
#pragma unroll 1
    for (std::int64_t i = params.head + 4 * first + lane;
         i < min(params.head + 4 * (first + 32 * kFillGroups), tail); i += 32)
      fill_flat_one<kUniform, kLayout>(fill, s, i);
    return;
  }
  auto* const out = reinterpret_cast<uint4*>(static_cast<std::uint32_t*>(fill.out) + params.head);
  std::uint32_t now[4], later[4];
  drawer.draw(e / 4 + lane, skip, now);
#pragma unroll
  for (int k = 0; k < kFillGroups; ++k) {
    if (kSkip || k + 1 < kFillGroups) drawer.draw(e / 4 + lane + 32 * (k + 1), skip, later);
    std::uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) words[j] = now[j];
    if constexpr (kSkip) {
      std::uint32_t next[4] = {};
#pragma unroll
      for (int j = 0; j < 3; ++j)
        next[j] = __shfl_sync(~0u, lane == 0 ? later[j] : now[j], (lane + 1) % 32);
      shift_words(skip, next, words);
    }
    const auto value = [&](int j) { return converted<kUniform>(kLayout, words[j]); };
    const std::int64_t group = first + lane + 32 * k;
    if (group < params.groups)
      __stcs(out + group, make_uint4(value(0), value(1), value(2), value(3)));
#pragma unroll
    for (int j = 0; j < 4; ++j) now[j] = later[j];
  }
}

// The offsets of an element's operands, and how many elements are left along the innermost axis,
// this one included.
struct FillCursor {
  std::int64_t offset[RandomFill::kOperands] = {}, left = 1;

  __device__ FillCursor(const RandomFill& fill, std::int64_t i) {
    const auto& layout = fill.layout;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      Quotient at{0, static_cast<std::uint64_t>(i)};
      if (axis != 0) at = divided(at.rest, static_cast<std::uint64_t>(layout.size[axis]));
      i = static_cast<std::int64_t>(at.quotient);
      const auto index = static_cast<std::int64_t>(at.rest);
      if (axis == layout.rank - 1) left = layout.size[axis] - index;
#pragma unroll
      for (int k = 0; k < RandomFill::kOperands; ++k) offset[k] += index * layout.stride[k][axis];
    }
  }
  __device__ Sequence sequence(const RandomFill& fill, Sequence s) const {
    if (fill.random.seeds != nullptr) s.seed = fill.random.seeds[offset[RandomFill::kRow]];
    return s;
  }
  __device__ std::uint64_t draw(const RandomFill& fill) const {
    return fill.random.first + static_cast<std::uint64_t>(offset[RandomFill::kDraw]);
  }
};

// Fills eight elements that begin at `at` and are contiguous.
template <bool kUniform>
__device__ __forceinline__ void fill_contiguous_octet(const RandomFill& fill,
                                                      const Sequence& sequence,
                                                      const FillCursor& at) {
  std::uint32_t words[8];
  draw_octet(fill.random, at.sequence(fill, sequence), at.draw(fill), words);
#pragma unroll
  for (int j = 0; j < 8; ++j) words[j] = converted<kUniform>(fill.random.layout, words[j]);
  auto* const out = static_cast<std::uint32_t*>(fill.out) + at.offset[RandomFill::kOut];
  if (is_aligned(out)) {
    reinterpret_cast<uint4*>(out)[0] = make_uint4(words[0], words[1], words[2], words[3]);
    reinterpret_cast<uint4*>(out)[1] = make_uint4(words[4], words[5], words[6], words[7]);
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) out[j] = words[j];
}

template <bool kUniform>
__global__ void __launch_bounds__(kFillThreads)
    fill_strided_kernel(const __grid_constant__ RandomFill fill, bool contiguous_runs) {
  const Sequence sequence = fill.random.sequence();
  const std::int64_t step = std::int64_t{gridDim.x} * kFillThreads * 8;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x) * 8;
       i < fill.elements; i += step) {
    const FillCursor at(fill, i);
    if (contiguous_runs && at.left >= 8 && i + 8 <= fill.elements) {
      fill_contiguous_octet<kUniform>(fill, sequence, at);
      continue;
    }
    WordReader reader(fill.random.order());
#pragma unroll 1
    for (std::int64_t j = i; j < min(i + 8, fill.elements); ++j) {
      const FillCursor one(fill, j);
      static_cast<std::uint32_t*>(fill.out)[one.offset[RandomFill::kOut]] = converted<kUniform>(
          fill.random.layout, reader.word(one.sequence(fill, sequence), one.draw(fill)));
    }
  }
}

inline constexpr const char* kFillWhat = "launch of philox_words or uniform";

// Whether the output is contiguous along the innermost axis, and draw indexes follow one another
// there, in a layout that is drawn by octets.
inline bool has_contiguous_runs(const RandomFill& fill) {
  const auto& layout = fill.layout;
  if (layout.rank == 0 || layout.size[layout.rank - 1] < 8) return false;
  const auto step = [&](int operand) { return layout.stride[operand][layout.rank - 1]; };
  return fill.random.layout != RandomLayout::torch && step(RandomFill::kOut) == 1 &&
         step(RandomFill::kDraw) == 1 &&
         (fill.random.seeds == nullptr || step(RandomFill::kRow) == 0);
}

template <bool kUniform, RandomLayout kLayout>
void launch_flat(const FillParams& params, cudaStream_t stream) {
  constexpr std::int64_t kOfBlock = std::int64_t{kFillThreads} * kFillGroups;
  const auto blocks =
      static_cast<unsigned>(std::max<std::int64_t>(1, (params.groups + kOfBlock - 1) / kOfBlock));
  const bool on_device = params.fill.random.seed_tensor != nullptr;
  const auto by = [&](auto kernel) {
    launch_grid(kFillWhat, kernel, blocks, kFillThreads, 0, stream, params);
  };
  const auto go = [&]<bool kSkip>() {
    if (on_device)
      by(fill_flat_kernel<kUniform, kLayout, kSkip, true>);
    else
      by(fill_flat_kernel<kUniform, kLayout, kSkip, false>);
  };
  const std::uint64_t e = params.fill.random.first + static_cast<std::uint64_t>(params.head);
  if constexpr (kLayout != RandomLayout::triton) {  // a block an element: nothing to shift
    if (e % 4 != 0) return go.template operator()<true>();
  }
  go.template operator()<false>();
}

template <bool kUniform>
void fill_on_cuda(const RandomFill& fill, Execution& execution) {
  execution.random_words = fill.random.words;
  if (fill.elements == 0) return;
  const CurrentDevice current(execution.device.index);
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  if (fill.flat && fill.random.layout != RandomLayout::torch) {
    const std::uintptr_t beyond = reinterpret_cast<std::uintptr_t>(fill.out) / 4 % 4;
    FillParams params{fill, philox_keys(fill.random.seed), 0, 0, -1};
    params.head =
        std::min<std::int64_t>(static_cast<std::int64_t>((4 - beyond) % 4), fill.elements);
    params.groups = (fill.elements - params.head) / 4;
    if (std::has_single_bit(fill.random.period))
      params.period_log = std::countr_zero(fill.random.period);
    if (fill.random.layout == RandomLayout::contiguous)
      launch_flat<kUniform, RandomLayout::contiguous>(params, stream);
    else if (fill.random.layout == RandomLayout::strided)
      launch_flat<kUniform, RandomLayout::strided>(params, stream);
    else
      launch_flat<kUniform, RandomLayout::triton>(params, stream);
  } else {
    const std::int64_t blocks = (fill.elements + 8 * kFillThreads - 1) / (8 * kFillThreads);
    launch_grid(kFillWhat, fill_strided_kernel<kUniform>,
                static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)), kFillThreads, 0,
                stream, fill, has_contiguous_runs(fill));
  }
  ++execution.launches;
}

}  // namespace twinops
