#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/loss_scaling/for_each_element.hpp"
#include "kernels_cpu/loss_scaling/scalars.hpp"
#include "numerics/unscale.hpp"
#include "operators/check_finite_and_unscale.hpp"

namespace twinops {

template <>
void run_reference<CheckFiniteAndUnscale>(const CheckFiniteAndUnscale::Arguments& arguments,
                                          Execution&) {
  const double scale = read_scale(arguments.scale, arguments.scale_type);
  bool found = false;
  for_each_element(arguments.list, [&]<class T>(const T& x, T& out) {
    const auto value = widen(x), inverse = inverse_scale<T>(scale);
    out = narrow<T>(unscale(value, inverse));
    found |= is_found_at_once(arguments.check_input, inverse) ||
             !is_finite<compute_t<T>>(arguments.check_input ? value : widen(out));
  });
  if (found || arguments.reset) write_flag(arguments.found_inf, arguments.found_inf_type, found);
}

}  // namespace twinops
