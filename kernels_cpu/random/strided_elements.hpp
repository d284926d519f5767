// Elements that are not contiguous, or whose words are not: gathered, drawn and scattered one by
// one, up to 64 at a time. Compiled once, for the baseline, and shared by every instruction set.
#pragma once

#include "operators/dropout_work.hpp"
#include "operators/random_fill.hpp"

namespace twinops {

inline constexpr int kStep = 64;  // elements that share a word of mask bits

// Copies elements [i, i + n) to buffers; bias and residual only where the call has them.
struct StepBuffers {
  void *x, *bias, *residual;
};
void gather_step(const DropoutWork& work, std::int64_t i, int n, const StepBuffers& to);
void scatter_step(const DropoutWork& work, std::int64_t i, int n, const void* y);

// Draws the mask of elements [i, i + n), n <= 64. Bit j is that of element i + j.
std::uint64_t draw_step(const DropoutWork& work, const Sequence& sequence, std::int64_t i, int n);

// Loads or stores the mask of elements [i, i + n); i is a multiple of 64. Bits beyond n are 0.
std::uint64_t load_mask(const void* mask, bool bytes, std::int64_t i, int n);
void store_mask(void* mask, bool bytes, std::int64_t i, int n, std::uint64_t bits);

// Draws the words of elements [i, i + n).
void fill_words(const RandomFill& fill, const Sequence& sequence, std::int64_t i, int n,
                std::uint32_t* words);
// Writes 32-bit values to elements [i, i + n) of fill.out.
void scatter_fill(const RandomFill& fill, std::int64_t i, int n, const void* values);

}  // namespace twinops
