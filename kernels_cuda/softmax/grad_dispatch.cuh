// Chooses the kernel of softmax_grad and log_softmax_grad for a call, by the length of its rows and
// where they lie. The limits were measured: docs/lab/softmax-grad-kernels.md.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/broadcast_sums.hpp"
#include "kernels_cuda/softmax/combined_mask.hpp"
#include "kernels_cuda/softmax/grad_block_kernel.cuh"
#include "kernels_cuda/softmax/grad_grid_kernel.cuh"
#include "kernels_cuda/softmax/grad_pair_kernel.cuh"
#include "kernels_cuda/softmax/grad_staged_kernel.cuh"
#include "kernels_cuda/softmax/grad_two_pass_kernel.cuh"
#include "kernels_cuda/softmax/grad_warp_kernel.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

// Short unaligned rows by way of shared memory; false if they are too long for that, or do not lie
// side by side. What is read and written is aligned alike.
template <bool kLog, class In>
bool launch_staged_grad(const GradParams<In, In>& params, Execution& execution) {
  constexpr int kBytes = 10 * 1024;  // of y and of dy, of a block
  if (params.rows.length > most_staged_elements<Shapes::backward, In>() ||
      !can_be_staged<In>(params.rows))
    return false;
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

// The grid kernel; false if it cannot take the rows. Not for float32's softmax_grad: a
// multiprocessor's shared memory holds too few of its chunks.
template <bool kLog, class S, class In, class Out>
bool launch_grid_grad(const GradParams<In, Out>& params, Execution& execution) {
  if constexpr (kLog || sizeof(In) == 2)
    return launch_round_robin<GridGradSmemLayout<kLog, In, S>>(
        params, grad_grid_kernel<kLog, In, Out, S>, execution);
  else
    return false;
}

// Chunks of a row up to which clusters do as well as the grid kernel
// (docs/lab/softmax-grad-kernels.md#where-clusters-end).
template <bool kLog, bool kUnaligned, class In>
inline constexpr std::int64_t kMostOfClusters = kUnaligned
                                                    ? (kLog || std::is_same_v<In, float16> ? 80
                                                       : sizeof(In) == 2                   ? 96
                                                                                           : 256)
                                                    : (kLog              ? 256
                                                       : sizeof(In) == 2 ? 384
                                                                         : 320);

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

// Any rows under any mask, element by element: slow, but there is one kernel for all.
template <bool kLog, class In, class Out>
void launch_general_grad(const SoftmaxGradArguments& a, Execution& execution) {
  using S = ChunkFragment<1, false>;
  const auto params = masked_grad_params<In, Out>(a);
  if (params.rows.length <= kFoldChunk)
    launch_grad_warp<kLog, In, Out, S>(params, execution);
  else
    launch_two_pass_grad<kLog, In, Out, S>(params, execution);
}

// Launches the kernels for vectors of V elements. a: what params are made of.
template <bool kLog, int V, bool kUnaligned, class In, class Out>
void launch_grad(const SoftmaxGradArguments& a, const GradParams<In, Out>& params,
                 Execution& execution) {
  using S = ChunkFragment<V, kUnaligned>;
  constexpr bool kSameType = std::is_same_v<In, Out>;
  if constexpr (V >= 4 && kUnaligned && kSameType)
    if (launch_staged_grad<kLog>(params, execution)) return;
  if (params.rows.length <= kFoldChunk) {
    constexpr Shapes kShapes = kSameType ? Shapes::backward : Shapes::coarse;
    constexpr bool kAnywhere = kUnaligned || !kSameType;
    return with_lane_shape<kShapes, V, kAnywhere>(
        params.rows.length, [&]<class Short>(TypeTag<Short>) {
          launch_grad_warp<kLog, In, Out, Short>(params, execution);
        });
  }
  constexpr int kWarps = kGradWarps<In, V>;
  const std::int64_t length = params.rows.length;
  const int device = execution.device.index;
  // Blocks of 11 to 15 warps of float32 are alone on a multiprocessor. Clusters of smaller blocks
  // do better for unaligned rows (docs/lab/softmax-grad-kernels.md#blocks).
  const bool small = sizeof(In) == 4 && kUnaligned && length <= 15 * kFoldChunk;
  constexpr ClusterWarps kOfBlock = sizeof(In) == 2   ? ClusterWarps{4, 6}
                                    : sizeof(In) == 4 ? ClusterWarps{3, 5}
                                                      : ClusterWarps{4, 4};
  ChunkPlan plan{};
  if constexpr (kSameType)  // other types go to clusters at once
    if (plan_block(length, small ? 10 : std::min(kWarps, 16), plan))
      return launch_grad_block<kLog, S>(params, plan, execution);
  if constexpr (kSameType && sizeof(In) < 8)
    if (length > kMostOfClusters<kLog, kUnaligned, In> * kFoldChunk &&
        launch_grid_grad<kLog, S>(params, execution))
      return;
  // Two chunks a warp where clusters of small blocks do not hold the row with one
  // (docs/lab/softmax-grad-kernels.md#two-chunks-a-warp).
  if constexpr (kSameType)
    if (length > 128 * kFoldChunk && plan_cluster(length, 2, kOfBlock, kWarps, device, plan) &&
        launch_grad_cluster_pairs<kLog, S>(params, plan, execution))
      return;
  if (plan_cluster(length, 1, kOfBlock, kWarps, device, plan) &&
      launch_grad_cluster<kLog, S>(params, plan, execution))
    return;
  if constexpr (kSameType) {
    if (plan_block(length, kWarps, plan))
      return launch_grad_block<kLog, S>(params, plan, execution);
    launch_two_pass_grad<kLog, In, Out, ChunkFragment<V, true>>(params, execution);
  } else {
    launch_general_grad<kLog, In, Out>(a, execution);
  }
}

// Takes rows along up to kKernelAxes axes.
template <bool kLog>
void run_softmax_grad(const SoftmaxGradArguments& a, Execution& execution) {
  if (a.rows.rows == 0 || a.rows.length == 0) return;
  const CurrentDevice current(execution.device.index);
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    constexpr int V = 16 / sizeof(In);
    const GradParams<In, Out> params{static_cast<const In*>(a.y),
                                     static_cast<const In*>(a.dy),
                                     end_of_rows<In>(a.rows, kY, a.y),
                                     end_of_rows<In>(a.rows, kDy, a.dy),
                                     static_cast<Out*>(a.dx),
                                     in_axes<kKernelAxes>(a.rows),
                                     static_cast<compute_t<In>>(a.scale)};
    const Alignment alignment =
        alignment_of(a.rows, {{a.dx, sizeof(Out)}, {a.y, sizeof(In)}, {a.dy, sizeof(In)}}, kY);
    if (alignment == Alignment::none || !a.mask.is_plain())
      return launch_general_grad<kLog, In, Out>(a, execution);
    if constexpr (sizeof(In) < 8 && sizeof(In) <= sizeof(Out))  // others: one set for both
      if (alignment == Alignment::aligned) return launch_grad<kLog, V, false>(a, params, execution);
    launch_grad<kLog, V, true>(a, params, execution);
  });
}

// The whole of a call: dx, and what sums are asked for.
template <bool kLog>
void run_any_softmax_grad(const SoftmaxGradArguments& arguments, Execution& execution) {
  const Workspace scratch(execution, scratch_of_sums(arguments));
  const auto run = [&](const SoftmaxGradArguments& a) {
    run_with_sums(
        a, execution,
        [&](const SoftmaxGradArguments& all) {
          split_axes<kKernelAxes>(all, [&](const SoftmaxGradArguments& part) {
            if (!run_softmax_grad_strided(kLog, part, execution))
              run_softmax_grad<kLog>(part, execution);
          });
        },
        [&](const BroadcastSums& sums, const void* values, BroadcastSums::Place place) {
          broadcast_sums_on_cuda(sums, values, place, scratch.data(), execution);
        });
  };
  with_combined_mask(arguments, execution, combine_on_cuda, run);
}

}  // namespace twinops
