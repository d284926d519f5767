// A tile: a warp's part of a row, taken vector by vector. Its operands, its draws and its part of
// the mask.
#pragma once

#include "kernels_cuda/dropout/unaligned_io.cuh"
#include "kernels_cuda/random/draw.cuh"
#include "operators/dropout_work.hpp"

namespace twinops {

inline constexpr int kDropoutInFlight = 2;  // vectors that a thread has in flight

// Where a tile lies.
struct DropoutTile {
  std::int64_t begin;                           // logical index, a multiple of eight
  std::uint32_t elements;                       // a multiple of eight
  std::int64_t offset[DropoutWork::kOperands];  // of the first element
};

// Where a tile's draws begin. `skip`: words before it in its first group of four.
template <MaskSource kSource>
struct TileDraws {
  DrawOrigin draws;
  std::uint32_t skip;

  __device__ TileDraws(const RandomArguments& random, const Sequence& s, std::uint64_t seed,
                       std::uint64_t element)
      : draws{philox_keys(uniform_word(seed)), uniform_word(s.subsequence), uniform_word(s.block),
              0, random.period} {
    const std::uint64_t e = uniform_word(element);
    draws.first = kSource == MaskSource::triton ? e : e / 4;
    skip = kSource == MaskSource::triton ? 0 : static_cast<std::uint32_t>(e % 4);
  }

  // Which elements of vectors vector, vector + 32, ... are kept. Where draws begin inside a group
  // of four, it shifts these bits between lanes, not the words, and draws one group more. All lanes
  // call it.
  template <int kElements>
  __device__ __forceinline__ void keep(const KeepRange& range, std::uint32_t vector,
                                       std::uint32_t (&bits)[kDropoutInFlight]) const {
#pragma unroll
    for (int k = 0; k < kDropoutInFlight; ++k) bits[k] = drawn<kElements>(range, vector + 32 * k);
    if (skip == 0) return;
    std::uint32_t later = drawn<4>(range, (vector + 32 * kDropoutInFlight) * (kElements / 4));
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = kDropoutInFlight - 1; k >= 0; --k) {
      const std::uint32_t next = __shfl_sync(~0u, lane == 0 ? later : bits[k], (lane + 1) % 32);
      later = bits[k];
      bits[k] = (bits[k] | next << kElements) >> skip & ((1u << kElements) - 1);
    }
  }

 private:
  template <int kElements>
  __device__ __forceinline__ std::uint32_t drawn(const KeepRange& range,
                                                 std::uint32_t vector) const {
    std::uint32_t words[kElements], bits = 0;
    draw_vector<kSource>(draws, vector, words);
#pragma unroll
    for (int j = 0; j < kElements; ++j) or_if(keeps<kSource>(range, words[j]), bits, 1u << j);
    return bits;
  }
};

// A tile's part of a mask. A byte mask may begin at any address.
template <int kElements>
struct TileMask {
  std::uint8_t* begin;
  bool bytes, aligned;

  __device__ TileMask(const void* mask, bool is_bytes, std::int64_t element)
      : begin(static_cast<std::uint8_t*>(const_cast<void*>(mask)) +
              (is_bytes ? element : element / 8)),
        bytes(is_bytes),
        aligned(!is_bytes || reinterpret_cast<std::uintptr_t>(mask) % kElements == 0) {}

  __device__ __forceinline__ std::uint32_t load(std::uint32_t vector) const {
    if (aligned) return load_vector_mask<kElements>(begin, bytes, vector);
    std::uint32_t bits = 0;
#pragma unroll
    for (int j = 0; j < kElements; ++j)
      bits |= static_cast<std::uint32_t>(begin[vector * kElements + j] != 0) << j;
    return bits;
  }
  // `whole`: the tile has such a vector. All lanes call it.
  __device__ __forceinline__ void store(std::uint32_t vector, bool whole,
                                        std::uint32_t bits) const {
    if (!bytes) return store_vector_mask<kElements, false>(begin, vector, whole, bits);
    if (aligned) return store_vector_mask<kElements, true>(begin, vector, whole, bits);
    if (!whole) return;
#pragma unroll
    for (int j = 0; j < kElements; ++j) begin[vector * kElements + j] = bits >> j & 1u;
  }
};

