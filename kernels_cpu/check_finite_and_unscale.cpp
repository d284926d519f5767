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

template <class Isa, class T>
bool unscale_stretch(const T* x, T* out, std::int64_t n, double scale, bool check_input) {
  using V = compute_vec<T, Isa>;
  const V inverse(inverse_scale<T>(scale));
  auto found = not_finite<compute_t<T>>(V(compute_t<T>(0)));
  for_each_vector<Isa>(x, out, n, [&](const T* from, T* to) {
    const V value = load<Isa>(from), y = unscale(value, inverse);
    found = found | (check_input ? not_finite<compute_t<T>>(value) : not_finite<T>(y));
    store<Isa>(to, y);
  });
  return xsimd::any(found.m);
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
