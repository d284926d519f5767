// check_finite_and_unscale by vectors.
//
// Memory: each element is read once and written once. Order: whether a value was found is an OR, so
// no order matters. A finite sum says that all its terms are finite and none is a NaN, so that one
// check serves many values: results are stored at once and some thousand of them are checked by
// their sums. Where x itself must be checked, a block waits in registers until it is checked,
// because in place x is gone after the store.
// Figures, and what was tried: docs/lab/loss-scaling-cpu.md#how-values-are-checked.
#include "operators/check_finite_and_unscale.hpp"

#include <limits>

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/loss_scaling/multi_tensor_parts.hpp"
#include "kernels_cpu/loss_scaling/scalars.hpp"
#include "kernels_cpu/simd/partial_vector.hpp"
#include "numerics/unscale.hpp"

namespace twinops {
namespace {

// Vectors of V in a block, and of 16 bits in a step.
template <class V>
constexpr int kBlock = sizeof(V) < 64 ? 8 : 4;

// Prefetches the first lines of the next run, unless it begins close behind `end`, where the
// processor prefetches by itself: docs/lab/loss-scaling-cpu.md#what-is-prefetched.
TWINOPS_INLINE void fetch_start(const char* behind, std::int64_t bytes, const void* end) {
  constexpr std::int64_t kNear = 1024, kLine = 64, kFirst = 2 * kLine;  // bytes
  const auto distance =
      reinterpret_cast<std::uintptr_t>(behind) - reinterpret_cast<std::uintptr_t>(end);
  if (distance < kNear || bytes < kFirst) return;
  for (std::int64_t b = 0; b < kFirst; b += kLine) __builtin_prefetch(behind + b);
}

// Prefetches the lines of a later step, if the n elements from x on reach so far.
template <std::int64_t kStep, class T>
TWINOPS_INLINE void fetch_ahead(const T* x, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T), kAhead = 2048 / sizeof(T);
  if (n < kAhead + kStep) return;
  for (std::int64_t i = 0; i < kStep; i += kLine) __builtin_prefetch(x + kAhead + i);
}

// For any values. Returns whether one was not finite.
template <class Isa, class T>
TWINOPS_INLINE bool unscale_vectors(const T* x, T* out, std::int64_t n, compute_vec<T, Isa> inverse,
                                    bool check_input) {
  using V = compute_vec<T, Isa>;
  using F = compute_t<T>;
  auto all_finite = is_finite<F>(V(F(0)));
  const auto unscale_vector = [&](V value, T* to) {
    const V y = unscale(value, inverse);
    all_finite = all_finite & (check_input ? is_finite<F>(value) : is_finite<T>(y));
    store<Isa>(to, y);
  };
  const int rest = static_cast<int>(n % V::kLanes);
  const std::int64_t whole = n - rest;
  for (std::int64_t i = 0; i < whole; i += V::kLanes) unscale_vector(load<Isa>(x + i), out + i);
  if (rest > 0) {
    alignas(64) T tail[V::kLanes];
    unscale_vector(load_partial<Isa>(x + whole, rest), tail);
    copy_partial<V::kLanes>(out + whole, tail, rest);
  }
  return !xsimd::all(all_finite.m);
}
// Not inlined: it is rare, and would take registers from the loop that calls it.
template <class Isa, class T>
[[gnu::noinline]] bool unscale_block(const T* x, T* out, compute_t<T> inverse) {
  using V = compute_vec<T, Isa>;
  return unscale_vectors<Isa>(x, out, kBlock<V> * V::kLanes, V(inverse), true);
}

// n vectors of consecutive elements in the order of load_two, which moves no lane of a bfloat16.
template <class Isa, class T, int n>
TWINOPS_INLINE void load_all(const T* x, compute_vec<T, Isa> (&y)[n]) {
  constexpr int kLanes = compute_vec<T, Isa>::kLanes;
  if constexpr (n == 1) {
    y[0] = load<Isa>(x);
  } else {
    for (int k = 0; k < n; k += 2) load_two<Isa>(x + k * kLanes, y[k], y[k + 1]);
  }
}
template <class Isa, class T, int n>
TWINOPS_INLINE void store_all(T* out, const compute_vec<T, Isa> (&y)[n]) {
  constexpr int kLanes = compute_vec<T, Isa>::kLanes;
  if constexpr (n == 1) {
    store_canonical<Isa>(out, y[0]);
  } else {
    for (int k = 0; k < n; k += 2) store_two<Isa>(out + k * kLanes, y[k], y[k + 1]);
  }
}

// For calls that check what was read: a block is checked before it is stored.
template <class Isa, class T>
TWINOPS_INLINE bool unscale_blocks(const T*& x, T*& out, const T* end, compute_t<T> inverse_scale) {
  using V = compute_vec<T, Isa>;
  using F = compute_t<T>;
  constexpr std::int64_t kStep = std::int64_t{kBlock<V>} * V::kLanes;
  const V inverse(inverse_scale);
  bool found = false;
  for (; end - x >= kStep; x += kStep, out += kStep) {
    if constexpr (sizeof(T) == 2) fetch_ahead<kStep>(x, end - x);
    V y[kBlock<V>], sum[2] = {V(F(0)), V(F(0))};
    load_all<Isa>(x, y);
    for (int k = 0; k < kBlock<V>; ++k) {
      y[k] = unscale(y[k], inverse);
      sum[k % 2] = add_to_check<T>(sum[k % 2], y[k]);
    }
    // The usual case: what was read was finite too, and no NaN has to become canonical.
    if (xsimd::all(are_surely_finite<T>(sum[0] + sum[1]).m)) [[likely]] {
      store_all<Isa>(out, y);
    } else {
      found |= unscale_block<Isa>(x, out, inverse_scale);
    }
  }
  return found;
}

// Makes every NaN among stored results canonical. Returns whether one was not finite.
template <class Isa, class T>
[[gnu::noinline]] bool mend(T* out, std::int64_t n) {
  using V = compute_vec<T, Isa>;
  return unscale_vectors<Isa>(out, out, n, V(1), false);
}

// For calls that check results: they are stored at once, and some thousand are checked by their
// sums. What is not finite as computed is not finite as stored.
template <class Isa, class T>
TWINOPS_INLINE bool unscale_then_check(const T*& x, T*& out, const T* end,
                                       compute_t<T> inverse_scale) {
  using V = compute_vec<T, Isa>;
  using F = compute_t<T>;
  // kTogether vectors are loaded before one is stored.
  constexpr int kSums = 4, kTogether = sizeof(T) == 2 ? kSums : 1;
  constexpr int kStepVectors = sizeof(T) == 2 ? kBlock<V> : kSums;
  constexpr std::int64_t kStep = std::int64_t{kStepVectors} * V::kLanes;
  // Few enough that the sum of squares of ordinary halves does not overflow.
  constexpr std::int64_t kMostChecked = sizeof(T) == 2 ? 1024 : 4096;
  const V inverse(inverse_scale);
  bool found = false;
  while (end - x >= kStep) {
    const std::int64_t n = std::min(end - x, kMostChecked) / kStep * kStep;
    V sum[kSums];
    for (V& s : sum) s = V(F(0));
    for (const T* const stop = x + n; x != stop; x += kStep, out += kStep) {
      if constexpr (sizeof(T) == 2) fetch_ahead<kStep>(x, end - x);
      for (int k = 0; k < kStepVectors; k += kTogether) {
        V y[kTogether];
        load_all<Isa>(x + k * V::kLanes, y);
        for (int i = 0; i < kTogether; ++i) {
          y[i] = unscale(y[i], inverse);
          V& of = sum[(k + i) % kSums];
          of = add_to_check<T>(of, y[i]);
        }
        store_all<Isa>(out + k * V::kLanes, y);
      }
    }
    if (!xsimd::all(are_surely_finite<T>(sum[0] + sum[1] + (sum[2] + sum[3])).m)) [[unlikely]]
      found |= mend<Isa>(out - n, n);
  }
  return found;
}

// Returns whether a value was not finite. kInPlace: every tensor is its own output. The next run's
// description is loaded before this run is worked on, because a load waits for older stores to the
// same low 12 bits of an address.
template <class Isa, class T, bool kInPlace, bool kCheckInput>
bool unscale_part(const TensorList::Part& part, compute_t<T> inverse_scale) {
  using V = compute_vec<T, Isa>;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  bool found = false, more = true;
  Runs<kInPlace> runs(part, kSize);
  for (auto behind = runs.take(); more;) {
    const auto run = behind;
    const T* x = reinterpret_cast<const T*>(run.x);
    T* out = reinterpret_cast<T*>(kInPlace ? run.x : run.out);
    const T* const end = x + run.elements;
    more = !runs.done();
    if (more) {
      behind = runs.take();
      fetch_start(behind.x, behind.elements * kSize, end);
    }
    if constexpr (kCheckInput)
      found |= unscale_blocks<Isa>(x, out, end, inverse_scale);
    else
      found |= unscale_then_check<Isa>(x, out, end, inverse_scale);
    if (x != end) found |= unscale_vectors<Isa>(x, out, end - x, V(inverse_scale), kCheckInput);
  }
  return found;
}

template <class Isa, class T>
bool unscale_part(const TensorList::Part& part, compute_t<T> inverse_scale, bool check_input) {
  if (part.x == part.out)
    return check_input ? unscale_part<Isa, T, true, true>(part, inverse_scale)
                       : unscale_part<Isa, T, true, false>(part, inverse_scale);
  return check_input ? unscale_part<Isa, T, false, true>(part, inverse_scale)
                     : unscale_part<Isa, T, false, false>(part, inverse_scale);
}

}  // namespace

