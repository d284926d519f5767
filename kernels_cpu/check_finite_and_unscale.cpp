// Memory: each element is read once and written once. Order: none; whether anything was found is an
// OR. Values wait in registers for one look at a block of them, at their sum or that of their
// squares: where that is finite, as nearly always, so are they, and none needs the canonical NaN.
// All else is a function of its own, whose registers the loop would miss (65 536 floats in L2 of a
// Zen 3 6.9 us in place of 9.8). Two vectors of bfloat16 lie in one of words, and no lane is moved.
//
// Elements of 16 bits take so long that the processor alone does not look far enough ahead: lines 2
// kB further on are fetched. There, 2^24 of float16 from memory, share of a scale loop: without
// 0.73, lines 512 bytes further on 0.81, 1 kB 0.90, 2 kB 1.00, 4 kB 0.94; where all lies in the
// caches it costs 0.03.
//
// Tried and left, there: the same for wider elements (307 200 floats from L3 a twentieth slower);
// the first lines of the page behind where a page begins (in a loop of its own 30 us in place of
// 25); the start of every next stretch, also of one that begins where this one ends (300 of 1000
// floats a twentieth to a fifth slower). On a Zen 5: blocks in a function of their own, whatever is
// behind them in another (1000 halves a tenth slower); sums of sizes (three instructions more of 19
// for four vectors), a sum of halves by pairs throughout (16 bits a twentieth slower), all values
// times 0 added up and looked at once, so that no block has a branch (300 x 1024 floats in the
// caches 15 to 19 us).
#include "operators/check_finite_and_unscale.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/scalars.hpp"
#include "kernels_cpu/stretches.hpp"
#include "kernels_cpu/vec.hpp"
#include "numerics/unscale.hpp"

namespace twinops {
namespace {

// Vectors of V that are looked at together. Eight of AVX-512 were a tenth slower than four where
// tensors are short (20 000 of 256 floats, Zen 5).
template <class V>
constexpr int kBlock = sizeof(V) < 64 ? 8 : 4;

// Fetches the first lines of the stretch behind, where the processor will not guess them: unless it
// begins near the end of this one.
template <class T>
TWINOPS_INLINE void fetch_start(const Stretch& behind, const T* end) {
  constexpr std::uintptr_t kNear = 1024, kLine = 64, kFirst = 4 * kLine;  // bytes
  const auto start = reinterpret_cast<std::uintptr_t>(behind.x);
  if (start - reinterpret_cast<std::uintptr_t>(end) < kNear) return;
  if (static_cast<std::uintptr_t>(behind.elements) * sizeof(T) < kFirst) return;
  for (std::uintptr_t b = 0; b < kFirst; b += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(start + b));
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
  for_each_vector<Isa>(x, out, n, [&](const T* from, T* to) {
    const V value = load<Isa>(from), y = unscale(value, inverse);
    all_finite = all_finite & (check_input ? is_finite<F>(value) : is_finite<T>(y));
    store<Isa>(to, y);
  });
  return !xsimd::all(all_finite.m);
}
// Not inlined: it is rare, and would take registers from the loop that calls it.
template <class Isa, class T>
[[gnu::noinline]] bool unscale_block(const T* x, T* out, compute_t<T> inverse, bool check_input) {
  using V = compute_vec<T, Isa>;
  return unscale_vectors<Isa>(x, out, kBlock<V> * V::kLanes, V(inverse), check_input);
}

// Returns whether a value was found that is not finite. kInPlace: every stretch is its own output.
// The stretch behind is in registers before this one is worked on: a load waits for older stores
// with the same low 12 bits, as some of 4 kB always have, and they wait for memory (300 x 1024
// floats from there, AVX-512 on a Zen 5: 52 to 47 us). One more pointer would take such a register.
template <class Isa, class T, bool kInPlace>
bool unscale_stretches(const Stretches& stretches, compute_t<T> inverse_scale, bool check_input) {
  using V = compute_vec<T, Isa>;
  constexpr std::int64_t kStep = std::int64_t{kBlock<V>} * V::kLanes;
  const V inverse(inverse_scale);
  bool found = false;
  const Stretch *s = stretches.first, *const last = s + stretches.count - 1;
  Stretch behind = *s;
  for (; s <= last; ++s) {
    const Stretch stretch = behind;
    const T* x = static_cast<const T*>(stretch.x);
    T* out = static_cast<T*>(kInPlace ? const_cast<void*>(stretch.x) : stretch.out);
    const T* const end = x + stretch.elements;
    if (s != last) {
      behind = s[1];
      fetch_start(behind, end);
    }
    for (; end - x >= kStep; x += kStep, out += kStep) {
      if constexpr (sizeof(T) == 2) fetch_ahead<kStep>(x, end - x);
      V y[kBlock<V>];
      for (int k = 0; k < kBlock<V>; k += 2) {
        load_two<Isa>(x + k * V::kLanes, y[k], y[k + 1]);
        for (V* const v : {y + k, y + k + 1}) *v = unscale(*v, inverse);
      }
      // Nearly always; then what was read was finite too, and there is no NaN to make canonical.
      if (xsimd::all(are_surely_finite<T>(y).m)) [[likely]] {
        for (int k = 0; k < kBlock<V>; k += 2)
          store_two_numbers<Isa>(out + k * V::kLanes, y[k], y[k + 1]);
      } else {
        found |= unscale_block<Isa>(x, out, inverse_scale, check_input);
      }
    }
    if (x != end) found |= unscale_vectors<Isa>(x, out, end - x, inverse, check_input);
  }
  return found;
}

}  // namespace

template <>
void run_cpu<CheckFiniteAndUnscale, isa::TWINOPS_ISA>(
    const CheckFiniteAndUnscale::Arguments& arguments, Execution& execution) {
  const double scale = read_scale(arguments.scale, arguments.scale_type);
  // One division for the call, not one for each of many small tensors.
  const auto inverse_float = inverse_scale<float>(scale);
  const auto inverse_double = inverse_scale<double>(scale);
  const auto unscale_all = [inverse_float, inverse_double, check_input = arguments.check_input,
                            in_place = arguments.list.in_place()](const Stretches& stretches) {
    bool found = false;
    with_floating_type(stretches.type, [&]<class T>(TypeTag<T>) {
      compute_t<T> inverse;
      if constexpr (std::is_same_v<compute_t<T>, double>)
        inverse = inverse_double;
      else
        inverse = inverse_float;
      const auto unscale_these = in_place ? unscale_stretches<isa::TWINOPS_ISA, T, true>
                                          : unscale_stretches<isa::TWINOPS_ISA, T, false>;
      found = unscale_these(stretches, inverse, check_input);
    });
    return found;
  };
  const bool found = for_each_stretch(arguments.list, execution, unscale_all);
  if (found || arguments.reset) write_flag(arguments.found_inf, arguments.found_inf_type, found);
}

}  // namespace twinops
