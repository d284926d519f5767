// Memory: each element is read once and written once. Order: none; whether anything was found is an
// OR. Values wait in registers for one look at a block of them: where all are finite, as nearly
// always, none needs the canonical NaN. A page ahead is fetched, because the processor's own
// prefetch ends with each page, and a small tensor is one: 300 tensors of 1024 floats came a tenth
// faster from L3, one large tensor too.
#include "operators/check_finite_and_unscale.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/scalars.hpp"
#include "kernels_cpu/stretches.hpp"
#include "kernels_cpu/vec.hpp"
#include "numerics/unscale.hpp"

namespace twinops {
namespace {

constexpr int kBlock = 4;             // vectors
constexpr std::size_t kAhead = 4096;  // bytes

// Returns whether a value was found that is not finite.
template <class Isa, class T>
bool unscale_stretch(const T* x, T* out, std::int64_t n, compute_t<T> inverse_scale,
                     bool check_input) {
  using V = compute_vec<T, Isa>;
  using F = compute_t<T>;
  constexpr std::int64_t kStep = std::int64_t{kBlock} * V::kLanes;
  const V inverse(inverse_scale);
  auto all_finite = is_finite<F>(V(F(0)));
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (std::size_t b = 0; b < kStep * sizeof(T); b += 64)  // may lie beyond any memory of ours
      __builtin_prefetch(reinterpret_cast<const char*>(x + i) + kAhead + b);
    V value[kBlock], y[kBlock];
    auto finite = is_finite<F>(V(F(0)));
    for (int k = 0; k < kBlock; ++k) {
      value[k] = load<Isa>(x + i + k * V::kLanes);
      y[k] = unscale(value[k], inverse);
      finite = finite & is_finite<T>(y[k]);
    }
    if (check_input)
      for (int k = 0; k < kBlock; ++k) all_finite = all_finite & is_finite<F>(value[k]);
    else
      all_finite = all_finite & finite;
    if (xsimd::all(finite.m)) {  // nearly always; then there is no NaN to make canonical
      for (int k = 0; k < kBlock; ++k) store_canonical<Isa>(out + i + k * V::kLanes, y[k]);
    } else {
      for (int k = 0; k < kBlock; ++k) store<Isa>(out + i + k * V::kLanes, y[k]);
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
      found_here =
          unscale_stretch<isa::TWINOPS_ISA>(static_cast<const T*>(s.x), static_cast<T*>(s.out),
                                            s.elements, inverse, arguments.check_input);
    });
    return found_here;
  });
  if (found || arguments.reset) write_flag(arguments.found_inf, arguments.found_inf_type, found);
}

}  // namespace twinops