template <>
void run_cpu<CheckFiniteAndUnscale, isa::TWINOPS_ISA>(
    const CheckFiniteAndUnscale::Arguments& arguments, Execution& execution) {
  double scale = read_scale(arguments.scale, arguments.scale_type);
  // Results are stored before they are checked, and a NaN must stay a NaN as a bfloat16. This NaN
  // has zeros for lower bits, so that rounding does not carry into its sign.
  if (scale != scale) scale = std::numeric_limits<double>::quiet_NaN();
  // One division for the call, not one for each tensor.
  const auto inverse_float = inverse_scale<float>(scale);
  const auto inverse_double = inverse_scale<double>(scale);
  const auto unscale_all = [inverse_float, inverse_double,
                            check_input = arguments.check_input](const TensorList::Part& part) {
    bool found = false;
    with_floating_type(part.type, [&]<class T>(TypeTag<T>) {
      compute_t<T> inverse;
      if constexpr (std::is_same_v<compute_t<T>, double>)
        inverse = inverse_double;
      else
        inverse = inverse_float;
      found = unscale_part<isa::TWINOPS_ISA, T>(part, inverse, check_input) ||
              is_found_at_once(check_input, inverse);
    });
    return found;
  };
  const bool found = for_each_part(arguments.list, execution, unscale_all);
  if (found || arguments.reset) write_flag(arguments.found_inf, arguments.found_inf_type, found);
}

}  // namespace twinops
