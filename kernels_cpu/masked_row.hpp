// One row of softmax's input as vectors: read into a buffer, scaled and masked. Only files compiled
// once an instruction set include this.
#pragma once

#include "kernels_cpu/isa/words.hpp"
#include "kernels_cpu/row_chunks.hpp"
#include "kernels_cpu/row_offsets.hpp"
#include "numerics/dropout.hpp"
#include "numerics/softmax.hpp"
#include "operators/softmax.hpp"

namespace twinops {

template <class In, class Isa>
struct MaskedRow {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;

  RowView<const In, Isa> x;
  std::int64_t length;
  std::int64_t columns;  // elements that count; those beyond are masked out
  std::int64_t mask_at;  // the offset of the row's mask
  const SoftmaxArguments* a;

  // Elements of chunk c, and how many of them count.
  TWINOPS_INLINE int size(std::int64_t c) const { return clamped(length - c * kFoldChunk); }
  TWINOPS_INLINE int used(std::int64_t c) const { return clamped(columns - c * kFoldChunk); }

  // The values of the n elements that count of chunk c, less `shift`; -infinity up to padded(n).
  // Returns their maximum; where one of them is NaN, that of others or NaN.
  TWINOPS_INLINE V read(std::int64_t c, int n, Compute shift, Compute* to) const {
    V max(-kInfinity<Compute>);
    const V move(shift);
    if (a->is_plain()) {
      read_chunk(x, c * kFoldChunk, n, narrow<In>(-kInfinity<Compute>),
                 [&](int j, V value) TWINOPS_INLINE_BODY {
                   value = value - move;
                   save(to + j, value);
                   max = larger(max, value);
                 });
      return max;
    }
    const int whole = n - n % V::kLanes;
    const auto put = [&](int j, V value) TWINOPS_INLINE_BODY {
      value = value - move;
      save(to + j, value);
      if (j < whole) max = larger(max, value);
    };
    masked(c * kFoldChunk, n, to, put);
    const int end = padded<Compute, Isa>(n);
    for (int j = n; j < end; ++j) to[j] = -kInfinity<Compute>;
    return whole == n ? max : larger(max, load<Isa>(to + whole));
  }

 private:
  TWINOPS_INLINE static int clamped(std::int64_t n) {
    return static_cast<int>(n < 0 ? 0 : n < kFoldChunk ? n : kFoldChunk);
  }

  // Calls put(j, vector) with the values of elements [first, first + n) under scale and mask, and
  // with anything in the places beyond them. `to` has room for what is read meanwhile.
  template <class Put>
  TWINOPS_INLINE void masked(std::int64_t first, int n, Compute* to, Put&& put) const {
    const V scale(static_cast<Compute>(a->scale));
    const RowMask& mask = a->mask;
    if (mask.kind == RowMask::Kind::none)
      return read_chunk(x, first, n, In{},
                        [&](int j, V value) TWINOPS_INLINE_BODY { put(j, scaled(value, scale)); });
    read_chunk(x, first, n, In{}, [&](int j, V value) TWINOPS_INLINE_BODY { save(to + j, value); });
    const std::int64_t at = mask_at + first * mask.step;
    if (mask.kind == RowMask::Kind::excluded)
      return exclude(static_cast<const std::uint8_t*>(mask.data) + at, n, scale, to, put);
    const auto add = [&]<class M>(const M* from) TWINOPS_INLINE_BODY {
      read_chunk(RowView<const M, Isa>{from + at, mask.step}, 0, n, M{},
                 [&](int j, V m) TWINOPS_INLINE_BODY {
                   put(j, scaled_and_masked(load<Isa>(to + j), scale, m));
                 });
    };
    if (mask.kind == RowMask::Kind::added) return add(static_cast<const In*>(mask.data));
    if constexpr (sizeof(In) == 2) add(static_cast<const float*>(mask.data));
  }
  template <class Put>
  TWINOPS_INLINE void exclude(const std::uint8_t* from, int n, V scale, const Compute* to,
                              Put&& put) const {
    alignas(64) std::uint8_t bytes[kFoldChunk];
    const std::int64_t step = a->mask.step;
    if (step == 1)
      __builtin_memcpy(bytes, from, static_cast<std::size_t>(n));
    else
      for (int j = 0; j < n; ++j) bytes[j] = from[j * step];
    for (int j = n; j % 16 != 0; ++j) bytes[j] = 0;
    const V out(-kInfinity<Compute>);
    for (int j = 0; j < n; j += V::kLanes) {
      std::uint64_t low, high = 0;
      __builtin_memcpy(&low, bytes + j / 8 * 8, 8);
      if constexpr (V::kLanes > 8) __builtin_memcpy(&high, bytes + j + 8, 8);
      const std::uint64_t bits = mask_bits(low) | std::uint64_t{mask_bits(high)} << 8;
      const VecMask<Compute, Isa> excluded{isa::lanes_of<Compute, TWINOPS_ARCH>(bits >> j % 8)};
      put(j, select(excluded, out, scaled(load<Isa>(to + j), scale)));
    }
  }
};

template <class In, class Isa>
TWINOPS_INLINE MaskedRow<In, Isa> masked_row(const SoftmaxArguments& a, std::int64_t row,
                                             std::int64_t x_offset) {
  MaskedRow<In, Isa> read{{static_cast<const In*>(a.x) + x_offset, a.rows.step[1]},
                          a.rows.length,
                          a.rows.length,
                          0,
                          &a};
  if (!a.mask.is_plain()) {
    const auto at = row_offsets(a.mask_outer, row);
    read.columns = a.mask.columns(at.of, a.rows.length);
    read.mask_at = at.of[RowMask::kMask];
  }
  return read;
}

}  // namespace twinops
