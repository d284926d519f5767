// Which of the backward kernels a call takes, by the length of its rows and where they lie.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/grad_grid_kernel.cuh"
#include "kernels_cuda/softmax/grad_pair_kernel.cuh"
#include "kernels_cuda/softmax/grad_staged_kernel.cuh"

namespace twinops {

// Rows that go through shared memory; false if they are too long for that, or lie apart. What the
// job reads and writes is aligned alike.
template <bool kLog, class In>
bool launch_staged_grad(const GradJob<In, In>& job, Execution& execution) {
  constexpr int kMost = sizeof(In) == 2 ? 895 : 127;
  constexpr int kBytes = 10 * 1024;  // of y and of dy, of a block
  if (job.rows.length > kMost || !can_be_staged<In>(job.rows)) return false;
  const auto length = static_cast<int>(job.rows.length);
  with_staged_share<In, WordSteps::few, 20, kMost>(length, [&]<class S>(TypeTag<S>) {
    launch_staged_rows<S>(grad_staged_kernel<kLog, In, S>, job, 2, kBytes, execution);
  });
  return true;
}

// In clusters, with `fetched` bytes of a block's shared memory; false if they have no room.
template <class In, class Kernel, class Job>
bool launch_grad_clusters(Kernel kernel, const Job& job, const ChunkRows& plan, std::size_t fetched,
                          Execution& execution) {
  const std::size_t shared = RowParts<compute_t<In>, compute_t<In>>::bytes(plan.chunks) + fetched;
  return launch_clusters(kernel, job, plan, shared, execution);
}

// A chunk of y and one of dy, for each warp of a block.
template <class In, class S>
constexpr std::size_t fetched_bytes(std::size_t warps) {
  if constexpr (S::kPack == 1)
    return 0;
  else
    return 2 * NextChunk<In, S>::bytes(warps);
}

// A block a row.
template <bool kLog, class S, class In, class Out>
void launch_grad_block(const GradJob<In, Out>& job, const ChunkRows& plan, Execution& execution) {
  const auto launch = [&]<int kAxes>(const GradJob<In, Out, kAxes>& it) {
    launch_rows(execution, grad_row_kernel<kLog, In, Out, S, LastChunk::alike, S, kAxes>,
                grid_of(job.rows.rows), static_cast<unsigned>(plan.warps * kWarp), 0, 1, it);
  };
  if constexpr (S::kRagged && sizeof(In) == 2 && std::is_same_v<In, Out>)
    if (job.rows.outer.rank <= 1) return launch(job.in_one_axis());
  launch(job);
}

// A chunk a warp of a cluster; false if they have no room.
template <bool kLog, class S, class In, class Out>
bool launch_grad_chunks(const GradJob<In, Out>& job, const ChunkRows& plan, Execution& execution) {
  const auto warps = static_cast<std::size_t>(plan.warps);
  const std::size_t fetched = kGradByMemory<kLog, In, S> ? fetched_bytes<In, S>(warps) : 0;
  return launch_grad_clusters<In>(grad_cluster_kernel<kLog, In, Out, S>, job, plan, fetched,
                                  execution);
}

// Two chunks a warp; false if they have no room.
template <bool kLog, class S, class In, class Out>
bool launch_grad_pairs(const GradJob<In, Out>& job, const ChunkRows& plan, Execution& execution) {
  return launch_grad_clusters<In>(grad_pair_kernel<kLog, In, Out, S, RowParts>, job, plan,
                                  fetched_bytes<In, S>(static_cast<std::size_t>(plan.warps)),
                                  execution);
}

// A block a row whose last chunk is not whole, and is better taken otherwise than the others
// (row_tail.cuh); false if it is not. The job is of 16 bits, in packs, along one axis: counting
// along more takes what ragged rows have no instructions for (float16 at 15 337 columns 1.03 to
// 0.90 of the copy rate, the logarithm and bfloat16 by less). Logarithms do better with packs of
// all slots than with two a lane (10 540 columns, float16 0.90 and 0.84, bfloat16 0.91 and 0.83),
// and beyond one whole chunk with up to 256 elements taken along (bfloat16 on an H200 at 1089 0.80
// and 0.98, at 1250 0.86 and 0.89, in whole packs at 1200 0.92 and 0.97); softmax_grad of few
// chunks needs none of it.
template <bool kLog, class S, class In>
bool launch_last_grad_chunk(const GradJob<In, In, 1>& job, Execution& execution) {
  constexpr int kMost = 16;
  const auto left = static_cast<int>(job.rows.length % kFoldChunk);
  const auto whole = static_cast<int>(job.rows.length / kFoldChunk);
  if (left == 0 || whole > kMost) return false;
  const auto launch = [&]<LastChunk kLast, class Last>(TypeTag<Last>) {
    const int warps = whole + (kLast == LastChunk::apart);
    launch_rows(execution, grad_row_kernel<kLog, In, In, S, kLast, Last, 1>, grid_of(job.rows.rows),
                static_cast<unsigned>(warps * kWarp), 0, 1, job);
    return true;
  };
  const auto along = [&]<class Tail>(TypeTag<Tail> tail) {
    launch.template operator()<LastChunk::along>(tail);
  };
  if ((!S::kRagged || costs_a_block(whole)) && with_elements<2, 2>(left, along)) return true;
  if constexpr (kLog)
    if (whole == 1 && with_elements<4, 8>(left, along)) return true;
  if constexpr (S::kRagged) {
    constexpr auto kApart = LastChunk::apart;
    if (whole == kMost) return false;
    if (left <= kFoldChunk / 4)
      return launch.template operator()<kApart>(TypeTag<Share<kWarp, 1, S::kPack, true>>());
    if constexpr (!kLog)
      if (left <= kFoldChunk / 2)
        return launch.template operator()<kApart>(TypeTag<Share<kWarp, 2, S::kPack, true>>());
    return (kLog || whole >= 8) && launch.template operator()<kApart>(TypeTag<S>());
  }
  return false;
}

// Two chunks a warp in teams; false if they have no room.
template <bool kLog, class S, class In, class Out>
bool launch_grad_teams(const GradJob<In, Out>& job, Execution& execution) {
  using Room = PairsOfTeam<TeamParts<compute_t<In>, compute_t<In>>, &fetched_bytes<In, S>>;
  return launch_teams<Room>(job, grad_pair_kernel<kLog, In, Out, S, TeamParts>, {8, 16}, execution);
}

// A chunk a warp, dealt round the device's blocks; false if that has no room. Not float32's
// softmax_grad, of whose chunks a multiprocessor's shared memory holds too few.
template <bool kLog, class S, class In, class Out>
bool launch_dealt_grad(const GradJob<In, Out>& job, Execution& execution) {
  if constexpr (kLog || sizeof(In) == 2)
    return launch_dealt_rows<DealtGradRoom<kLog, In, S>>(job, grad_dealt_kernel<kLog, In, Out, S>,
                                                         execution);
  else
    return false;
}

// Chunks of a row up to which clusters do as well as rows that are dealt, or, of float32's
// softmax_grad, as teams. Share of the copy rate on an H200, in clusters and dealt: begun anywhere,
// bfloat16 at 90 001 columns 0.93 and 0.89, at 100 001 0.89 and 0.89, at 200 001 0.84 and 0.91, the
// logarithm at 80 001 0.88 and 0.90, at 200 001 0.76 and 0.92; float16 at 65 537 0.88 and 0.88, at
// 90 001 0.83 and 0.90; float32's logarithm at 80 001 0.93 and 0.85, 90 001 0.72 and 0.85, 100 001
// 0.81 and 0.85, 120 001 0.91 and 0.84, 200 001 0.73 and 0.85. In whole packs, bfloat16 at 300 000
// 0.97 and 0.93, at 400 000 0.93 and 0.95, the logarithm at 2^18 0.96 and 0.93, at 300 000 0.88 and
// 0.94; float32's logarithm 0.96 and 0.90, 0.75 and 0.87, its softmax_grad at 300 000 in clusters
// 1.00, in teams 0.86.
template <bool kLog, bool kRagged, class In>
inline constexpr std::int64_t kMostOfClusters = kRagged ? (kLog || std::is_same_v<In, float16> ? 80
                                                           : sizeof(In) == 2                   ? 96
                                                                             : 256)
                                                        : (kLog              ? 256
                                                           : sizeof(In) == 2 ? 384
                                                                             : 320);

template <bool kLog, class S, class In, class Out>
void launch_long_grad(const GradJob<In, Out>& job, Execution& execution) {
  constexpr std::size_t kFixed = sizeof(LongSums<compute_t<In>>);
  constexpr std::size_t kChunk = 2 * sizeof(In) * kFoldChunk;
  launch_long_rows(grad_long_kernel<kLog, In, Out, S>, job, kFixed, kChunk, execution);
}

// In packs of V elements; one by one if V is 1.
template <bool kLog, int V, bool kRagged, class In, class Out>
void launch_grad(const GradJob<In, Out>& job, Execution& execution) {
  using S = ChunkShare<V, kRagged>;
  if constexpr (V >= 4 && kRagged && std::is_same_v<In, Out>)
    if (launch_staged_grad<kLog>(job, execution)) return;
  if (job.rows.length <= kFoldChunk)
    return with_short_share<V, kRagged, Shapes::backward>(
        job.rows.length, execution.device.index, [&]<class Short>(TypeTag<Short>) {
          constexpr std::int64_t kRows = kShortThreads / Short::kLanes;
          launch_rows(execution, grad_short_kernel<kLog, In, Out, Short>,
                      grid_of((job.rows.rows + kRows - 1) / kRows), kShortThreads, 0, 1, job);
        });
  constexpr int kWarps = kGradWarps<In, V>;
  const std::int64_t length = job.rows.length;
  const int device = execution.device.index;
  // Blocks of 11 to 15 warps of float32 are alone on a multiprocessor; smaller ones with a part of
  // the chunks do better where packs need not be whole (10 305 columns 0.86 to 0.98 of the copy
  // rate, the logarithm 0.79 to 0.97).
  const bool small = sizeof(In) == 4 && kRagged && length <= 15 * kFoldChunk;
  if constexpr (V == 8 && std::is_same_v<In, Out>)
    if (job.rows.outer.rank <= 1 && launch_last_grad_chunk<kLog, S>(job.in_one_axis(), execution))
      return;
  constexpr ClusterWarps kOfBlock = sizeof(In) == 2   ? ClusterWarps{4, 6}
                                    : sizeof(In) == 4 ? ClusterWarps{3, 5}
                                                      : ClusterWarps{4, 4};
  ChunkRows plan{};
  if (plan_alone(length, small ? 10 : std::min(kWarps, 16), plan))
    return launch_grad_block<kLog, S>(job, plan, execution);
  if constexpr (V > 1 && std::is_same_v<In, Out> && sizeof(In) < 8)
    if (length > kMostOfClusters<kLog, kRagged, In> * kFoldChunk &&
        (launch_dealt_grad<kLog, S>(job, execution) || launch_grad_teams<kLog, S>(job, execution)))
      return;
  // Two chunks a warp where clusters of small blocks have no room for one. Share of the copy rate
  // with one and two chunks on an H100: 200 thousand columns of bfloat16 0.80 and 0.97, the
  // logarithm 0.91 and 0.93, of float32 0.99 and 1.02, 0.97 and 0.98; at 100 001 0.98 and 0.95,
  // 1.00 and 0.92.
  if constexpr (V > 1 && std::is_same_v<In, Out>)
    if (length > 128 * kFoldChunk && plan_cluster(length, 2, kOfBlock, kWarps, device, plan) &&
        launch_grad_pairs<kLog, S>(job, plan, execution))
      return;
  if (plan_cluster(length, 1, kOfBlock, kWarps, device, plan) &&
      launch_grad_chunks<kLog, S>(job, plan, execution))
    return;
  if (plan_alone(length, kWarps, plan)) return launch_grad_block<kLog, S>(job, plan, execution);
  launch_long_grad<kLog, S>(job, execution);
}

// Rows that lie along up to kFewAxes axes.
template <bool kLog>
void run_softmax_grad(const SoftmaxGradArguments& a, Execution& execution) {
  if (a.rows.rows == 0 || a.rows.length == 0) return;
  const CurrentDevice current(execution.device.index);
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    constexpr int V = 16 / sizeof(In);
    const GradJob<In, Out> job{static_cast<const In*>(a.y),
                               static_cast<const In*>(a.dy),
                               end_of_rows<In>(a.rows, 1, a.y),
                               end_of_rows<In>(a.rows, 2, a.dy),
                               static_cast<Out*>(a.dx),
                               in_axes<kFewAxes>(a.rows),
                               static_cast<compute_t<In>>(a.scale)};
    switch (packs_of(a.rows, {{a.dx, sizeof(Out)}, {a.y, sizeof(In)}, {a.dy, sizeof(In)}}, 1)) {
      case Packs::none:
        return launch_grad<kLog, 1, false>(job, execution);
      case Packs::ragged:
        return launch_grad<kLog, V, true>(job, execution);
      case Packs::whole:
        return launch_grad<kLog, V, false>(job, execution);
    }
  });
}

}  // namespace twinops
