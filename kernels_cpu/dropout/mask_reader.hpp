// Dropout's mask, 64 elements a step: drawn, loaded, or the same for all; and stored. Included only
// by files that are compiled once for each instruction set.
#pragma once

#include "kernels_cpu/random/philox.hpp"
#include "kernels_cpu/random/strided_elements.hpp"

namespace twinops {

// The words that keep their elements. Only layouts whose range of kept words starts at 0 are drawn
// by vectors.
template <class Isa>
TWINOPS_INLINE VecMask<std::uint32_t, Isa> kept_lanes(Vec<std::uint32_t, Isa> words,
                                                      KeepRange keep) {
  return words < Vec<std::uint32_t, Isa>(keep.count);
}

// The mask of the 64 elements that the blocks from `block` on are for.
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

// Reads or draws the masks of consecutive steps.
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

  // Whether next_words() may take the place of next(): the words of a step are drawn as vectors.
  TWINOPS_INLINE bool has_words() const { return by_vectors_ && shift_ == 0; }
  template <int kWords>
  TWINOPS_INLINE DrawnWords<Isa, kWords> next_words() {
    const auto words = twinops::draw<Isa, kWords>(wide_, block_);
    block_ += kWords / 4;
    return words;
  }

  // The mask of elements [i, i + n), the step that follows the last one.
  TWINOPS_INLINE std::uint64_t next(std::int64_t i, int n) {
    if (by_vectors_) {
      if (shift_ == 0) return draw();
      // The tensor begins inside a block: 64 bits out of two words.
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

}  // namespace twinops
