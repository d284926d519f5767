// Memory: each element is read once and written once, 16 bytes an access. Nothing is added up.
// There is one launch for each element type and nothing else, so a captured graph reads `scale`
// anew.
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/loss_scaling/multi_tensor_launch.cuh"
#include "kernels_cuda/loss_scaling/scalars.cuh"
#include "numerics/unscale.hpp"
#include "operators/check_finite_and_unscale.hpp"

namespace twinops {
namespace {

template <class T>
struct UnscaleBody {
  DeviceScale scale;
  DeviceFlag found_inf;
  bool check_input;

  struct State {
    DeviceScale::Bits scale;
    compute_t<T> inverse;
    bool found;
  };
  __device__ State begin() const { return {scale.read(), 0, false}; }
  __device__ void prepare(State& state) const {
    state.inverse = scale.inverse<T>(state.scale);
    state.found = is_found_at_once(check_input, state.inverse);
  }
  __device__ bool idle(const State&) const { return false; }
  __device__ bool reads(const State&) const { return true; }
  __device__ T element(State& state, T x) const {
    const auto value = widen(x), y = unscale(value, state.inverse);
    state.found |= !(check_input ? is_finite<compute_t<T>>(value) : is_finite<T>(y));
    return narrow<T>(y);
  }
  __device__ void end(const State& state) const {
    if (state.found) found_inf.set();
  }
};

}  // namespace

template <>
void run_cuda<CheckFiniteAndUnscale>(const CheckFiniteAndUnscale::Arguments& a,
                                     Execution& execution) {
  const CurrentDevice current(execution.device.index);
  if (a.reset)
    check(cudaMemsetAsync(a.found_inf, 0, size_of(a.found_inf_type),
                          static_cast<cudaStream_t>(execution.stream)),
          "cudaMemsetAsync");
  launch_multi_tensor(a.list, execution, [&]<class T>(TypeTag<T>) {
    return UnscaleBody<T>{DeviceScale(a.scale, a.scale_type),
                          DeviceFlag(a.found_inf, a.found_inf_type), a.check_input};
  });
}

}  // namespace twinops
