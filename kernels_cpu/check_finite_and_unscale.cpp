// Memory: each element is read once and written once. Order: none; whether anything was found is an
// OR.
#include "operators/check_finite_and_unscale.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/scalars.hpp"
#include "kernels_cpu/stretches.hpp"
#include "kernels_cpu/vec.hpp"
#include "numerics/unscale.hpp"

namespace twinops {
namespace {

constexpr int kBlock = 4;  // vectors that one look for NaN serves

// Returns whether a value was found that is not finite.
template <class Isa, class T>
bool unscale_stretch(const T* x, T* out, std::int64_t n, double scale, bool check_input) {
  using V = compute_vec<T, Isa>;
  using F = compute_t<T>;
  constexpr std::int64_t kStep = std::int64_t{kBlock} * V::kLanes;
  const V inverse(inverse_scale<T>(scale));
  auto all_finite = is_finite<F>(V(F(0)));
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
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
  const bool found = for_each_stretch(arguments.list, execution, [&](const Stretch& s) {
    bool found_here = false;
    with_floating_type(s.type, [&]<class T>(TypeTag<T>) {
      found_here =
          unscale_stretch<isa::TWINOPS_ISA>(static_cast<const T*>(s.x), static_cast<T*>(s.out),
                                            s.elements, scale, arguments.check_input);
    });
    return found_here;
  });
  if (found || arguments.reset) write_flag(arguments.found_inf, arguments.found_inf_type, found);
}

}  // namespace twinops
