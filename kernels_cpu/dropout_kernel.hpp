// The body of dropout, bias_dropout_residual and their backward passes over vectors.
//
// Memory: x (bias, residual) is read once, y written once, the mask read or written once. Elements
// go 64 at a time, so that a step's mask is one 64-bit word on every instruction set, drawn from
// sixteen Philox blocks, loaded, or the same for all.
#pragma once

#include "kernels_cpu/dropout_walk.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/parallel.hpp"
#include "kernels_cpu/philox.hpp"

namespace twinops {

// The masks of consecutive steps.
template <class Isa>
class MaskSource {
 public:
  using Source = DropoutWork::Source;

  TWINOPS_INLINE MaskSource(const DropoutWork& work, const Sequence& sequence, std::int64_t begin)
      : work_(work),
        sequence_(sequence),
        wide_(sequence),
        by_vectors_(work.source == Source::draw && work.random.consecutive &&
                    work.random.layout == RandomLayout::contiguous),
        shift_(static_cast<int>(work.random.first % 4)),
        block_(sequence.block + (work.random.first + static_cast<std::uint64_t>(begin)) / 4) {
    if (by_vectors_ && shift_ != 0) ahead_ = draw();
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
    const std::uint64_t bits = draw_64_bits<Isa>(wide_, block_, work_.keep);
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
  WideSequence<Isa> wide_;
  bool by_vectors_;
  int shift_;
  std::uint64_t block_, ahead_ = 0;
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

template <class Isa, class T>
TWINOPS_INLINE void dropout_step(const StepPlace<T>& at, std::uint64_t bits,
                                 compute_vec<T, Isa> scale) {
  using V = compute_vec<T, Isa>;
#pragma GCC unroll 32
  for (int j = 0; j < kStep; j += V::kLanes) {
    const VecMask<compute_t<T>, Isa> kept{isa::lanes_of<compute_t<T>, TWINOPS_ARCH>(bits >> j)};
    const V x = load<Isa>(at.x + j);
    V bias(compute_t<T>(0)), residual(compute_t<T>(0));
    if (at.bias != nullptr) bias = load<Isa>(at.bias + j);
    if (at.residual != nullptr) residual = load<Isa>(at.residual + j);
    store<Isa>(at.y + j,
               dropped_out<V>(kept, x, scale,
                              {at.bias != nullptr, at.residual != nullptr, bias, residual}));
  }
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

// Elements [begin, end); begin is a multiple of 64.
template <class Isa, class T>
TWINOPS_INLINE void dropout_range(const DropoutWork& work, const Sequence& sequence,
                                  std::int64_t begin, std::int64_t end) {
  const compute_vec<T, Isa> scale(static_cast<compute_t<T>>(work.scale));
  const auto *x = static_cast<const T*>(work.x), *residual = static_cast<const T*>(work.residual);
  T* y = static_cast<T*>(work.y);
  MaskSource<Isa> source(work, sequence, begin);
  alignas(64) T bias_buffer[kStep];
  std::int64_t i = begin, column = begin % work.bias_period;
  if (work.flat && work.bias == nullptr && residual == nullptr) {
    for (; i + kStep <= end; i += kStep) {
      const std::uint64_t bits = source.next(i, kStep);
      dropout_step<Isa, T>({x + i, nullptr, nullptr, y + i}, bits, scale);
      sink_mask<Isa>(work, i, kStep, bits);
    }
  } else if (work.flat) {
    for (; i + kStep <= end; i += kStep) {
      const std::uint64_t bits = source.next(i, kStep);
      const T* bias = work.bias == nullptr ? nullptr : bias_step(work, column, bias_buffer);
      dropout_step<Isa, T>({x + i, bias, residual == nullptr ? nullptr : residual + i, y + i}, bits,
                           scale);
      sink_mask<Isa>(work, i, kStep, bits);
      column = (column + kStep) % work.bias_period;
    }
  }
  for (; i < end; i += kStep) {
    alignas(64) T x_buffer[kStep] = {}, b_buffer[kStep] = {}, r_buffer[kStep] = {};
    const int n = static_cast<int>(end - i < kStep ? end - i : kStep);
    gather_step(work, i, n, {x_buffer, b_buffer, r_buffer});
    const std::uint64_t bits = source.next(i, n);
    dropout_step<Isa, T>({x_buffer, work.bias == nullptr ? nullptr : b_buffer,
                          residual == nullptr ? nullptr : r_buffer, x_buffer},
                         bits, scale);
    scatter_step(work, i, n, x_buffer);
    sink_mask<Isa>(work, i, n, bits);
  }
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
