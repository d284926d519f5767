// Memory: each element is read once and written once. Order: none; whether anything was found is an
// OR. A sum of numbers that is finite, as nearly always, says that they all are, and that none need
// become the canonical NaN: one check for many. Results are stored as they come, and checked when
// some thousand are: 300 x 1024 floats in the caches of a Zen 4 take 13.8 us, a loop that only
// scales 13.2. Checked in blocks that wait in registers, as where what was read must be finite (in
// place it is not to be had again), they take 14.3; on a Xeon float16 20.0 in place of 18.0
// (AVX-512) and 21.8 in place of 20.6 (AVX2), bfloat16 25.4 and 22.6, 29.3 and 27.7, but members of
// 100, and float16 with SSE2, up to 0.04 less. What is rare is a function of its own, whose
// registers the loop would miss (in L2 of a Zen 3 9.8 us for 65 536 floats, in place of 6.9).
//
// Elements of 16 bits take so long that the processor alone does not look far enough ahead: lines 2
// kB further on are fetched. There, 2^24 of float16 from memory, share of a scale loop: without
// 0.73, lines 512 bytes further on 0.81, 1 kB 0.90, 2 kB 1.00, 4 kB 0.94; where all lies in the
// caches it costs 0.03.
//
// Tried and left, there: the same for wider elements (307 200 floats from L3 a twentieth slower);
// the first lines of the page behind where a page begins (in a loop of its own 30 us in place of
// 25); the start of every next run, also of one that begins where this one ends (300 of 1000 floats
// a twentieth to a fifth slower). On a Zen 5: blocks in a function of their own, whatever is behind
// them in another (1000 halves a tenth slower); sums of sizes (three instructions more of 19 for
// four vectors), a sum of halves by pairs throughout (16 bits a twentieth slower), one sum of all
// values times 0 (300 x 1024 floats in the caches 15 to 19 us). On a Zen 4: four lines of the run
// behind in place of two (0.3 us of 14), none (L2 flushed 24 in place of 21); each tensor's first
// lines fetched while descriptions are read (L2 flushed 24.5 to 23.5 us, but two threads 14 to 52:
// they come to the wrong one); the code that a call runs through fetched at its beginning (2 us
// gained and 2 lost); floats in pairs (a fiftieth lost); 16 bits checked as stored, at the
// greatest of their words without the sign (a loop alone 20 to 22 us, the sum of squares 16 to 20).
// On a Xeon: 16 bits in pairs in place of fours (up to a twentieth lost), in steps of four vectors
// of AVX2 in place of eight (300 x 1024 up to 0.07 slower, members of 100 a tenth faster).
#include "operators/check_finite_and_unscale.hpp"

#include <limits>

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/loss_scaling/multi_tensor_parts.hpp"
#include "kernels_cpu/loss_scaling/scalars.hpp"
#include "kernels_cpu/simd/partial_vector.hpp"
#include "numerics/unscale.hpp"

namespace twinops {
namespace {

// Vectors of V in a block, and of 16 bits in a step. Eight of AVX-512 were a tenth slower than four
// where tensors are short (20 000 of 256 floats, Zen 5).
template <class V>
constexpr int kBlock = sizeof(V) < 64 ? 8 : 4;

// Fetches the first lines of the run behind, where the processor will not guess them: unless it
// begins near the end of this one.
TWINOPS_INLINE void fetch_start(const char* behind, std::int64_t bytes, const void* end) {
  constexpr std::int64_t kNear = 1024, kLine = 64, kFirst = 2 * kLine;  // bytes
  const auto distance =
      reinterpret_cast<std::uintptr_t>(behind) - reinterpret_cast<std::uintptr_t>(end);
  if (distance < kNear || bytes < kFirst) return;
  for (std::int64_t b = 0; b < kFirst; b += kLine) __builtin_prefetch(behind + b);
}

// Fetches what a step will read some steps on, if the n elements from x on reach as far.
template <std::int64_t kStep, class T>
TWINOPS_INLINE void fetch_ahead(const T* x, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T), kAhead = 2048 / sizeof(T);
  if (n < kAhead + kStep) return;
  for (std::int64_t i = 0; i < kStep; i += kLine) __builtin_prefetch(x + kAhead + i);
}

// Any values. Returns whether one was found that is not finite.
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

// n vectors of consecutive elements, as load_two orders them: no lane of a bfloat16 is moved.
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

// What was read must be finite: a block is checked before it is stored.
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
    // Nearly always; then what was read was finite too, and there is no NaN to make canonical.
    if (xsimd::all(are_surely_finite<T>(sum[0] + sum[1]).m)) [[likely]] {
      store_all<Isa>(out, y);
    } else {
      found |= unscale_block<Isa>(x, out, inverse_scale);
    }
  }
  return found;
}

// Of results that were stored as they came: makes a NaN the canonical one. Returns whether one was
// found that is not finite.
template <class Isa, class T>
[[gnu::noinline]] bool mend(T* out, std::int64_t n) {
  using V = compute_vec<T, Isa>;
  return unscale_vectors<Isa>(out, out, n, V(1), false);
}

// Results are stored as they come, and checked when some thousand of them are, at their sums: what
// is not finite as computed is not as stored.
template <class Isa, class T>
TWINOPS_INLINE bool unscale_then_check(const T*& x, T*& out, const T* end,
                                       compute_t<T> inverse_scale) {
  using V = compute_vec<T, Isa>;
  using F = compute_t<T>;
  // kTogether are loaded before one is stored.
  constexpr int kSums = 4, kTogether = sizeof(T) == 2 ? kSums : 1;
  constexpr int kStepVectors = sizeof(T) == 2 ? kBlock<V> : kSums;
  constexpr std::int64_t kStep = std::int64_t{kStepVectors} * V::kLanes;
  // Of squares so few that those of ordinary halves stay below an overflow's.
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

// Returns whether a value was found that is not finite. kInPlace: every member is its own output.
// The run behind is in registers before this one is worked on: a load waits for older stores with
// the same low 12 bits, as some of 4 kB always have, and they wait for memory (300 x 1024 floats
// from there, AVX-512 on a Zen 5: 52 to 47 us). One more pointer would take such a register.
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
  // Results are stored before they are checked, and a NaN must still be one as a bfloat16: this
  // one's lower bits are 0, so that no rounding carries into its sign.
  if (scale != scale) scale = std::numeric_limits<double>::quiet_NaN();
  // One division for the call, not one for each of many small tensors.
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
      found = unscale_part<isa::TWINOPS_ISA, T>(part, inverse, check_input);
    });
    return found;
  };
  const bool found = for_each_part(arguments.list, execution, unscale_all);
  if (found || arguments.reset) write_flag(arguments.found_inf, arguments.found_inf_type, found);
}

}  // namespace twinops
