#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/loss_scaling/for_each_element.hpp"
#include "kernels_cpu/loss_scaling/loss_scale.hpp"
#include "kernels_cpu/loss_scaling/scalars.hpp"

namespace twinops {
namespace {

template <class F>
void step(const UpdateLossScaling::Arguments& a, bool found) {
  LossScale<F> s{*static_cast<const F*>(a.scale), *a.good_steps, *a.bad_steps};
  if (!a.stop_update) s = next_loss_scale(s, found, a.rule);
  *static_cast<F*>(a.scale_out) = s.scale;
  *a.good_steps_out = s.good_steps;
  *a.bad_steps_out = s.bad_steps;
}

}  // namespace

bool update_loss_scale(const UpdateLossScaling::Arguments& arguments) {
  const bool found = read_flag(arguments.found_inf, arguments.found_inf_type);
  if (arguments.scale_type == Type::float64)
    step<double>(arguments, found);
  else
    step<float>(arguments, found);
  return found;
}

template <>
void run_reference<UpdateLossScaling>(const UpdateLossScaling::Arguments& arguments, Execution&) {
  const bool found = update_loss_scale(arguments);
  for_each_element(arguments.list, [&]<class T>(const T& x, T& out) { out = found ? T{} : x; });
}

}  // namespace twinops
