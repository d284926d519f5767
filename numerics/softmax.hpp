// The arithmetic of the softmax family: docs/softmax.md.
//
// A row is cut into chunks of kFoldChunk. A chunk is a softmax of its own: its weights are powers
// of e scaled by the power of two of its own maximum, and its sum is their fold. Chunks then join,
// as a balanced tree of neighbours, by exact powers of two. So nothing in a chunk waits for the
// rest of the row, a row may be read once, and any processor may own any chunk.
#pragma once

#include "numerics/exp.hpp"
#include "numerics/float16.hpp"
#include "numerics/fold.hpp"
#include "numerics/log.hpp"
#include "numerics/nan.hpp"

namespace twinops {

// exp_parts() is good up to here. A row whose maximum lies beyond is moved by its maximum first,
// which is exact for every element that the result can tell from 0.
template <class F>
inline constexpr F kExpReach = F(1 << 21);

// Elements that are read in 16 bits take powers of a number so near to e that the type cannot tell:
// a sum divides them, and what a gradient takes of one is rounded to that type.
template <class In>
inline constexpr bool kNear = sizeof(In) == 2;

template <class F>
inline constexpr F kInfinity = bit_cast<F>(LogTable<F>::kInfinity);

// Weights stand 2^kLift above 1, so that the weight of a probability that is a subnormal number is
// a normal number, and a sum has no bit below 1: quotient().
template <class F>
inline constexpr int kLift = sizeof(F) == 4 ? 24 : 53;

template <class V>
TWINOPS_INLINE constexpr V within_reach(V x) {
  const V low(-kExpReach<lane_t<V>>), high(kExpReach<lane_t<V>>);
  x = select(x < low, low, x);
  return select(high < x, high, x);
}

// What softmax is taken of: x under a scale, where it counts, and with a mask that is added. A mask
// of -infinity masks an element out, whatever x is. V: float, double or a vector of them.
template <class V>
TWINOPS_INLINE constexpr V scaled(V x, V scale) {
  return scale * x;
}
template <class V, class Mask>
TWINOPS_INLINE constexpr V scaled_where(Mask counts, V x, V scale) {
  return select(counts, scale * x, V(-kInfinity<lane_t<V>>));
}
template <class F>
TWINOPS_INLINE constexpr bool masks_out(F mask) {
  return mask == -kInfinity<F>;
}
template <class V>
TWINOPS_INLINE constexpr V scaled_and_masked(V x, V scale, V mask) {
  const V out(-kInfinity<lane_t<V>>);
  return select(mask == out, out, fma(scale, x, mask));
}

// What is added for a bias beside a mask, of bytes or of numbers. What either masks out is masked
// out, whatever the other is.
template <class F>
TWINOPS_INLINE constexpr F bias_where(bool counts, F bias) {
  return counts ? bias : -kInfinity<F>;
}
template <class F>
TWINOPS_INLINE constexpr F bias_and_mask(F bias, F mask) {
  return masks_out(bias) || masks_out(mask) ? -kInfinity<F> : bias + mask;
}

// k of exp(x) = m * 2^k.
template <class F>
TWINOPS_INLINE constexpr std::int32_t exponent_of(F x) {
  using Table = ExpTable<F>;
  const F t = fma(x, Table::kLog2E, Table::kMagic);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(to_bits(t)) -
                                   static_cast<std::uint32_t>(to_bits(Table::kMagic)));
}

// 2^d for d up to the bias, +0 where that is not a normal number.
template <class F>
TWINOPS_INLINE constexpr F power_of_two(std::int32_t d) {
  using Table = ExpTable<F>;
  using Bits = typename Table::Bits;
  if (d <= -Table::kBias) return F(0);
  return bit_cast<F>(Bits(static_cast<std::uint32_t>(d) + Table::kBias) << Table::kShift);
}

// What a chunk's weights are scaled by: 2^(kLift - n), n = k of its maximum.
template <class F>
struct WeightScale {
  F low;  // of an x with k = n - kLift - bias: from there down weights are +0
  typename ExpTable<F>::Bits bits;  // of 2^(kLift - n), where 2^k is added to the exponent
};
template <class F>
TWINOPS_INLINE constexpr WeightScale<F> weight_scale(F max) {
  using Table = ExpTable<F>;
  using Bits = typename Table::Bits;
  const F t = fma(within_reach(max), Table::kLog2E, Table::kMagic);  // n stands in its low bits
  constexpr int kTop = Table::kBias + kLift<F>;
  return {((t - Table::kMagic) - F(kTop)) * Table::kLn2High,
          (Bits(kTop) << Table::kShift) - (to_bits(t) << Table::kShift)};
}

