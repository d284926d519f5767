// Memory: each element is read once and written once. Order: none; whether anything was found is an
// OR. Values wait in registers for one look at a block of them, at the sum of their sizes: where
// that is finite, as nearly always, so are they, and none needs the canonical NaN. The processor's
// own prefetch ends with each page, and a small tensor is one: so where a page begins, the first
// lines a page ahead are fetched, of this stretch or the next. (Never of what lies behind: it may
// be another thread's.) Elements of 16 bits take long enough for every line a page ahead. Tried and
// left: that for wider ones as well (on Zen 4 307 200 floats from L3 0.79 of a scale loop in place
// of 0.95, 2^25 of them 0.90 in place of 0.97); squares in place of sizes (float16 a tenth faster
// where all lies in L2, by fused multiply-adds, which SSE2 has not).
#include "operators/check_finite_and_unscale.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/scalars.hpp"
#include "kernels_cpu/stretches.hpp"
#include "kernels_cpu/vec.hpp"
#include "numerics/unscale.hpp"

namespace twinops {
namespace {

constexpr int kBlock = 4;                           // vectors
constexpr std::uintptr_t kPage = 4096, kLine = 64;  // bytes
constexpr int kFirstLines = 4;

// Fetches the first lines, or the next step's, of what is a page behind x[i] on the walk over x[n]
// and then `next`.
template <bool kEveryLine, std::uintptr_t kStep, class T>
TWINOPS_INLINE void fetch_a_page_ahead(const T* x, std::int64_t i, std::int64_t n, const T* next) {
  constexpr std::uintptr_t kSize = sizeof(T);
  const auto address = [](const T* p) { return reinterpret_cast<std::uintptr_t>(p); };
  if (!kEveryLine && address(x + i) % kPage >= kStep * kSize) return;
  const auto j = i + static_cast<std::int64_t>(kPage / kSize);
  const std::uintptr_t ahead = j < n ? address(x + j) : address(next) + (j - n) * kSize;
  for (std::uintptr_t b = 0; b < (kEveryLine ? kStep * kSize : kFirstLines * kLine); b += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(ahead + b));
}

// Returns whether a value was found that is not finite.
template <class Isa, class T>
bool unscale_stretch(const T* x, T* out, std::int64_t n, const T* next, compute_t<T> inverse_scale,
                     bool check_input) {
  using V = compute_vec<T, Isa>;
  using F = compute_t<T>;
  constexpr std::int64_t kStep = std::int64_t{kBlock} * V::kLanes;
  const V inverse(inverse_scale);
  auto all_finite = is_finite<F>(V(F(0)));
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    fetch_a_page_ahead<sizeof(T) == 2, kStep>(x, i, n, next);
    V value[kBlock], y[kBlock];
    for (int k = 0; k < kBlock; ++k) {
      value[k] = load<Isa>(x + i + k * V::kLanes);
      y[k] = unscale(value[k], inverse);
    }
    // Nearly always; then what was read was finite too, and there is no NaN to make canonical.
    if (xsimd::all(is_finite<T>(sum_of_sizes(y[0], y[1], y[2], y[3])).m)) {
      for (int k = 0; k < kBlock; ++k) store_canonical<Isa>(out + i + k * V::kLanes, y[k]);
      continue;
    }
    for (int k = 0; k < kBlock; ++k) {
      all_finite = all_finite & (check_input ? is_finite<F>(value[k]) : is_finite<T>(y[k]));
      store<Isa>(out + i + k * V::kLanes, y[k]);
    }
  }
  for_each_vector<Isa>(x + i, out + i, n - i, [&](const T* from, T* to) {
    const V value = load<Isa>(from), y = unscale(value, inverse);
    all_finite = all_finite & (check_input ? is_finite<F>(value) : is_finite<T>(y));
    store<Isa>(to, y);
  });
  return !xsimd::all(all_finite.m);
}

}  // namespace

template <>
void run_cpu<CheckFiniteAndUnscale, isa::TWINOPS_ISA>(
    const CheckFiniteAndUnscale::Arguments& arguments, Execution& execution) {
  const double scale = read_scale(arguments.scale, arguments.scale_type);
  // One division for the call, not one for each of many small tensors.
  const auto inverse_float = inverse_scale<float>(scale);
  const auto inverse_double = inverse_scale<double>(scale);
  const bool found = for_each_stretch(arguments.list, execution, [&](const Stretch& s) {
    bool found_here = false;
    with_floating_type(s.type, [&]<class T>(TypeTag<T>) {
      compute_t<T> inverse;
      if constexpr (std::is_same_v<compute_t<T>, double>)
        inverse = inverse_double;
      else
        inverse = inverse_float;
      found_here = unscale_stretch<isa::TWINOPS_ISA>(
          static_cast<const T*>(s.x), static_cast<T*>(s.out), s.elements,
          static_cast<const T*>(s.next), inverse, arguments.check_input);
    });
    return found_here;
  });
  if (found || arguments.reset) write_flag(arguments.found_inf, arguments.found_inf_type, found);
}

}  // namespace twinops
