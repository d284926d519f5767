// Dropout, bias_dropout_residual and their backward passes by vectors. Included only by files that
// are compiled once for each instruction set.
//
// Memory: x (bias, residual) is read once, y is written once, the mask is read or written once.
// Nothing is added up. Elements go in steps of 64, so that the mask of a step is one 64-bit word on
// every instruction set: drawn from sixteen Philox blocks, loaded, or the same for all.
#pragma once

#include "kernels_cpu/dropout/mask_reader.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/runtime/parallel.hpp"

namespace twinops {

// Where the 64 elements of a step lie; nullptr for operands that the call does not have.
template <class T>
struct StepPlace {
  const T *x, *bias, *residual;
  T* y;
};

// How a range is written. Outputs too large for the caches are streamed past them, which saves
// reading their lines first.
struct Writing {
  bool streamed;
};
inline constexpr std::int64_t kStreamedBytes = std::int64_t{1} << 26;  // of y, at least
// How far ahead x is prefetched, in bytes, every line of it: docs/lab/dropout-cpu.md#prefetches.
inline constexpr int kAhead = 4096;

template <class Isa, class T>
TWINOPS_INLINE void store_four(T* out, compute_vec<T, Isa> (&y)[4], Writing writing) {
  using V = compute_vec<T, Isa>;
  if (isa::holds_nan(y[0].v, y[1].v, y[2].v, y[3].v)) [[unlikely]]
    for (V& v : y) v = canonical(v);
  for (int k = 0; k < 4; ++k) {
    if constexpr (std::is_same_v<T, compute_t<T>>) {
      if (writing.streamed) {
        isa::stream(out + k * V::kLanes, y[k].v);
        continue;
      }
    }
    store_canonical<Isa>(out + k * V::kLanes, y[k]);
  }
}

// Prefetches the lines of a later step.
template <class Isa, class T>
TWINOPS_INLINE void prefetch_step(const T* x) {
  const std::uintptr_t line = reinterpret_cast<std::uintptr_t>(x) + kAhead;
#pragma GCC unroll 8
  for (std::uintptr_t k = 0; k < sizeof(T); ++k)
    __builtin_prefetch(reinterpret_cast<const void*>(line + 64 * k));
}

// Takes a step. kept(j): the mask of the vector of elements j, j + 1, ...
template <class Isa, class T, class Kept>
TWINOPS_INLINE void dropout_step(const StepPlace<T>& at, Kept&& kept, compute_vec<T, Isa> scale,
                                 Writing writing) {
  using V = compute_vec<T, Isa>;
#pragma GCC unroll 8
  for (int first = 0; first < kStep; first += 4 * V::kLanes) {
    V y[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const int j = first + k * V::kLanes;
      const V x = load<Isa>(at.x + j);
      V bias(compute_t<T>(0)), residual(compute_t<T>(0));
      if (at.bias != nullptr) bias = load<Isa>(at.bias + j);
      if (at.residual != nullptr) residual = load<Isa>(at.residual + j);
      y[k] = dropped_out<V>(kept(j), x, scale,
                            {at.bias != nullptr, at.residual != nullptr, bias, residual});
    }
    store_four<Isa, T>(at.y + first, y, writing);
  }
}

// The same, masked by bits.
template <class Isa, class T>
TWINOPS_INLINE void dropout_step(const StepPlace<T>& at, std::uint64_t bits,
                                 compute_vec<T, Isa> scale, Writing writing) {
  using F = compute_t<T>;
  dropout_step<Isa, T>(
      at, [bits](int j) { return VecMask<F, Isa>{isa::lanes_of<F, TWINOPS_ARCH>(bits >> j)}; },
      scale, writing);
}

// The same, masked by drawn words, which have as many lanes as elements are computed in. Returns
// the mask's bits; they go unused where no mask is stored.
template <class Isa, class T>
TWINOPS_INLINE std::uint64_t dropout_step(const StepPlace<T>& at,
                                          const Vec<std::uint32_t, Isa>* words, KeepRange keep,
                                          compute_vec<T, Isa> scale, Writing writing) {
  constexpr int kLanes = compute_vec<T, Isa>::kLanes;
  std::uint64_t bits = 0;
  dropout_step<Isa, T>(
      at,
      [&](int j) {
        const auto kept = kept_lanes<Isa>(words[j / kLanes], keep);
        bits |= std::uint64_t{isa::mask_word(kept.m)} << j;
        return VecMask<float, Isa>{
            twinops::bit_cast<xsimd::batch_bool<float, TWINOPS_ARCH>>(kept.m)};
      },
      scale, writing);
  return bits;
}

// bias[(i + j) mod period] for j in [0, 64): in place, or copied to `buffer`.
template <class T>
TWINOPS_INLINE const T* bias_step(const DropoutWork& work, std::int64_t column, T* buffer) {
  const T* bias = static_cast<const T*>(work.bias);
  if (column + kStep <= work.bias_period) return bias + column;
  for (int j = 0; j < kStep; ++j) {
    buffer[j] = bias[column];
    if (++column == work.bias_period) column = 0;
  }
  return buffer;
}

// Takes the steps of a contiguous range two at a time, without bias and residual, the mask drawn by
// vectors: the usual call of dropout. Returns where it ended.
template <class Isa, class T, bool kStores>
TWINOPS_INLINE std::int64_t drawn_steps(const DropoutWork& work, MaskReader<Isa>& masks,
                                        std::int64_t i, std::int64_t end, Writing writing) {
  const compute_vec<T, Isa> scale(static_cast<compute_t<T>>(work.scale));
  const KeepRange keep = work.keep;
  const T* x = static_cast<const T*>(work.x);
  T* y = static_cast<T*>(work.y);
  for (; i + 2 * kStep <= end; i += 2 * kStep) {
    const auto words = masks.template next_words<2 * kStep>();
#pragma GCC unroll 2
    for (int step = 0; step < 2; ++step) {
      const std::int64_t j = i + step * kStep;
      prefetch_step<Isa>(x + j);
      const std::uint64_t bits =
          dropout_step<Isa, T>({x + j, nullptr, nullptr, y + j},
                               words.v + step * (words.kVectors / 2), keep, scale, writing);
      if constexpr (kStores) sink_mask<Isa>(work, j, kStep, bits);
    }
  }
  return i;
}

template <class T>
TWINOPS_INLINE Writing writing_of(const DropoutWork& work) {
  constexpr std::int64_t kLeast = kStreamedBytes / static_cast<std::int64_t>(sizeof(T));
  return {work.flat && work.x != work.y && work.residual != work.y && work.elements >= kLeast &&
          reinterpret_cast<std::uintptr_t>(work.y) % 64 == 0};
}

// Takes elements [begin, end); begin is a multiple of 64.
template <class Isa, class T>
TWINOPS_INLINE void dropout_range(const DropoutWork& work, const Sequence& sequence,
                                  std::int64_t begin, std::int64_t end) {
  const compute_vec<T, Isa> scale(static_cast<compute_t<T>>(work.scale));
  const auto *x = static_cast<const T*>(work.x), *residual = static_cast<const T*>(work.residual);
  T* y = static_cast<T*>(work.y);
  const Writing writing = writing_of<T>(work);
  MaskReader<Isa> masks(work, sequence, begin);
  alignas(64) T bias_buffer[kStep];
  std::int64_t i = begin, column = begin % work.bias_period;
  if (work.flat && work.bias == nullptr && residual == nullptr) {
    if constexpr (sizeof(compute_t<T>) == 4)
      if (masks.has_words())
        i = work.sink == DropoutWork::Sink::nothing
                ? drawn_steps<Isa, T, false>(work, masks, i, end, writing)
                : drawn_steps<Isa, T, true>(work, masks, i, end, writing);
    for (; i + kStep <= end; i += kStep) {
      prefetch_step<Isa>(x + i);
      const std::uint64_t bits = masks.next(i, kStep);
      dropout_step<Isa, T>({x + i, nullptr, nullptr, y + i}, bits, scale, writing);
      sink_mask<Isa>(work, i, kStep, bits);
    }
  } else if (work.flat) {
    for (; i + kStep <= end; i += kStep) {
      prefetch_step<Isa>(x + i);
      const std::uint64_t bits = masks.next(i, kStep);
      const T* bias = work.bias == nullptr ? nullptr : bias_step(work, column, bias_buffer);
      dropout_step<Isa, T>({x + i, bias, residual == nullptr ? nullptr : residual + i, y + i}, bits,
                           scale, writing);
      sink_mask<Isa>(work, i, kStep, bits);
      column = (column + kStep) % work.bias_period;
    }
  }
  for (; i < end; i += kStep) {
    alignas(64) T x_buffer[kStep] = {}, b_buffer[kStep] = {}, r_buffer[kStep] = {};
    const int n = static_cast<int>(end - i < kStep ? end - i : kStep);
    gather_step(work, i, n, {x_buffer, b_buffer, r_buffer});
    const std::uint64_t bits = masks.next(i, n);
    dropout_step<Isa, T>({x_buffer, work.bias == nullptr ? nullptr : b_buffer,
                          residual == nullptr ? nullptr : r_buffer, x_buffer},
                         bits, scale, Writing{false});
    scatter_step(work, i, n, x_buffer);
    sink_mask<Isa>(work, i, n, bits);
  }
  if (writing.streamed) isa::end_of_streams();
}

template <class Isa>
TWINOPS_INLINE void dropout_on_cpu(const DropoutWork& work, Execution& execution) {
  constexpr std::int64_t kGrain = 1 << 13;  // elements that are worth a thread
  execution.random_words = work.random_words;
  const Sequence sequence = work.random.sequence();
  with_floating_type(work.type, [&]<class T>(TypeTag<T>) {
    parallel_ranges(execution, work.elements, kGrain, 1024,
                    [&](std::int64_t begin, std::int64_t end) {
                      dropout_range<Isa, T>(work, sequence, begin, end);
                    });
  });
}

}  // namespace twinops
