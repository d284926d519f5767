// Dropout's mask for spans of rows, 64 bits a step: drawn, read, or the same for all elements.
// Included only by files that are compiled once for each instruction set.
#pragma once

#include "kernels_cpu/dropout/mask_reader.hpp"
#include "kernels_cpu/runtime/parallel.hpp"
#include "numerics/fold.hpp"

namespace twinops {

// Draws and stores the mask of a call that stores one.
template <class Isa>
TWINOPS_INLINE void draw_mask(const DropoutWork& work, const Sequence& sequence,
                              const Execution& execution) {
  constexpr std::int64_t kGrain = 1 << 13;  // elements that are worth a thread
  if (work.sink == DropoutWork::Sink::nothing) return;
  parallel_ranges(execution, work.elements, kGrain, 1024,
                  [&](std::int64_t begin, std::int64_t end) {
                    MaskReader<Isa> masks(work, sequence, begin);
                    for (std::int64_t i = begin; i < end; i += kStep) {
                      const int n = static_cast<int>(end - i < kStep ? end - i : kStep);
                      sink_mask<Isa>(work, i, n, masks.next(i, n));
                    }
                  });
}

// The call, set to read the mask that it stores, if it stores one: it is drawn once only.
TWINOPS_INLINE DropoutWork with_drawn_mask(DropoutWork work) {
  using Sink = DropoutWork::Sink;
  if (work.sink == Sink::nothing || work.source != DropoutWork::Source::draw) return work;
  work.source = work.sink == Sink::bits ? DropoutWork::Source::bits : DropoutWork::Source::bytes;
  work.mask_in = work.mask_out;
  return work;
}

template <class Isa>
class RowMasks {
 public:
  RowMasks(const DropoutWork& work, const Sequence& sequence)
      : work_(work),
        sequence_(sequence),
        by_vectors_(work.source == DropoutWork::Source::draw && work.random.consecutive &&
                    work.random.layout == RandomLayout::contiguous) {}

  // Sets bit j mod 64 of kept[j / 64] if element j is kept, for n elements from logical index `e`
  // on, `step` indexes apart. n: up to kFoldChunk.
  void read(std::int64_t e, std::int64_t step, int n,
            std::uint64_t (&kept)[kFoldChunk / kStep]) const {
    using Source = DropoutWork::Source;
    if (work_.source == Source::all || work_.source == Source::none) {
      for (int j = 0; j < n; j += kStep)
        kept[j / kStep] = work_.source == Source::all ? ~std::uint64_t{0} : 0;
    } else if (step != 1) {
      for (int j = 0; j < n; ++j) {
        if (j % kStep == 0) kept[j / kStep] = 0;
        kept[j / kStep] |= step_of(e + j * step, 1) << j % kStep;
      }
    } else if (by_vectors_) {
      draw(work_.random.first + static_cast<std::uint64_t>(e), n, kept);
    } else {
      for (int j = 0; j < n; j += kStep)
        kept[j / kStep] = step_of(e + j, n - j < kStep ? n - j : kStep);
    }
  }

 private:
  // Draws the mask of draw indexes [first, first + n).
  TWINOPS_INLINE void draw(std::uint64_t first, int n, std::uint64_t* kept) const {
    const int shift = static_cast<int>(first % 4);
    std::uint64_t block = sequence_.block + first / 4;
    WideSequence<Isa> wide(sequence_, block);
    std::uint64_t word = draw_mask_word<Isa>(wide, block, work_.keep);
    for (int j = 0; j < n; j += kStep) {
      std::uint64_t bits = word;
      if (shift != 0 || j + kStep < n) {
        block += kStep / 4;
        word = draw_mask_word<Isa>(wide, block, work_.keep);
      }
      // The row begins inside a block: 64 bits out of two words.
      if (shift != 0) bits = bits >> shift | word << (64 - shift);
      kept[j / kStep] = bits;
    }
  }
  // The mask of elements [e, e + n), n <= 64.
  TWINOPS_INLINE std::uint64_t step_of(std::int64_t e, int n) const {
    switch (work_.source) {
      case DropoutWork::Source::draw:
        return draw_step(work_, sequence_, e, n);
      case DropoutWork::Source::bytes:
        return load_mask(work_.mask_in, true, e, n);
      default: {
        const auto* words = static_cast<const std::uint32_t*>(work_.mask_in) + e / 32;
        const int shift = static_cast<int>(e % 32), last = (shift + n - 1) / 32;
        std::uint64_t bits = words[0];
        if (last > 0) bits |= std::uint64_t{words[1]} << 32;
        bits >>= shift;
        if (last > 1) bits |= std::uint64_t{words[2]} << (64 - shift);
        return n == kStep ? bits : bits & ((std::uint64_t{1} << n) - 1);
      }
    }
  }

  const DropoutWork& work_;
  const Sequence& sequence_;
  bool by_vectors_;
};

// Vector j of a chunk under its mask, rounded to T as dropout rounds it. `at`: a buffer for it.
template <class Isa, class T>
TWINOPS_INLINE compute_vec<T, Isa> dropped(const std::uint64_t* kept, int j, compute_vec<T, Isa> x,
                                           compute_vec<T, Isa> scale, T* at) {
  using F = compute_t<T>;
  const VecMask<F, Isa> mask{isa::lanes_of<F, TWINOPS_ARCH>(kept[j / kStep] >> j % kStep)};
  store<Isa>(at, dropped_out<compute_vec<T, Isa>>(mask, x, scale));
  return load<Isa>(at);
}

}  // namespace twinops
