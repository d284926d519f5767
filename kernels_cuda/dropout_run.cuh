// Eight elements of dropout that lie in one run, where runs are too short for dropout_rows.cuh: any
// layout, seeds, shards, memory that is not aligned. Operands are found once for the eight, read 16
// bytes at a time where they are aligned, and a Philox block is drawn once for all that take words
// of it.
#pragma once

#include <cstring>

#include "kernels_cuda/dropout_draw.cuh"
#include "kernels_cuda/dropout_unit.cuh"

namespace twinops {

// Words e to e + 7 of the groups of four that hold them: two groups, or three.
template <class Group>
__device__ __forceinline__ void words_of_groups(std::uint64_t e, Group&& group,
                                                std::uint32_t (&words)[8]) {
  std::uint32_t w[12];
#pragma unroll
  for (int g = 0; g < 3; ++g) {
    if (g == 2 && e % 4 == 0) {
      w[8] = w[9] = w[10] = w[11] = 0;
      continue;
    }
    const PhiloxBlock<std::uint32_t> drawn = group(e / 4 + g);
#pragma unroll
    for (int k = 0; k < 4; ++k) w[4 * g + k] = drawn.w[k];
  }
#pragma unroll
  for (int j = 0; j < 11; ++j) w[j] = e & 1 ? w[j + 1] : w[j];
#pragma unroll
  for (int j = 0; j < 8; ++j) words[j] = e & 2 ? w[j + 2] : w[j];
}

// The words of elements e to e + 7: numerics/random.hpp, place_of().
__device__ __forceinline__ void draw_eight(const RandomArguments& random, const Sequence& s,
                                           std::uint64_t e, std::uint32_t (&words)[8]) {
  if (random.layout == RandomLayout::triton) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
      words[j] = philox_block(s.seed, s.subsequence, s.block + e + static_cast<unsigned>(j)).w[0];
    return;
  }
  const bool strided = random.layout == RandomLayout::strided;
  words_of_groups(
      e,
      [&](std::uint64_t q) {
        const Quotient turn = strided ? divided(q, random.period) : Quotient{q, 0};
        return philox_block(s.seed, s.subsequence + turn.rest, s.block + turn.quotient);
      },
      words);
}

template <class T>
__device__ __forceinline__ bool is_aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

template <class T>
__device__ __forceinline__ void load_eight(const T* from, compute_t<T> (&v)[8]) {
  constexpr int kWords = static_cast<int>(sizeof(T)) / 2;
  if (is_aligned(from)) {
    T elements[8];
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      const uint4 word = __ldg(reinterpret_cast<const uint4*>(from) + k);
      memcpy(elements + k * 8 / kWords, &word, sizeof(word));
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = widen(elements[j]);
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) v[j] = widen(from[j]);
}

template <class T>
__device__ __forceinline__ void store_eight(T* to, const compute_t<T> (&v)[8]) {
  constexpr int kWords = static_cast<int>(sizeof(T)) / 2;
  if (is_aligned(to)) {
    T elements[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) elements[j] = narrow<T>(v[j]);
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      uint4 word;
      memcpy(&word, elements + k * 8 / kWords, sizeof(word));
      reinterpret_cast<uint4*>(to)[k] = word;
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) to[j] = narrow<T>(v[j]);
}

// Which of the eight are kept.
__device__ __forceinline__ std::uint32_t kept_of_eight(const DropoutWork& work,
                                                       const Sequence& sequence, std::int64_t unit,
                                                       const WalkPlace& at) {
  using Source = DropoutWork::Source;
  std::uint32_t bits = work.source == Source::all ? 0xffu : 0u;
  if (work.source == Source::draw) {
    Sequence s = sequence;
    if (work.random.seeds != nullptr) s.seed = work.random.seeds[at.offset[DropoutWork::kRow]];
    std::uint32_t words[8];
    draw_eight(work.random, s,
               work.random.first + static_cast<std::uint64_t>(at.offset[DropoutWork::kDraw]),
               words);
#pragma unroll
    for (int j = 0; j < 8; ++j) bits |= static_cast<std::uint32_t>(work.keep.has(words[j])) << j;
  } else if (work.source == Source::bits) {
    bits = static_cast<const std::uint8_t*>(work.mask_in)[unit];
  } else if (work.source == Source::bytes) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
      bits |= static_cast<std::uint32_t>(
                  static_cast<const std::uint8_t*>(work.mask_in)[unit * 8 + j] != 0)
              << j;
  }
  return bits;
}

// Elements [8 unit, 8 unit + 8), if they lie in one run; returns whether they do.
template <class T>
__device__ __forceinline__ bool dropout_run(const DropoutWork& work, const Sequence& sequence,
                                            std::int64_t unit) {
  using Sink = DropoutWork::Sink;
  using F = compute_t<T>;
  if (unit * 8 + 8 > work.elements) return false;
  const WalkPlace at(work, unit * 8);
  if (at.left < 8) return false;
  F x[8], bias[8] = {}, residual[8] = {};
  load_eight(static_cast<const T*>(work.x) + at.offset[DropoutWork::kX], x);
  if (work.bias != nullptr)
    load_eight(static_cast<const T*>(work.bias) + at.offset[DropoutWork::kBias], bias);
  if (work.residual != nullptr)
    load_eight(static_cast<const T*>(work.residual) + at.offset[DropoutWork::kResidual], residual);
  const std::uint32_t bits = kept_of_eight(work, sequence, unit, at);
  const F scale = static_cast<F>(work.scale);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    x[j] = dropped_out<F>((bits >> j & 1u) != 0, x[j], scale,
                          {work.bias != nullptr, work.residual != nullptr, bias[j], residual[j]});
  store_eight(static_cast<T*>(work.y) + at.offset[DropoutWork::kY], x);
  if (work.sink == Sink::bits)
    static_cast<std::uint8_t*>(work.mask_out)[unit] = static_cast<std::uint8_t>(bits);
  if (work.sink == Sink::bytes) {
    auto* bytes = static_cast<std::uint8_t*>(work.mask_out) + unit * 8;
    const std::uint64_t ones = mask_bytes(bits);
    if (reinterpret_cast<std::uintptr_t>(bytes) % 8 == 0) {
      *reinterpret_cast<unsigned long long*>(bytes) = ones;
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) bytes[j] = static_cast<std::uint8_t>(ones >> (8 * j));
    }
  }
  return true;
}

}  // namespace twinops
