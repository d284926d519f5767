// An octet of dropout, eight elements and their byte of the mask, one element after the other: for
// what the other kernels do not take.
#pragma once

#include "kernels_cuda/common/launch.cuh"
#include "operators/dropout_work.hpp"

namespace twinops {

// The offsets of an element's operands, and how many elements are left along the innermost axis,
// this one included.
struct ElementCursor {
  static constexpr int kOperands = DropoutWork::kOperands;
  std::int64_t offset[kOperands] = {}, left = 0;

  __device__ ElementCursor() {}
  __device__ ElementCursor(const DropoutWork& work, std::int64_t i) {
    const Layout<kOperands>& layout = work.layout;
    left = 1;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      const std::int64_t size = layout.size[axis];
      std::int64_t index = i;
      if (axis != 0 && (i | size) >> 32 == 0) {  // 64-bit divisions take many instructions
        const auto low = static_cast<std::uint32_t>(i), by = static_cast<std::uint32_t>(size);
        i = low / by;
        index = low - low / by * by;
      } else if (axis != 0) {
        i /= size;
        index -= i * size;
      }
      if (axis == layout.rank - 1) left = size - index;
#pragma unroll
      for (int k = 0; k < kOperands; ++k) offset[k] += index * layout.stride[k][axis];
    }
  }
  // Steps to the next element along the innermost axis.
  __device__ void advance(const DropoutWork& work) {
    --left;
#pragma unroll
    for (int k = 0; k < kOperands; ++k) offset[k] += work.layout.stride[k][work.layout.rank - 1];
  }
};

// Takes element i, whose operands lie at `at`. Writes its byte of a byte mask, but not its bit of a
// bit mask. Returns whether it is kept.
template <class T>
__device__ __forceinline__ bool dropout_element(const DropoutWork& work, const Sequence& sequence,
                                                std::int64_t i, const ElementCursor& at,
                                                WordReader& reader) {
  using Source = DropoutWork::Source;
  using F = compute_t<T>;
  const auto& offset = at.offset;
  bool kept = work.source == Source::all;
  if (work.source == Source::draw) {
    Sequence s = sequence;
    if (work.random.seeds != nullptr) s.seed = work.random.seeds[offset[DropoutWork::kRow]];
    const std::uint64_t e =
        work.random.first + static_cast<std::uint64_t>(offset[DropoutWork::kDraw]);
    kept = work.keep.has(reader.word(s, e));
  } else if (work.source == Source::bits) {
    kept = static_cast<const std::uint8_t*>(work.mask_in)[i / 8] >> (i % 8) & 1;
  } else if (work.source == Source::bytes) {
    kept = static_cast<const std::uint8_t*>(work.mask_in)[i] != 0;
  }
  const auto read = [&](const void* from, int operand) {
    return from == nullptr ? F(0) : widen(static_cast<const T*>(from)[offset[operand]]);
  };
  const F x = read(work.x, DropoutWork::kX), bias = read(work.bias, DropoutWork::kBias),
          residual = read(work.residual, DropoutWork::kResidual);
  static_cast<T*>(work.y)[offset[DropoutWork::kY]] =
      narrow<T>(dropped_out<F>(kept, x, static_cast<F>(work.scale),
                               {work.bias != nullptr, work.residual != nullptr, bias, residual}));
  if (work.sink == DropoutWork::Sink::bytes) static_cast<std::uint8_t*>(work.mask_out)[i] = kept;
  return kept;
}

// Takes elements [8 octet, 8 octet + 8) and their byte of the mask, wherever they lie.
template <class T>
__device__ void dropout_strided_octet(const DropoutWork& work, const Sequence& sequence,
                                      std::int64_t octet) {
  WordReader reader(work.random.order());
  std::uint32_t bits = 0;
  ElementCursor at;
#pragma unroll 1
  for (int j = 0; j < 8; ++j) {
    const std::int64_t i = octet * 8 + j;
    if (i >= work.elements) break;
    if (at.left > 1)
      at.advance(work);
    else
      at = ElementCursor(work, i);
    const bool kept = dropout_element<T>(work, sequence, i, at, reader);
    bits |= static_cast<std::uint32_t>(kept) << j;
  }
  if (work.sink == DropoutWork::Sink::bits)
    static_cast<std::uint8_t*>(work.mask_out)[octet] = static_cast<std::uint8_t>(bits);
}

// The same by eight lanes, an element each; nothing where `octet` is below 0. Every thread of the
// warp calls it. kLayout: of what is drawn.
template <class T, RandomLayout kLayout>
__device__ __forceinline__ void dropout_octet_of_lanes(const DropoutWork& work,
                                                       const Sequence& sequence,
                                                       std::int64_t octet) {
  const unsigned lane = threadIdx.x % 32;
  const std::int64_t i = octet * 8 + lane % 8;
  bool kept = false;
  if (octet >= 0 && i < work.elements) {
    WordReader reader({kLayout, 1, work.random.period});
    kept = dropout_element<T>(work, sequence, i, ElementCursor(work, i), reader);
  }
  const std::uint32_t bits = __ballot_sync(~0u, kept) >> (lane / 8 * 8);
  if (work.sink == DropoutWork::Sink::bits && octet >= 0 && lane % 8 == 0)
    static_cast<std::uint8_t*>(work.mask_out)[octet] = static_cast<std::uint8_t>(bits);
}

// The same for contiguous tensors whose draws follow one another. A loop of few registers, because
// contiguous_kernel.cuh, which ends with it, needs them for its vectors.
template <class T, RandomLayout kLayout>
__device__ void dropout_flat_octet(const FlatDropout& work, const Sequence& sequence,
                                   std::int64_t octet) {
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  using F = compute_t<T>;
  std::uint32_t bits = 0;
#pragma unroll 1
  for (std::int64_t i = octet * 8; i < min(octet * 8 + 8, work.elements); ++i) {
    bool kept = work.source == Source::all;
    if (work.source == Source::draw)
      kept = work.keep.has(word_of({kLayout, 1, work.random.period}, sequence,
                                   work.random.first + static_cast<std::uint64_t>(i)));
    else if (work.source == Source::bits)
      kept = static_cast<const std::uint8_t*>(work.mask_in)[octet] >> (i % 8) & 1;
    else if (work.source == Source::bytes)
      kept = static_cast<const std::uint8_t*>(work.mask_in)[i] != 0;
    bits |= static_cast<std::uint32_t>(kept) << (i % 8);
    const auto read = [&](const void* from, std::int64_t at) {
      return from == nullptr ? F(0) : widen(static_cast<const T*>(from)[at]);
    };
    const F x = read(work.x, i), bias = read(work.bias, i % work.bias_period),
            residual = read(work.residual, i);
    static_cast<T*>(work.y)[i] =
        narrow<T>(dropped_out<F>(kept, x, static_cast<F>(work.scale),
                                 {work.bias != nullptr, work.residual != nullptr, bias, residual}));
    if (work.sink == Sink::bytes) static_cast<std::uint8_t*>(work.mask_out)[i] = kept;
  }
  if (work.sink == Sink::bits)
    static_cast<std::uint8_t*>(work.mask_out)[octet] = static_cast<std::uint8_t>(bits);
}

}  // namespace twinops
