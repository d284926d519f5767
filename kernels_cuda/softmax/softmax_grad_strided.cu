// softmax_grad and log_softmax_grad of strided rows: which calls these kernels take, and how they
// are launched.
#include "kernels_cuda/softmax/grad_planes_kernel.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {
namespace {

template <bool kLog, int V, int K, class Params>
bool launch_strided(Params& params, Execution& execution) {
  using F = typename Params::F;
  params.plan =
      plan_strided(params.rows, K, V, sizeof(typename Params::In), execution.device.index);
  const auto kernel = params.plan.chunks == 1 ? grad_strided_kernel<kLog, Params, V, K>
                                              : grad_strided_chunks_kernel<kLog, Params, V, K>;
  return launch_tiles(kernel, params, V, StridedGradSmem<F>::bytes(params.plan, V), execution);
}

// Rows that one warp holds, by way of shared memory; false if they cannot go that way.
template <bool kLog, class Params>
bool launch_planes(Params& params, Execution& execution) {
  using T = typename Params::In;
  constexpr int K = kLog ? 24 : 32, kStep = kLog ? 12 : 16;  // a thread's elements of y and of dy
  constexpr int kOfBlock = 16 * 1024, kMost = 32 * 1024;     // bytes, of each
  if (params.rows.length > K * kWarp ||
      !are_planes<T>(params.rows, kMost, {params.dx, params.y, params.dy}))
    return false;
  params.plan = plan_planes(params.rows, K);
  const int planes = planes_of_block<T>(params.rows, kOfBlock, execution.device.index);
  bool done = false;
  with_strided_registers<K, kStep>(params.plan, params.rows.length,
                                   [&]<int kRegisters>(std::integral_constant<int, kRegisters>) {
                                     done = launch_planes_of(
                                         grad_planes_kernel<kLog, Params, kRegisters>, params,
                                         planes, 2, execution);
                                   });
  return done;
}

// A thread holds 128 bytes of y and dy: four rows wide where they move in vectors.
template <bool kLog, class T>
bool launch_type(const SoftmaxGradArguments& a, Execution& execution) {
  constexpr int V = sizeof(T) == 8 ? 2 : 4;
  constexpr int kVectors = 64 / static_cast<int>(V * sizeof(T));
  constexpr int kSingle = 64 / static_cast<int>(sizeof(compute_t<T>));
  StridedGradParams<T, T> params{static_cast<const T*>(a.y),
                                 static_cast<const T*>(a.dy),
                                 static_cast<T*>(a.dx),
                                 in_axes<kKernelAxes>(a.rows),
                                 {},
                                 static_cast<compute_t<T>>(a.scale)};
  if (moves_in_vectors<3>(a.rows, {{a.dx, sizeof(T)}, {a.y, sizeof(T)}, {a.dy, sizeof(T)}}, V))
    return launch_strided<kLog, V, kVectors>(params, execution);
  if constexpr (sizeof(T) < 8)
    if (launch_planes<kLog>(params, execution)) return true;
  return launch_strided<kLog, 1, kSingle>(params, execution);
}

}  // namespace

template <>
bool run_softmax_grad_strided<TWINOPS_ELEMENT>(bool log, const SoftmaxGradArguments& a,
                                               Execution& execution) {
  if (!a.mask.is_plain() || !is_strided_call(a.rows, a.types)) return false;
  const CurrentDevice current(execution.device.index);
  return log ? launch_type<true, TWINOPS_ELEMENT>(a, execution)
             : launch_type<false, TWINOPS_ELEMENT>(a, execution);
}

}  // namespace twinops
