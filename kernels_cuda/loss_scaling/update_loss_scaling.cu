// Memory: where a value was not finite, each element is written once. Otherwise each is read and
// written once, or, in place, not touched. One thread of the first launch steps the state.
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/loss_scaling/multi_tensor_launch.cuh"
#include "kernels_cuda/loss_scaling/scalars.cuh"
#include "operators/update_loss_scaling.hpp"

namespace twinops {
namespace {

// The state's pointers; `scale` is nullptr in every launch but the first.
struct StepState {
  DeviceFlag found_inf;
  bool scale_is_double, stop_update;
  const void* scale;
  const std::int32_t *good_steps, *bad_steps;
  void* scale_out;
  std::int32_t *good_steps_out, *bad_steps_out;
  LossScaleRule rule;

  template <class F>
  __device__ void step_as(bool found) const {
    LossScale<F> s{*static_cast<const F*>(scale), *good_steps, *bad_steps};
    if (!stop_update) s = next_loss_scale(s, found, rule);
    *static_cast<F*>(scale_out) = s.scale;
    *good_steps_out = s.good_steps;
    *bad_steps_out = s.bad_steps;
  }
  __device__ void step(bool found) const {
    if (scale_is_double)
      step_as<double>(found);
    else
      step_as<float>(found);
  }
};

template <class T>
struct ZeroBody {
  StepState state;
  bool in_place;  // all tensors: then a finite step touches nothing

  struct State {
    bool found;
  };
  __device__ State begin() const {
    const bool found = state.found_inf.read();
    if (state.scale != nullptr && blockIdx.x == 0 && threadIdx.x == 0) state.step(found);
    return {found};
  }
  __device__ bool idle(const State& s) const { return in_place && !s.found; }
  __device__ void prepare(State&) const {}
  __device__ bool reads(const State& s) const { return !s.found; }
  __device__ T element(const State& s, T x) const { return s.found ? T{} : x; }
  __device__ void end(const State&) const {}
};

__global__ void step_kernel(const __grid_constant__ StepState state) {
  state.step(state.found_inf.read());
}

}  // namespace

template <>
void run_cuda<UpdateLossScaling>(const UpdateLossScaling::Arguments& a, Execution& execution) {
  const CurrentDevice current(execution.device.index);
  StepState state{DeviceFlag(a.found_inf, a.found_inf_type),
                  a.scale_type == Type::float64,
                  a.stop_update,
                  a.scale,
                  a.good_steps,
                  a.bad_steps,
                  a.scale_out,
                  a.good_steps_out,
                  a.bad_steps_out,
                  a.rule};
  launch_multi_tensor(a.list, execution, [&]<class T>(TypeTag<T>) {
    const ZeroBody<T> body{state, a.list.in_place()};
    state.scale = nullptr;
    return body;
  });
  if (state.scale == nullptr) return;
  launch_grid("launch of the loss scale's step", step_kernel, 1, 1, 0, execution.stream, state);
  ++execution.launches;
}

}  // namespace twinops
