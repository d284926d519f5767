// Launches the kernel of softmax_grad and log_softmax_grad that softmax/choice.hpp names for a
// call's rows.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/choice.hpp"
#include "kernels_cuda/softmax/grad_block_kernel.cuh"
#include "kernels_cuda/softmax/grad_grid_kernel.cuh"
#include "kernels_cuda/softmax/grad_pair_kernel.cuh"
#include "kernels_cuda/softmax/grad_staged_kernel.cuh"
#include "kernels_cuda/softmax/grad_two_pass_kernel.cuh"
#include "kernels_cuda/softmax/grad_warp_kernel.cuh"

namespace twinops {

// Short unaligned rows by way of shared memory; false if they do not lie side by side. What is read
// and written is aligned alike.
template <bool kLog, class In>
bool launch_staged_grad(const GradParams<In, In>& params, Execution& execution) {
  constexpr int kBytes = 10 * 1024;  // of y and of dy, of a block
  if (!can_be_staged<In>(params.rows)) return false;
  with_staged_shape<Shapes::backward, In>(
      static_cast<int>(params.rows.length), [&]<class S>(TypeTag<S>) {
        launch_staged_rows<S>(grad_staged_kernel<kLog, In, S>, params, 2, kBytes, execution);
      });
  return true;
}

// Launches clusters, with `fetched` bytes of a block's shared memory for chunks; false if the
// device does not hold one.
template <class In, class Kernel, class Params>
bool launch_grad_clusters(Kernel kernel, const Params& params, const ChunkPlan& plan,
                          std::size_t fetched, Execution& execution) {
  const std::size_t shared =
      ClusterScope<compute_t<In>, compute_t<In>>::bytes(plan.chunks) + fetched;
  return launch_clusters(kernel, params, plan, shared, execution);
}

// Bytes of a chunk of y and one of dy for each warp of a block.
template <class In, class S>
constexpr std::size_t fetched_bytes(std::size_t warps) {
  if constexpr (S::kVector == 1)
    return 0;
  else
    return 2 * AsyncChunk<In, S>::bytes(warps);
}

// One block a row, a chunk a warp.
template <bool kLog, class S, class In, class Out>
void launch_grad_block(const GradParams<In, Out>& params, const ChunkPlan& plan,
                       Execution& execution) {
  const auto launch = [&]<int kAxes>(const GradParams<In, Out, kAxes>& it) {
    launch_rows(execution, grad_block_kernel<kLog, In, Out, S, kAxes>, grid_of(params.rows.rows),
                static_cast<unsigned>(plan.warps * kWarp), 0, 1, it);
  };
  if constexpr (S::kUnaligned && sizeof(In) == 2 && std::is_same_v<In, Out>)
    if (params.rows.outer.rank <= 1) return launch(params.in_one_axis());
  launch(params);
}

// One cluster a row, a chunk a warp; false if the device does not hold one.
template <bool kLog, class S, class In, class Out>
bool launch_grad_cluster(const GradParams<In, Out>& params, const ChunkPlan& plan,
                         Execution& execution) {
  const auto warps = static_cast<std::size_t>(plan.warps);
  const std::size_t fetched = kGradBySmem<kLog, In, S> ? fetched_bytes<In, S>(warps) : 0;
  return launch_grad_clusters<In>(grad_cluster_kernel<kLog, In, Out, S>, params, plan, fetched,
                                  execution);
}

// One cluster a row, two chunks a warp; false if the device does not hold one.
template <bool kLog, class S, class In, class Out>
bool launch_grad_cluster_pairs(const GradParams<In, Out>& params, const ChunkPlan& plan,
                               Execution& execution) {
  return launch_grad_clusters<In>(grad_pair_kernel<kLog, In, Out, S>, params, plan,
                                  fetched_bytes<In, S>(static_cast<std::size_t>(plan.warps)),
                                  execution);
}

template <bool kLog, class In, class Out, class S, class Params>
void launch_two_pass_grad(const Params& params, Execution& execution) {
  constexpr std::size_t kFixed = sizeof(TwoPassGradSmem<compute_t<In>>);
  constexpr std::size_t kChunk = 2 * sizeof(In) * kFoldChunk;
  launch_two_pass_rows(grad_two_pass_kernel<kLog, In, Out, S>, params, kFixed, kChunk, execution);
}

// Rows of up to a chunk, in fragments of the lanes of a warp.
template <bool kLog, class In, class Out, class S, class Params>
void launch_grad_warp(const Params& params, Execution& execution) {
  constexpr std::int64_t kRows = kShortThreads / S::kLanes;
  launch_rows(execution, grad_warp_kernel<kLog, In, Out, S>,
              grid_of((params.rows.rows + kRows - 1) / kRows), kShortThreads, 0, 1, params);
}

// Any rows under any mask, in vectors or element by element: there is one kernel for all.
template <bool kLog, class In, class Out>
void launch_general_grad(const SoftmaxGradArguments& a, Execution& execution) {
  using S = ChunkFragment<1, false>;
  const auto params = masked_grad_params<In, Out>(a);
  if (params.rows.length <= kFoldChunk)
    launch_grad_warp<kLog, In, Out, S>(params, execution);
  else
    launch_two_pass_grad<kLog, In, Out, S>(params, execution);
}

// Launches the kernel of a line of softmax_grad_paths() for vectors of V elements (V = 1: element
// by element); false if the device has no room for it, or the rows do not lie as it needs them. a:
// what params are made of.
template <bool kLog, int V, bool kUnaligned, Path kPath, Shapes kShapes, class In, class Out>
bool launch_grad_path(const SoftmaxGradArguments& a, const GradParams<In, Out>& params,
                      Execution& execution) {
  using S = ChunkFragment<V, kUnaligned>;
  constexpr bool kSameType = std::is_same_v<In, Out>;
  constexpr int kWarps = grad_warps(sizeof(In));
  static_assert(V == 1 || kWarps == kGradWarps<In, V>);
  constexpr ClusterWarps kOfBlock = sizeof(In) == 2   ? ClusterWarps{4, 6}
                                    : sizeof(In) == 4 ? ClusterWarps{3, 5}
                                                      : ClusterWarps{4, 4};
  const std::int64_t length = params.rows.length;
  const int device = execution.device.index;
  ChunkPlan plan{};
  if constexpr (kPath == Path::staged) {
    return launch_staged_grad<kLog>(params, execution);
  } else if constexpr (kPath == Path::warp) {
    if constexpr (V == 1)
      launch_general_grad<kLog, In, Out>(a, execution);
    else
      with_lane_shape<kShapes, V, kUnaligned || kShapes == Shapes::coarse>(
          length, [&]<class Short>(TypeTag<Short>) {
            launch_grad_warp<kLog, In, Out, Short>(params, execution);
          });
    return true;
  } else if constexpr (kPath == Path::block) {
    if (!plan_block(length, kWarps, plan)) return false;
    launch_grad_block<kLog, S>(params, plan, execution);
    return true;
  } else if constexpr (kPath == Path::grid) {
    return launch_round_robin<GridGradSmemLayout<kLog, In, S>>(
        params, grad_grid_kernel<kLog, In, Out, S>, execution);
  } else if constexpr (kPath == Path::cluster_pairs) {
    return plan_cluster(length, 2, kOfBlock, kWarps, device, plan) &&
           launch_grad_cluster_pairs<kLog, S>(params, plan, execution);
  } else if constexpr (kPath == Path::cluster) {
    return plan_cluster(length, 1, kOfBlock, kWarps, device, plan) &&
           launch_grad_cluster<kLog, S>(params, plan, execution);
  } else {
    static_assert(kPath == Path::two_pass);
    if constexpr (kSameType && V != 1)
      launch_two_pass_grad<kLog, In, Out, ChunkFragment<V, true>>(params, execution);
    else
      launch_general_grad<kLog, In, Out>(a, execution);
    return true;
  }
}

// Launches the first line that takes the rows.
template <bool kLog, Alignment kAlignment, class In, class Out>
void launch_grad(const SoftmaxGradArguments& a, const GradParams<In, Out>& params,
                 Execution& execution) {
  static constexpr RowTypes kTypes{kTypeOf<In>, kTypeOf<Out>, kAlignment};
  static constexpr PathTable kTable = softmax_grad_paths(kLog, kTypes);
  take_path<kTable.size()>([&]<int kLine>() {
    constexpr PathLine kIt = kTable[kLine];
    return kIt.takes(params.rows.length, kSimpleRows) &&
           launch_grad_path<kLog, kTypes.vector(), kTypes.unaligned(), kIt.path, kIt.shapes>(
               a, params, execution);
  });
}

// Takes rows along up to kKernelAxes axes.
template <bool kLog, class In>
void run_softmax_grad(const SoftmaxGradArguments& a, Execution& execution) {
  if (a.rows.rows == 0 || a.rows.length == 0) return;
  const CurrentDevice current(execution.device.index);
  with_out_type<In>(a.types, [&]<class Out>(TypeTag<Out>) {
    const auto params = grad_params<In, Out>(a);
    const Alignment alignment = grad_alignment(a);
    if (alignment == Alignment::none || !a.mask.is_plain())
      return launch_grad<kLog, Alignment::none>(a, params, execution);
    if constexpr (has_aligned_kernels(kTypeOf<Out>, kTypeOf<In>))
      if (alignment == Alignment::aligned)
        return launch_grad<kLog, Alignment::aligned>(a, params, execution);
    launch_grad<kLog, Alignment::unaligned>(a, params, execution);
  });
}

}  // namespace twinops
