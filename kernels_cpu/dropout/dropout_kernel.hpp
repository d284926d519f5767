// The body of dropout, bias_dropout_residual and their backward passes over vectors.
//
// Memory: x (bias, residual) is read once, y written once, the mask read or written once. Elements
// go 64 at a time, so that a step's mask is one 64-bit word on every instruction set, drawn from
// sixteen Philox blocks, loaded, or the same for all.
#pragma once

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/random/philox.hpp"
#include "kernels_cpu/random/strided_elements.hpp"
#include "kernels_cpu/runtime/parallel.hpp"

namespace twinops {

// Which words keep their elements. The layout that is drawn by vectors counts from 0.
template <class Isa>
TWINOPS_INLINE VecMask<std::uint32_t, Isa> kept_lanes(Vec<std::uint32_t, Isa> words,
                                                      KeepRange keep) {
  return words < Vec<std::uint32_t, Isa>(keep.count);
}

// The mask of the 64 elements that blocks from `block` on draw.
template <class Isa>
TWINOPS_INLINE std::uint64_t draw_mask_word(WideSequence<Isa>& sequence, std::uint64_t block,
                                            KeepRange keep) {
  const auto words = draw<Isa, kStep>(sequence, block);
  std::uint64_t bits = 0;
  for (int k = 0; k < words.kVectors; ++k)
    bits |= std::uint64_t{isa::mask_word(kept_lanes<Isa>(words.v[k], keep).m)}
            << (k * Vec<std::uint32_t, Isa>::kLanes);
  return bits;
}

// The masks of consecutive steps.
template <class Isa>
class MaskReader {
 public:
  using Source = DropoutWork::Source;

  TWINOPS_INLINE MaskReader(const DropoutWork& work, const Sequence& sequence, std::int64_t begin)
      : work_(work),
        sequence_(sequence),
        by_vectors_(work.source == Source::draw && work.random.consecutive &&
                    work.random.layout == RandomLayout::contiguous),
        shift_(static_cast<int>(work.random.first % 4)),
        block_(sequence.block + (work.random.first + static_cast<std::uint64_t>(begin)) / 4),
        wide_(sequence, block_) {
    if (by_vectors_ && shift_ != 0) ahead_ = draw();
  }

  // Whether the words of a step are at hand as vectors: next_words() then goes for next().
  TWINOPS_INLINE bool has_words() const { return by_vectors_ && shift_ == 0; }
  template <int kWords>
  TWINOPS_INLINE DrawnWords<Isa, kWords> next_words() {
    const auto words = twinops::draw<Isa, kWords>(wide_, block_);
    block_ += kWords / 4;
    return words;
  }

  // The mask of elements [i, i + n): the step after the one before, or the first.
  TWINOPS_INLINE std::uint64_t next(std::int64_t i, int n) {
    if (by_vectors_) {
      if (shift_ == 0) return draw();
      // The tensor begins in the middle of a block: 64 bits out of two words.
      const std::uint64_t word = ahead_;
      ahead_ = draw();
      return word >> shift_ | ahead_ << (64 - shift_);
    }
    switch (work_.source) {
      case Source::all:
        return ~std::uint64_t{0};
      case Source::none:
        return 0;
      case Source::draw:
        return draw_step(work_, sequence_, i, n);
      case Source::bytes:
        return n == kStep ? load_64_bytes(i) : load_mask(work_.mask_in, true, i, n);
      default:
        return load_mask(work_.mask_in, false, i, n);
    }
  }

 private:
  TWINOPS_INLINE std::uint64_t draw() {
    const std::uint64_t bits = draw_mask_word<Isa>(wide_, block_, work_.keep);
    block_ += kStep / 4;
    return bits;
  }
  TWINOPS_INLINE std::uint64_t load_64_bytes(std::int64_t i) const {
    std::uint64_t bits = 0;
    for (int j = 0; j < kStep; j += 8) {
      std::uint64_t bytes;
      __builtin_memcpy(&bytes, static_cast<const std::uint8_t*>(work_.mask_in) + i + j, 8);
      bits |= std::uint64_t{mask_bits(bytes)} << j;
    }
    return bits;
  }

  const DropoutWork& work_;
  const Sequence& sequence_;
  bool by_vectors_;
  int shift_;
  std::uint64_t block_, ahead_ = 0;
  WideSequence<Isa> wide_;
};

template <class Isa>
TWINOPS_INLINE void sink_mask(const DropoutWork& work, std::int64_t i, int n, std::uint64_t bits) {
  if (work.sink == DropoutWork::Sink::nothing) return;
  const bool bytes = work.sink == DropoutWork::Sink::bytes;
  if (n < kStep) return store_mask(work.mask_out, bytes, i, n, bits);
  if (!bytes) {
    __builtin_memcpy(static_cast<std::uint32_t*>(work.mask_out) + i / 32, &bits, 8);
    return;
  }
  for (int j = 0; j < kStep; j += 8) {
    const std::uint64_t eight = mask_bytes(bits >> j & 0xff);
    __builtin_memcpy(static_cast<std::uint8_t*>(work.mask_out) + i + j, &eight, 8);
  }
}

// Where a step's 64 elements lie; nullptr for what the call has not.
template <class T>
struct StepPlace {
  const T *x, *bias, *residual;
  T* y;
};

// How a range is written. Outputs that no cache holds go past them: a line of y is then not read
// before it is written.
struct Writing {
  bool streamed;
};
inline constexpr std::int64_t kStreamedBytes = std::int64_t{1} << 26;  // of a call's y, at least
// Bytes that x is prefetched ahead, every line of it: the draws leave no time. (A page's first
// lines alone, as in check_finite_and_unscale: on Zen 4 dropout_grad 0.82 to 0.72 of a scale loop.)
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

// Fetches a step's lines of an operand that is read further on.
template <class Isa, class T>
TWINOPS_INLINE void prefetch_step(const T* x) {
  const std::uintptr_t line = reinterpret_cast<std::uintptr_t>(x) + kAhead;
#pragma GCC unroll 8
  for (std::uintptr_t k = 0; k < sizeof(T); ++k)
    __builtin_prefetch(reinterpret_cast<const void*>(line + 64 * k));
}

// kept(j): the mask of the vector of elements j, j + 1, ...
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

// The same, masked by the words drawn, in as many lanes as elements are computed in. Returns the
// mask's bits, which go unused where no mask is stored.
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

// bias[(i + j) mod period] for j in [0, 64): in place, or copied.
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

// Steps of a range in one run, two at a time, x alone, the mask drawn by vectors of words: what
// dropout mostly is. Returns where it ended.
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

// Elements [begin, end); begin is a multiple of 64.
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
