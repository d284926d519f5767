// A row of softmax's input by vectors: read into a buffer, scaled and masked. Included only by
// files that are compiled once for each instruction set.
#pragma once

#include "kernels_cpu/rows/chunks.hpp"
#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/simd/words.hpp"
#include "numerics/softmax.hpp"
#include "operators/softmax.hpp"

namespace twinops {

// A row of softmax's input, whatever its type.
struct InputRow {
  const void* x;  // its first element
  std::int64_t length;
  std::int64_t columns;  // elements that count; those beyond are masked out
  std::int64_t mask_at;  // the offset of the row's mask
  const SoftmaxArguments* a;

  // How many elements chunk c has, and how many of them count.
  TWINOPS_INLINE int size(std::int64_t c) const { return clamped(length - c * kFoldChunk); }
  TWINOPS_INLINE int used(std::int64_t c) const { return clamped(columns - c * kFoldChunk); }

 private:
  TWINOPS_INLINE static int clamped(std::int64_t n) {
    return static_cast<int>(n < 0 ? 0 : n < kFoldChunk ? n : kFoldChunk);
  }
};

// x: the row's first element.
TWINOPS_INLINE InputRow input_row(const SoftmaxArguments& a, std::int64_t row, const void* x) {
  InputRow read{x, a.rows.length, a.rows.length, 0, &a};
  if (!a.mask.is_plain()) {
    const auto at = row_offsets(a.mask_outer, row);
    read.columns = a.mask.columns(at.of, a.rows.length);
    read.mask_at = at.of[RowMask::kMask];
  }
  return read;
}

// The same with its type.
template <class In, class Isa>
struct MaskedRow {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;

  RowView<const In, Isa> x;
  std::int64_t mask_at;
  const SoftmaxArguments* a;

  TWINOPS_INLINE explicit MaskedRow(const InputRow& row)
      : x{static_cast<const In*>(row.x), row.a->rows.step[SoftmaxArguments::kX]},
        mask_at(row.mask_at),
        a(row.a) {}

  // Reads the n elements of chunk c that count, less `shift`; -infinity up to padded(n). Returns
  // their maximum. If one is NaN, the maximum of others or NaN.
  TWINOPS_INLINE V read(std::int64_t c, int n, Compute shift, Compute* to) const {
    V max(-kInfinity<Compute>);
    const V move(shift);
    if (a->is_plain()) {
      V other(-kInfinity<Compute>);
      const auto keep = [&](int j, V value, V& greatest) TWINOPS_INLINE_BODY {
        value = value - move;
        save(to + j, value);
        greatest = larger(greatest, value);
      };
      read_pairs(
          x, c * kFoldChunk, n, narrow<In>(-kInfinity<Compute>),
          [&](int j, V value) TWINOPS_INLINE_BODY { keep(j, value, max); },
          [&](int j, V value) TWINOPS_INLINE_BODY { keep(j, value, other); });
      return larger(max, other);
    }
    const int whole = n - n % V::kLanes;
    const auto put = [&](int j, V value) TWINOPS_INLINE_BODY {
      value = value - move;
      save(to + j, value);
      if (j < whole) max = larger(max, value);
    };
    masked(c * kFoldChunk, n, put);
    const int end = padded<Compute, Isa>(n);
    for (int j = n; j < end; ++j) to[j] = -kInfinity<Compute>;
    return whole == n ? max : larger(max, load<Isa>(to + whole));
  }

 private:
  // Calls put(j, vector) with the scaled and masked values of elements [first, first + n), and with
  // anything in the places beyond.
  template <class Put>
  TWINOPS_INLINE void masked(std::int64_t first, int n, Put&& put) const {
    const V scale(static_cast<Compute>(a->scale));
    switch (a->mask.kind) {
      case RowMask::Kind::none:
        read_chunk(x, first, n, In{},
                   [&](int j, V value) TWINOPS_INLINE_BODY { put(j, scaled(value, scale)); });
        break;
      case RowMask::Kind::excluded:
        with_mask<std::uint8_t>(
            first, n, put, [&](const std::uint8_t* m, V value) TWINOPS_INLINE_BODY {
              const VecMask<Compute, Isa> counts{isa::zero_bytes<Compute, TWINOPS_ARCH>(m)};
              return scaled_where(counts, value, scale);
            });
        break;
      case RowMask::Kind::added:
        with_mask<In>(first, n, put, [&](const In* m, V value) TWINOPS_INLINE_BODY {
          return scaled_and_masked(value, scale, load<Isa>(m));
        });
        break;
      case RowMask::Kind::added_float32:
        if constexpr (sizeof(In) == 2)
          with_mask<float>(first, n, put, [&](const float* m, V value) TWINOPS_INLINE_BODY {
            return scaled_and_masked(value, scale, load<Isa>(m));
          });
    }
  }
  // Calls put(j, f(address of the lanes' mask, value)) for a mask of type M.
  template <class M, class Put, class F>
  TWINOPS_INLINE void with_mask(std::int64_t first, int n, Put&& put, F&& f) const {
    const RowView<const M, Isa> view{static_cast<const M*>(a->mask.data) + mask_at, a->mask.step};
    alignas(64) M gathered[kFoldChunk];
    const M* const masks = dense_run(view, first, n, gathered);
    const int whole = n - n % V::kLanes;
    M tail[V::kLanes];
    if (whole != n) isa::copy_padded<V::kLanes>(tail, masks + whole, n - whole, M{});
    read_chunk(x, first, n, In{}, [&](int j, V value) TWINOPS_INLINE_BODY {
      put(j, f(j < whole ? masks + j : tail, value));
    });
  }
};

}  // namespace twinops
