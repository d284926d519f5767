// Which of the backward kernels a call takes, by the length of its rows and where they lie.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/grad_block_kernel.cuh"
#include "kernels_cuda/softmax/grad_grid_kernel.cuh"
#include "kernels_cuda/softmax/grad_pair_kernel.cuh"
#include "kernels_cuda/softmax/grad_staged_kernel.cuh"
#include "kernels_cuda/softmax/grad_two_pass_kernel.cuh"
#include "kernels_cuda/softmax/grad_warp_kernel.cuh"

namespace twinops {

// Rows that go through shared memory; false if they are too long for that, or lie apart. What the
// job reads and writes is aligned alike.
template <bool kLog, class In>
bool launch_staged_grad(const GradParams<In, In>& params, Execution& execution) {
  constexpr int kMost = sizeof(In) == 2 ? 895 : 127;
  constexpr int kBytes = 10 * 1024;  // of y and of dy, of a block
  if (params.rows.length > kMost || !can_be_staged<In>(params.rows)) return false;
  const auto length = static_cast<int>(params.rows.length);
  with_staged_fragment<In, WordSteps::coarse, 20, kMost>(length, [&]<class S>(TypeTag<S>) {
    launch_staged_rows<S>(grad_staged_kernel<kLog, In, S>, params, 2, kBytes, execution);
  });
  return true;
}

// In clusters, with `fetched` bytes of a block's shared memory; false if they have no room.
template <class In, class Kernel, class Params>
bool launch_grad_clusters(Kernel kernel, const Params& params, const ChunkPlan& plan,
                          std::size_t fetched, Execution& execution) {
  const std::size_t shared =
      ClusterScope<compute_t<In>, compute_t<In>>::bytes(plan.chunks) + fetched;
  return launch_clusters(kernel, params, plan, shared, execution);
}

// A chunk of y and one of dy, for each warp of a block.
template <class In, class S>
constexpr std::size_t fetched_bytes(std::size_t warps) {
  if constexpr (S::kVector == 1)
    return 0;
  else
    return 2 * AsyncChunk<In, S>::bytes(warps);
}

// A block a row.
template <bool kLog, class S, class In, class Out>
void launch_grad_block(const GradParams<In, Out>& params, const ChunkPlan& plan,
                       Execution& execution) {
  const auto launch = [&]<int kAxes>(const GradParams<In, Out, kAxes>& it) {
    launch_rows(execution, grad_block_kernel<kLog, In, Out, S, Remainder::vectors, S, kAxes>,
                grid_of(params.rows.rows), static_cast<unsigned>(plan.warps * kWarp), 0, 1, it);
  };
  if constexpr (S::kUnaligned && sizeof(In) == 2 && std::is_same_v<In, Out>)
    if (params.rows.outer.rank <= 1) return launch(params.in_one_axis());
  launch(params);
}

// A chunk a warp of a cluster; false if they have no room.
template <bool kLog, class S, class In, class Out>
bool launch_grad_cluster(const GradParams<In, Out>& params, const ChunkPlan& plan,
                         Execution& execution) {
  const auto warps = static_cast<std::size_t>(plan.warps);
  const std::size_t fetched = kGradBySmem<kLog, In, S> ? fetched_bytes<In, S>(warps) : 0;
  return launch_grad_clusters<In>(grad_cluster_kernel<kLog, In, Out, S>, params, plan, fetched,
                                  execution);
}

// Two chunks a warp; false if they have no room.
template <bool kLog, class S, class In, class Out>
bool launch_grad_cluster_pairs(const GradParams<In, Out>& params, const ChunkPlan& plan,
                               Execution& execution) {
  return launch_grad_clusters<In>(grad_pair_kernel<kLog, In, Out, S, ClusterScope>, params, plan,
                                  fetched_bytes<In, S>(static_cast<std::size_t>(plan.warps)),
                                  execution);
}

// A block a row whose last chunk is not whole, and is better taken otherwise than the others
// (rows/remainder.cuh); false if it is not. The job is of 16 bits, in vectors, along one axis:
// counting along more takes what unaligned rows have no instructions for (float16 at 15 337
// columns 1.03 to 0.90 of the copy rate, the logarithm and bfloat16 by less). Logarithms do better
// with vectors of all slots than with two a lane (10 540 columns, float16 0.90 and 0.84, bfloat16
// 0.91 and 0.83), and beyond one whole chunk with up to 256 elements taken along (bfloat16 on an
// H200 at 1089 0.80 and 0.98, at 1250 0.86 and 0.89, in whole vectors at 1200 0.92 and 0.97);
// softmax_grad of few chunks needs none of it.
template <bool kLog, class S, class In>
bool launch_grad_remainder(const GradParams<In, In, 1>& params, Execution& execution) {
  constexpr int kMost = 16;
  const auto left = static_cast<int>(params.rows.length % kFoldChunk);
  const auto whole = static_cast<int>(params.rows.length / kFoldChunk);
  if (left == 0 || whole > kMost) return false;
  const auto launch = [&]<Remainder kRemainder, class LastFragment>(TypeTag<LastFragment>) {
    const int warps = whole + (kRemainder == Remainder::own_warp);
    launch_rows(execution, grad_block_kernel<kLog, In, In, S, kRemainder, LastFragment, 1>,
                grid_of(params.rows.rows), static_cast<unsigned>(warps * kWarp), 0, 1, params);
    return true;
  };
  const auto appended = [&]<class RemainderFragment>(TypeTag<RemainderFragment> remainder) {
    launch.template operator()<Remainder::appended>(remainder);
  };
  if ((!S::kUnaligned || costs_a_block(whole)) && with_elements<2, 2>(left, appended)) return true;
  if constexpr (kLog)
    if (whole == 1 && with_elements<4, 8>(left, appended)) return true;
  if constexpr (S::kUnaligned) {
    constexpr auto kOwnWarp = Remainder::own_warp;
    if (whole == kMost) return false;
    if (left <= kFoldChunk / 4)
      return launch.template operator()<kOwnWarp>(
          TypeTag<LaneFragment<kWarp, 1, S::kVector, true>>());
    if constexpr (!kLog)
      if (left <= kFoldChunk / 2)
        return launch.template operator()<kOwnWarp>(
            TypeTag<LaneFragment<kWarp, 2, S::kVector, true>>());
    return (kLog || whole >= 8) && launch.template operator()<kOwnWarp>(TypeTag<S>());
  }
  return false;
}

// Two chunks a warp in teams; false if they have no room.
template <bool kLog, class S, class In, class Out>
bool launch_cooperative_grad(const GradParams<In, Out>& params, Execution& execution) {
  using SmemLayout =
      CooperativePairs<CooperativeScope<compute_t<In>, compute_t<In>>, &fetched_bytes<In, S>>;
  return launch_cooperative<SmemLayout>(
      params, grad_pair_kernel<kLog, In, Out, S, CooperativeScope>, {8, 16}, execution);
}

// A chunk a warp, dealt round the device's blocks; false if that has no room. Not float32's
// softmax_grad, of whose chunks a multiprocessor's shared memory holds too few.
template <bool kLog, class S, class In, class Out>
bool launch_grid_grad(const GradParams<In, Out>& params, Execution& execution) {
  if constexpr (kLog || sizeof(In) == 2)
    return launch_round_robin<GridGradSmemLayout<kLog, In, S>>(
        params, grad_grid_kernel<kLog, In, Out, S>, execution);
  else
    return false;
}

// Chunks of a row up to which clusters do as well as rows that are dealt, or, of float32's
// softmax_grad, as teams. Share of the copy rate on an H200, in clusters and dealt: begun anywhere,
// bfloat16 at 90 001 columns 0.93 and 0.89, at 100 001 0.89 and 0.89, at 200 001 0.84 and 0.91, the
// logarithm at 80 001 0.88 and 0.90, at 200 001 0.76 and 0.92; float16 at 65 537 0.88 and 0.88, at
// 90 001 0.83 and 0.90; float32's logarithm at 80 001 0.93 and 0.85, 90 001 0.72 and 0.85, 100 001
// 0.81 and 0.85, 120 001 0.91 and 0.84, 200 001 0.73 and 0.85. In whole vectors, bfloat16 at 300
// 000 0.97 and 0.93, at 400 000 0.93 and 0.95, the logarithm at 2^18 0.96 and 0.93, at 300 000 0.88
// and 0.94; float32's logarithm 0.96 and 0.90, 0.75 and 0.87, its softmax_grad at 300 000 in
// clusters 1.00, in teams 0.86.
template <bool kLog, bool kUnaligned, class In>
inline constexpr std::int64_t kMostOfClusters = kUnaligned
                                                    ? (kLog || std::is_same_v<In, float16> ? 80
                                                       : sizeof(In) == 2                   ? 96
                                                                                           : 256)
                                                    : (kLog              ? 256
                                                       : sizeof(In) == 2 ? 384
                                                                         : 320);

template <bool kLog, class S, class In, class Out>
void launch_two_pass_grad(const GradParams<In, Out>& params, Execution& execution) {
  constexpr std::size_t kFixed = sizeof(TwoPassGradSmem<compute_t<In>>);
  constexpr std::size_t kChunk = 2 * sizeof(In) * kFoldChunk;
  launch_two_pass_rows(grad_two_pass_kernel<kLog, In, Out, S>, params, kFixed, kChunk, execution);
}

// In vectors of V elements; one by one if V is 1.
template <bool kLog, int V, bool kUnaligned, class In, class Out>
void launch_grad(const GradParams<In, Out>& params, Execution& execution) {
  using S = ChunkFragment<V, kUnaligned>;
  if constexpr (V >= 4 && kUnaligned && std::is_same_v<In, Out>)
    if (launch_staged_grad<kLog>(params, execution)) return;
  if (params.rows.length <= kFoldChunk)
    return with_short_fragment<V, kUnaligned, Shapes::backward>(
        params.rows.length, execution.device.index, [&]<class Short>(TypeTag<Short>) {
          constexpr std::int64_t kRows = kShortThreads / Short::kLanes;
          launch_rows(execution, grad_warp_kernel<kLog, In, Out, Short>,
                      grid_of((params.rows.rows + kRows - 1) / kRows), kShortThreads, 0, 1, params);
        });
  constexpr int kWarps = kGradWarps<In, V>;
  const std::int64_t length = params.rows.length;
  const int device = execution.device.index;
  // Blocks of 11 to 15 warps of float32 are alone on a multiprocessor; smaller ones with a part of
  // the chunks do better where vectors need not be whole (10 305 columns 0.86 to 0.98 of the copy
  // rate, the logarithm 0.79 to 0.97).
  const bool small = sizeof(In) == 4 && kUnaligned && length <= 15 * kFoldChunk;
  if constexpr (V == 8 && std::is_same_v<In, Out>)
    if (params.rows.outer.rank <= 1 &&
        launch_grad_remainder<kLog, S>(params.in_one_axis(), execution))
      return;
  constexpr ClusterWarps kOfBlock = sizeof(In) == 2   ? ClusterWarps{4, 6}
                                    : sizeof(In) == 4 ? ClusterWarps{3, 5}
                                                      : ClusterWarps{4, 4};
  ChunkPlan plan{};
  if (plan_block(length, small ? 10 : std::min(kWarps, 16), plan))
    return launch_grad_block<kLog, S>(params, plan, execution);
  if constexpr (V > 1 && std::is_same_v<In, Out> && sizeof(In) < 8)
    if (length > kMostOfClusters<kLog, kUnaligned, In> * kFoldChunk &&
        (launch_grid_grad<kLog, S>(params, execution) ||
         launch_cooperative_grad<kLog, S>(params, execution)))
      return;
  // Two chunks a warp where clusters of small blocks have no room for one. Share of the copy rate
  // with one and two chunks on an H100: 200 thousand columns of bfloat16 0.80 and 0.97, the
  // logarithm 0.91 and 0.93, of float32 0.99 and 1.02, 0.97 and 0.98; at 100 001 0.98 and 0.95,
  // 1.00 and 0.92.
  if constexpr (V > 1 && std::is_same_v<In, Out>)
    if (length > 128 * kFoldChunk && plan_cluster(length, 2, kOfBlock, kWarps, device, plan) &&
        launch_grad_cluster_pairs<kLog, S>(params, plan, execution))
      return;
  if (plan_cluster(length, 1, kOfBlock, kWarps, device, plan) &&
      launch_grad_cluster<kLog, S>(params, plan, execution))
    return;
  if (plan_block(length, kWarps, plan)) return launch_grad_block<kLog, S>(params, plan, execution);
  launch_two_pass_grad<kLog, S>(params, execution);
}

// Rows that lie along up to kKernelAxes axes.
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
    switch (
        alignment_of(a.rows, {{a.dx, sizeof(Out)}, {a.y, sizeof(In)}, {a.dy, sizeof(In)}}, kY)) {
      case Alignment::none:
        return launch_grad<kLog, 1, false>(params, execution);
      case Alignment::unaligned:
        return launch_grad<kLog, V, true>(params, execution);
      case Alignment::aligned:
        return launch_grad<kLog, V, false>(params, execution);
    }
  });
}

}  // namespace twinops
