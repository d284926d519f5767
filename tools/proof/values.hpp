// Values for tensors: each Fill is a pure function of (seed, index), by Philox, so that a failure
// can be had again from its seed.
#pragma once

#include "tools/proof/problem.hpp"

namespace proof {

// Every element the same, rounded to the tensor's type. Booleans: 0 or 1.
Fill constant(double value);
// The elements one after the other; the last is repeated. All members of a list get the same.
Fill numbers(std::vector<double> values);
Fill integers(std::vector<std::int64_t> values);
// Bits as they come, of any type (booleans: 0 or 1).
Fill random_bits();

// Ordinary gradients: finite, normal in float16, half of them negative, magnitudes 2^-14 to 2^4.
Fill ordinary();
// All finite values: half ordinary gradients, the rest any finite bits, subnormals, values near the
// largest (they overflow when they are unscaled or narrowed), values near 1, and zeros of both
// signs.
Fill all_finite();
// all_finite() with infinities and NaNs of many payloads strewn in (1 of 64), and at the first and
// last element and around the multiples of 1024.
Fill whole_range();

// Values that are hard to carry over, as bits of each floating type.
enum class Special {
  infinity,
  minus_infinity,
  quiet_nan,
  signalling_nan,  // 0x7f800001 and the like
  minus_nan,       // all bits set
  largest,
  minus_largest,
  least_normal,
  least_subnormal,
  minus_zero,
};
inline constexpr int kSpecials = 10;
// `fill`, but with one special value: in member `member`, at element `index` (below 0: from the
// end). An index that the member has not is left out.
Fill with(Fill fill, std::size_t member, std::int64_t index, Special value);

// The bits of a special value in a floating type.
std::uint64_t bits_of(Special value, DLDataType type);

}  // namespace proof
