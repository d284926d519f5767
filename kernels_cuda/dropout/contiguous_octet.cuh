// An octet of dropout whose eight elements lie in one contiguous run, where runs are too short for
// rows_kernel.cuh: any layout, seeds, shards, unaligned memory.
//
// Memory: operands are located once for the octet and read 16 bytes at a time where they are
// aligned. A Philox block is drawn once for all elements that take words of it.
#pragma once

#include "kernels_cuda/dropout/strided_octet.cuh"
#include "kernels_cuda/random/octet.cuh"

namespace twinops {

// Which of the eight elements are kept: bit j for element j.
__device__ __forceinline__ std::uint32_t kept_of_octet(const DropoutWork& work,
                                                       const Sequence& sequence, std::int64_t octet,
                                                       const ElementCursor& at) {
  using Source = DropoutWork::Source;
  std::uint32_t bits = work.source == Source::all ? 0xffu : 0u;
  if (work.source == Source::draw) {
    Sequence s = sequence;
    if (work.random.seeds != nullptr) s.seed = work.random.seeds[at.offset[DropoutWork::kRow]];
    std::uint32_t words[8];
    draw_octet(work.random, s,
               work.random.first + static_cast<std::uint64_t>(at.offset[DropoutWork::kDraw]),
               words);
#pragma unroll
    for (int j = 0; j < 8; ++j) bits |= static_cast<std::uint32_t>(work.keep.has(words[j])) << j;
  } else if (work.source == Source::bits) {
    bits = static_cast<const std::uint8_t*>(work.mask_in)[octet];
  } else if (work.source == Source::bytes) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
      bits |= static_cast<std::uint32_t>(
                  static_cast<const std::uint8_t*>(work.mask_in)[octet * 8 + j] != 0)
              << j;
  }
  return bits;
}

// Takes elements [8 octet, 8 octet + 8) if they lie in one contiguous run. Returns whether they do.
template <class T>
__device__ __forceinline__ bool dropout_contiguous_octet(const DropoutWork& work,
                                                         const Sequence& sequence,
                                                         std::int64_t octet) {
  using Sink = DropoutWork::Sink;
  using F = compute_t<T>;
  if (octet * 8 + 8 > work.elements) return false;
  const ElementCursor at(work, octet * 8);
  if (at.left < 8) return false;
  F x[8], bias[8] = {}, residual[8] = {};
  load_octet(static_cast<const T*>(work.x) + at.offset[DropoutWork::kX], x);
  if (work.bias != nullptr)
    load_octet(static_cast<const T*>(work.bias) + at.offset[DropoutWork::kBias], bias);
  if (work.residual != nullptr)
    load_octet(static_cast<const T*>(work.residual) + at.offset[DropoutWork::kResidual], residual);
  const std::uint32_t bits = kept_of_octet(work, sequence, octet, at);
  const F scale = static_cast<F>(work.scale);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    x[j] = dropped_out<F>((bits >> j & 1u) != 0, x[j], scale,
                          {work.bias != nullptr, work.residual != nullptr, bias[j], residual[j]});
  store_octet(static_cast<T*>(work.y) + at.offset[DropoutWork::kY], x);
  if (work.sink == Sink::bits)
    static_cast<std::uint8_t*>(work.mask_out)[octet] = static_cast<std::uint8_t>(bits);
  if (work.sink == Sink::bytes) {
    auto* bytes = static_cast<std::uint8_t*>(work.mask_out) + octet * 8;
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