// The power of x * 2^(kLift - n), for x up to the maximum that n is of. V: F or a vector of F.
template <class In, class V>
TWINOPS_INLINE constexpr V weight(V x, WeightScale<lane_t<V>> scale) {
  const ExpParts<V> e =
      power_parts<kNear<In>>(larger(x, V(scale.low)), V(ExpTable<lane_t<V>>::kMagic));
  return e.mantissa * exponent_bits(e.exponent, scale.bits);
}

// The same bits at less cost where a weight is a normal number: 2^(kLift - n) stands in the number
// that rounds, and 2^k is added to the mantissa's exponent.
template <class F>
TWINOPS_INLINE constexpr F weight_magic(F max) {
  using Table = ExpTable<F>;
  return (Table::kMagic + F(kLift<F>)) -
         (fma(within_reach(max), Table::kLog2E, Table::kMagic) - Table::kMagic);
}
template <class F>
TWINOPS_INLINE constexpr bool weight_is_normal(F x, F magic) {
  using Table = ExpTable<F>;
  return fma(x, Table::kLog2E, magic) >= Table::kMagic - F(Table::kBias - 2);
}
template <class In, class F>
TWINOPS_INLINE constexpr F normal_weight(F x, F magic) {
  const ExpParts<F> e = power_parts<kNear<In>>(x, magic);
  return exponent_added(e.mantissa, e.exponent);
}

// The greater of two; NaN if either is.
template <class F>
TWINOPS_INLINE constexpr F greatest(F a, F b) {
  if (a != a) return a;
  return b <= a ? a : b;
}

// A span of a row: its maximum, and the sum of its weights under that maximum's n.
template <class F>
struct SoftmaxPart {
  F max = -kInfinity<F>;
  F sum = F(0);

  TWINOPS_INLINE constexpr std::int32_t n() const { return exponent_of(within_reach(max)); }
  // Its sum under an n that is not below its own. NaNs have any n, and their difference wraps.
  TWINOPS_INLINE constexpr F sum_under(std::int32_t top) const {
    const auto d = static_cast<std::uint32_t>(n()) - static_cast<std::uint32_t>(top);
    return sum * power_of_two<F>(static_cast<std::int32_t>(d));
  }

  // Two neighbours. Many may also be joined at once: the greatest maximum, every sum under its n,
  // and those added as a tree of neighbours. The bits are the same: docs/softmax.md.
  TWINOPS_INLINE friend constexpr SoftmaxPart operator+(SoftmaxPart left, SoftmaxPart right) {
    const std::int32_t l = left.n(), r = right.n(), top = l < r ? r : l;
    return {greatest(left.max, right.max), left.sum_under(top) + right.sum_under(top)};
  }
};

// What a whole row is to be.
enum class RowKind {
  ordinary,
  out_of_range,  // its maximum is beyond kExpReach: take the maximum from every x, and begin again
  nan,           // it holds a NaN or +infinity
  masked,        // it holds nothing but -infinity
};
template <class F>
TWINOPS_INLINE constexpr RowKind kind_of_row(F max) {
  if (max == -kInfinity<F>) return RowKind::masked;
  if (!(max < kInfinity<F>)) return RowKind::nan;
  return abs(max) > kExpReach<F> ? RowKind::out_of_range : RowKind::ordinary;
}

// softmax: a weight is divided by the row's sum. Where probabilities have 16 bits it is multiplied
// with the sum's inverse: their type cannot tell, and an operation costs time there.
template <class Out>
inline constexpr bool kDivides = sizeof(Out) > 2;
template <class Out>
inline constexpr bool kIsFloat16 = false;
template <>
inline constexpr bool kIsFloat16<float16> = true;

// What a row keeps of its sum: the sum or its inverse.
template <class Out, class F>
TWINOPS_INLINE constexpr F divisor_of_row(F sum) {
  return kDivides<Out> ? sum : F(1) / sum;
}

// A chunk whose maximum lies more than 2^kNear below the row's is far, and is divided in two steps,
// because the sum under its n is out of range where probabilities are not. float16 has none there.
template <class F>
inline constexpr int kNearChunk = sizeof(F) == 4 ? 48 : 512;
template <class F>
inline constexpr int kFarStep = sizeof(F) == 4 ? 100 : 1000;
template <class F>
inline constexpr int kFarthest = sizeof(F) == 4 ? 160 : 1100;  // from here on all of them are 0

