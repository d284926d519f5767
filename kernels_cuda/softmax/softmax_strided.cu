// softmax and log_softmax of strided rows: which calls these kernels take, and how they are
// launched.
#include "kernels_cuda/softmax/planes_kernel.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {
namespace {

// Rows of up to a chunk. A thread holds K elements of each of V rows, or as few of them as will do,
// in steps of kStep.
template <bool kLog, int V, int K, int kStep, class Params>
bool launch_one_chunk(Params& params, Execution& execution) {
  using F = typename Params::F;
  constexpr bool kMany = kHoldsMany<F, V * K>;
  params.plan =
      plan_strided<kMany>(params.rows, K, V, sizeof(typename Params::In), execution.device.index);
  const std::size_t shared = StridedSoftmaxSmem<F>::bytes(params.plan, V);
  bool done = false;
  with_strided_registers<K, kStep>(
      params.plan, params.rows.length,
      [&]<int kRegisters>(std::integral_constant<int, kRegisters>) {
        done = launch_tiles(softmax_strided_kernel<kLog, Params, V, kRegisters, kStep, kMany>,
                            params, V, shared, execution);
      });
  return done;
}
template <bool kLog, int V, int K, class Params>
bool launch_chunks(Params& params, Execution& execution) {
  using F = typename Params::F;
  constexpr bool kMany = kHoldsMany<F, V * K>;
  params.plan =
      plan_strided<kMany>(params.rows, K, V, sizeof(typename Params::In), execution.device.index);
  return launch_tiles(softmax_strided_chunks_kernel<kLog, Params, V, K, kMany>, params, V,
                      StridedSoftmaxSmem<F>::bytes(params.plan, V), execution);
}

// Rows of up to a chunk by way of shared memory; false if they cannot go that way.
template <bool kLog, class Params>
bool launch_planes(Params& params, Execution& execution) {
  using T = typename Params::In;
  constexpr int K = 40, kStep = 20;  // a thread's elements
  constexpr int kOfBlock = (sizeof(T) == 2 ? 24 : 20) * 1024, kMost = 32 * 1024;  // bytes
  if (!are_planes<T>(params.rows, kMost, {params.out, params.x})) return false;
  params.plan = plan_planes(params.rows, K);
  const int planes = planes_of_block<T>(params.rows, kOfBlock, execution.device.index);
  bool done = false;
  with_strided_registers<K, kStep>(params.plan, params.rows.length,
                                   [&]<int kRegisters>(std::integral_constant<int, kRegisters>) {
                                     done = launch_planes_of(
                                         softmax_planes_kernel<kLog, Params, kRegisters, kStep>,
                                         params, planes, 1, execution);
                                   });
  return done;
}

template <bool kLog, class T>
bool launch_type(const SoftmaxArguments& a, Execution& execution) {
  StridedSoftmaxParams<T, T> params{static_cast<const T*>(a.x),
                                    static_cast<T*>(a.out),
                                    in_axes<kKernelAxes>(a.rows),
                                    {},
                                    a.masked_is_zero};
  const auto as_one = [&](int V) {
    return moves_in_vectors<2>(a.rows, {{a.out, sizeof(T)}, {a.x, sizeof(T)}}, V);
  };
  constexpr int kSingle = sizeof(T) == 8 ? 16 : sizeof(T) == 4 ? 32 : 64;
  constexpr int kPair = sizeof(T) == 8 ? 8 : 32;
  if (a.rows.length > kFoldChunk) {
    if constexpr (sizeof(T) < 8)
      if (as_one(2)) return launch_chunks<kLog, 2, kPair>(params, execution);
    return launch_chunks<kLog, 1, kSingle>(params, execution);
  }
  if constexpr (sizeof(T) == 8) {  // steps cost code: none where it is slow anyway
    return as_one(2) ? launch_one_chunk<kLog, 2, kPair, kPair>(params, execution)
                     : launch_one_chunk<kLog, 1, kSingle, kSingle>(params, execution);
  } else {
    if ((sizeof(T) == 4 || a.rows.length <= 8) && as_one(4))
      return launch_one_chunk<kLog, 4, 8, 4>(params, execution);
    if constexpr (sizeof(T) == 2)
      if (as_one(2)) return launch_one_chunk<kLog, 2, kPair, 16>(params, execution);
    if (launch_planes<kLog>(params, execution)) return true;
    return launch_one_chunk<kLog, 1, kSingle, kSingle / 2>(params, execution);
  }
}

}  // namespace

template <>
bool run_softmax_strided<TWINOPS_ELEMENT>(bool log, const SoftmaxArguments& a,
                                          Execution& execution) {
  if (!a.is_plain() || !is_strided_call(a.rows, a.types)) return false;
  const CurrentDevice current(execution.device.index);
  return log ? launch_type<true, TWINOPS_ELEMENT>(a, execution)
             : launch_type<false, TWINOPS_ELEMENT>(a, execution);
}

}  // namespace twinops
