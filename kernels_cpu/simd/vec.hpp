// Vectors under the names that the formulas of numerics/ use. Included only by files that are
// compiled once for each instruction set. TWINOPS_ISA names the set, TWINOPS_ARCH is its xsimd
// architecture. Every template has Isa as a parameter, so that objects of different sets share no
// symbol.
#pragma once

#include <xsimd/xsimd.hpp>

#include "kernels_cpu/isa/isa.hpp"
#include "kernels_cpu/isa_list.hpp"
#include "numerics/float16.hpp"

namespace twinops {

template <class T, class Isa>
struct VecMask {
  xsimd::batch_bool<T, TWINOPS_ARCH> m;

  TWINOPS_INLINE friend VecMask operator|(VecMask a, VecMask b) { return {a.m | b.m}; }
  TWINOPS_INLINE friend VecMask operator&(VecMask a, VecMask b) { return {a.m & b.m}; }
  // No negation: xsimd 8.1 makes eight instructions of it for AVX, and its exclusive or of two
  // AVX-512 masks is an inclusive one.
};

template <class T, class Isa>
struct Vec {
  using Batch = xsimd::batch<T, TWINOPS_ARCH>;
  static constexpr int kLanes = static_cast<int>(Batch::size);
  Batch v;

  Vec() = default;
  TWINOPS_INLINE Vec(Batch b) : v(b) {}
  TWINOPS_INLINE explicit Vec(T value) : v(value) {}

  TWINOPS_INLINE friend Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
  TWINOPS_INLINE friend Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
  TWINOPS_INLINE friend Vec operator-(Vec a) { return {a.v ^ Batch(T(-0.0))}; }
  TWINOPS_INLINE friend Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
  TWINOPS_INLINE friend Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
  TWINOPS_INLINE friend VecMask<T, Isa> operator<(Vec a, Vec b) { return {a.v < b.v}; }
  TWINOPS_INLINE friend VecMask<T, Isa> operator==(Vec a, Vec b) { return {a.v == b.v}; }
  TWINOPS_INLINE friend Vec select(VecMask<T, Isa> condition, Vec yes, Vec no) {
    return {xsimd::select(condition.m, yes.v, no.v)};
  }
  TWINOPS_INLINE friend Vec abs(Vec x) {
    constexpr T all_but_sign =
        sizeof(T) == 4 ? T(bit_cast<float>(kNanBits32)) : T(bit_cast<double>(kNanBits64));
    return {x.v & Batch(all_but_sign)};
  }
  // a where a is NaN.
  TWINOPS_INLINE friend Vec larger(Vec a, Vec b) { return {isa::larger(a.v, b.v)}; }
  TWINOPS_INLINE friend Vec fma(Vec a, Vec b, Vec c) { return {isa::fused(a.v, b.v, c.v)}; }
  // a * b + c, rounded once or twice, whichever is faster: for decisions, not for results.
  TWINOPS_INLINE friend Vec multiply_add(Vec a, Vec b, Vec c) {
    if constexpr (isa::kHasFused)
      return fma(a, b, c);
    else
      return a * b + c;
  }

  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  TWINOPS_INLINE friend Vec exponent_bits(Vec t, Bits add) {
    return {twinops::bit_cast<Batch>(t.low_bits_as_exponent() + BitBatch(add))};
  }
  TWINOPS_INLINE friend Vec exponent_added(Vec y, Vec t) {
    return {twinops::bit_cast<Batch>(twinops::bit_cast<BitBatch>(y.v) + t.low_bits_as_exponent())};
  }

 private:
  using BitBatch = xsimd::batch<Bits, TWINOPS_ARCH>;
  TWINOPS_INLINE BitBatch low_bits_as_exponent() const {
    constexpr int kShift = sizeof(T) == 4 ? 23 : 52;
    // Not xsimd's bitwise_cast: its template argument changed between releases.
    return twinops::bit_cast<BitBatch>(v) << kShift;
  }
};

template <class T, class Isa>
struct LaneOf<Vec<T, Isa>> {
  using type = T;
};

// The vector in which elements of storage type T are computed.
template <class T, class Isa>
using compute_vec = Vec<compute_t<T>, Isa>;

template <class Isa, class T>
TWINOPS_INLINE compute_vec<T, Isa> load(const T* x) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
    return {isa::load_widened(x)};
  else
    return {compute_vec<T, Isa>::Batch::load_unaligned(x)};
}

// Two vectors of consecutive elements in the order that costs least, for what treats all elements
// alike.
template <class Isa, class T>
TWINOPS_INLINE void load_two(const T* x, compute_vec<T, Isa>& a, compute_vec<T, Isa>& b) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    isa::load_two_widened(x, a.v, b.v);
  } else {
    a = load<Isa>(x);
    b = load<Isa>(x + a.kLanes);
  }
}

// Rounds once, and follows isa::store_narrowed's rule for NaN.
template <class Isa, class T>
TWINOPS_INLINE void store_canonical(T* out, compute_vec<T, Isa> y) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
    isa::store_narrowed(out, y.v);
  else
    y.v.store_unaligned(out);
}

// The reverse of load_two, with one rounding. A NaN stays one; as a bfloat16 if its lower half is
// 0, as in one that was loaded.
template <class Isa, class T>
TWINOPS_INLINE void store_two(T* out, compute_vec<T, Isa> a, compute_vec<T, Isa> b) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    isa::store_two_narrowed(out, a.v, b.v);
  } else {
    store_canonical<Isa>(out, a);
    store_canonical<Isa>(out + a.kLanes, b);
  }
}

// Makes NaN canonical, then rounds once.
template <class Isa, class T>
TWINOPS_INLINE void store(T* out, compute_vec<T, Isa> y) {
  store_canonical<Isa>(out, canonical(y));
}

}  // namespace twinops