// The same for a chunk: the row's, under the chunk's n. Below 0 if the chunk is far.
template <class Out, class F>
TWINOPS_INLINE constexpr F divisor_of_chunk(F row_max, F divisor, F chunk_max) {
  const std::int32_t up = exponent_of(row_max) - exponent_of(within_reach(chunk_max));
  const bool far = up > kNearChunk<F>;
  if (kIsFloat16<Out> && far) return F(0);
  const std::int32_t d = !far ? up : (up < kFarthest<F> ? up : kFarthest<F>)-kFarStep<F>;
  const F y = divisor * power_of_two<F>(kDivides<Out> ? d : -d);
  return far ? -y : y;
}
template <class Out, class F>
TWINOPS_INLINE constexpr bool is_far(F divisor_of_chunk) {
  return !kIsFloat16<Out> && divisor_of_chunk < F(0);
}
// The second step.
template <class V>
TWINOPS_INLINE constexpr V from_far(V y) {
  return y * V(power_of_two<lane_t<V>>(-kFarStep<lane_t<V>>));
}

// A chunk's division: of each weight by its divisor, or (not kDivides) with it. V: F or a vector.
template <class Out, class V>
struct Division {
  V divisor, inverse;

  TWINOPS_INLINE static constexpr Division by(V divisor_of_chunk) {
    const V divisor = abs(divisor_of_chunk);
    return {divisor, kDivides<Out> ? V(lane_t<V>(1)) / divisor : divisor};
  }
  TWINOPS_INLINE constexpr V operator()(V weight) const {
    if constexpr (kDivides<Out>)
      return quotient(weight, divisor, inverse);
    else
      return weight * inverse;
  }
};

// log_softmax: y = (x - max) - log_of_sum. The sum is divided by the maximum's own weight, which is
// one of its terms: the quotient is 1 or more, and exactly 1 where nothing else counts.
template <class In, class V>
TWINOPS_INLINE constexpr V sum_over_greatest(V max, V sum) {
  using F = lane_t<V>;
  const V mantissa = power_parts<kNear<In>>(max, V(ExpTable<F>::kMagic)).mantissa;
  return sum / (mantissa * V(power_of_two<F>(kLift<F>)));
}
template <class In, class F>
TWINOPS_INLINE constexpr F log_of_sum(SoftmaxPart<F> row) {
  return log(sum_over_greatest<In>(row.max, row.sum));
}
template <class V>
TWINOPS_INLINE constexpr V log_softmax(V x, V max, V log_sum) {
  return (x - max) - log_sum;
}

// What every element of a row that is not ordinary is, before it is stored.
template <class F>
TWINOPS_INLINE constexpr F special_row(RowKind kind, bool masked_is_zero, bool log) {
  if (kind == RowKind::masked && masked_is_zero) return log ? -kInfinity<F> : F(0);
  return bit_cast<F>(
      static_cast<typename ExpTable<F>::Bits>(sizeof(F) == 4 ? kNanBits32 : kNanBits64));
}

// Backward. sum: of grad_term(y, dy) over the row, folded. Of an element that is masked out both
// the term and the gradient are +0, by selection.
template <bool kLog, class V>
TWINOPS_INLINE constexpr V grad_term(V y, V dy) {
  if constexpr (kLog)
    return dy;
  else
    return y * dy;
}
template <bool kLog, class In, class V>
TWINOPS_INLINE constexpr V softmax_grad(V y, V dy, V sum) {
  if constexpr (kLog)
    return fma(V(lane_t<V>(0)) - exp<kNear<In>>(y), sum, dy);
  else
    return y * (dy - sum);
}
// Under the forward pass's scale, which is rounded once more.
template <bool kLog, class In, class V>
TWINOPS_INLINE constexpr V softmax_grad(V y, V dy, V sum, V scale) {
  return scale * softmax_grad<kLog, In>(y, dy, sum);
}
// softmax_grad<true> where |y| is no more than ExpTable<F>::kNormal, so that exp(y) is above 0.
template <class In, class F>
TWINOPS_INLINE constexpr F normal_log_softmax_grad(F y, F dy, F sum, F scale) {
  return scale * fma(normal_exp<kNear<In>>(y), -sum, dy);
}

}  // namespace twinops