// The operands of a tile, and its vectors in flight.
template <class T, MaskSource kSource, bool kUnaligned, bool kSums>
class TileVectors {
 public:
  using F = compute_t<T>;
  static constexpr int kElements = DropoutVector<T>::kElements;

  __device__ TileVectors(const DropoutWork& work, const DropoutTile& tile)
      : work_(work),
        vectors_(tile.elements / kElements),
        mask_(is_read(work) ? work.mask_in : work.mask_out,
              is_read(work) ? work.source == DropoutWork::Source::bytes
                            : work.sink == DropoutWork::Sink::bytes,
              tile.begin),
        x_(work.x, tile.offset[DropoutWork::kX]),
        bias_(work.bias, kSums ? tile.offset[DropoutWork::kBias] : 0),
        residual_(work.residual, kSums ? tile.offset[DropoutWork::kResidual] : 0),
        y_(work.y, tile.offset[DropoutWork::kY]) {}

  __device__ std::uint32_t vectors() const { return vectors_; }

  __device__ __forceinline__ void load(std::uint32_t vector) {
#pragma unroll
    for (int k = 0; k < kDropoutInFlight; ++k) {
      const std::uint32_t at = vector + 32 * k;
      if (at >= vectors_) continue;
      x_.load(at, x_raw_[k]);
      if constexpr (kSums) {
        if (work_.bias != nullptr) bias_.load(at, bias_raw_[k]);
        if (work_.residual != nullptr) residual_.load(at, residual_raw_[k]);
      }
    }
    if constexpr (!is_drawn(kSource)) {
#pragma unroll
      for (int k = 0; k < kDropoutInFlight; ++k) {
        const std::uint32_t at = vector + 32 * k;
        bits_[k] = work_.source == DropoutWork::Source::all ? 0xffu : 0u;
        if (is_read(work_) && at < vectors_) bits_[k] = mask_.load(at);
      }
    }
  }

  // All lanes call it.
  template <class Draws>
  __device__ __forceinline__ void finish(const Draws& draws, std::uint32_t vector) {
    if constexpr (is_drawn(kSource)) draws.template keep<kElements>(work_.keep, vector, bits_);
#pragma unroll
    for (int k = 0; k < kDropoutInFlight; ++k) {
      const std::uint32_t at = vector + 32 * k;
      if (k != 0 && at - threadIdx.x % 32 >= vectors_) break;
      DropoutVector<T> p = x_.vector_of(x_raw_[k]);
      F v[kElements], bias[kElements], residual[kElements];
      p.widen_to(v);
      if constexpr (kSums) {
        bias_.vector_of(bias_raw_[k]).widen_to(bias);
        residual_.vector_of(residual_raw_[k]).widen_to(residual);
      }
      const F scale = static_cast<F>(work_.scale);
#pragma unroll
      for (int j = 0; j < kElements; ++j) {
        const bool kept = (bits_[k] >> j & 1u) != 0;
        if constexpr (kSums)
          v[j] = dropped_out<F>(
              kept, v[j], scale,
              {work_.bias != nullptr, work_.residual != nullptr, bias[j], residual[j]});
        else
          v[j] = dropped_out(kept, v[j], scale);
      }
      p.narrow_from(v);
      y_.store(at, vectors_, p);
      if (work_.sink != DropoutWork::Sink::nothing) mask_.store(at, at < vectors_, bits_[k]);
    }
  }

 private:
  __device__ static bool is_read(const DropoutWork& work) {
    return !is_drawn(kSource) &&
           (work.source == DropoutWork::Source::bits || work.source == DropoutWork::Source::bytes);
  }

  using Reader = UnalignedReader<T, kUnaligned>;
  const DropoutWork& work_;
  const std::uint32_t vectors_;
  const TileMask<kElements> mask_;  // one: no operator both reads and stores a mask
  const Reader x_, bias_, residual_;
  UnalignedWriter<T, kUnaligned> y_;
  typename Reader::Raw x_raw_[kDropoutInFlight], bias_raw_[kSums ? kDropoutInFlight : 1],
      residual_raw_[kSums ? kDropoutInFlight : 1];
  std::uint32_t bits_[kDropoutInFlight];
};

}  // namespace twinops
