// Which of the softmax kernels a call takes, by the length of its rows and where they lie.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax_kernels.cuh"
#include "kernels_cuda/softmax_long_kernel.cuh"
#include "kernels_cuda/softmax_pair_kernel.cuh"

namespace twinops {

// What a job that is not plain takes of a block's shared memory.
template <class S, class Job>
std::size_t detour_bytes(const Job& job, std::size_t threads) {
  return job.plain ? 0 : room_of_shares<S, typename Job::F>(threads);
}

template <int V>
using ChunkShare = Share<kWarp, kFoldChunk / kWarp / V, V>;

template <bool kLog, int V, class Job>
void launch_short(const Job& job, Execution& execution) {
  with_short_shape<V>(job.rows.length, [&]<int kV, int G, int R>(ShortShape<kV, G, R>) {
    constexpr std::int64_t kRows = kShortThreads / G;
    launch_rows(execution, softmax_short_kernel<kLog, Job, kV, G, R>,
                grid_of((job.rows.rows + kRows - 1) / kRows), kShortThreads,
                detour_bytes<Share<G, R, kV>>(job, kShortThreads), 1, job);
  });
}

// A block a row.
template <bool kLog, int V, class Job>
void launch_block(const Job& job, Execution& execution) {
  const auto threads =
      static_cast<unsigned>((job.rows.length + kFoldChunk - 1) / kFoldChunk * kWarp);
  launch_rows(execution, softmax_row_kernel<kLog, Job, V>, grid_of(job.rows.rows), threads,
              detour_bytes<ChunkShare<V>>(job, threads), 1, job);
}

template <bool kLog, int V, class Job>
void launch_chunks(const Job& job, const ChunkRows& plan, Execution& execution) {
  using S = ChunkShare<V>;
  const auto threads = static_cast<unsigned>(plan.warps * kWarp);
  const std::size_t detour = detour_bytes<S>(job, threads);
  const auto launch = [&](auto kernel, std::size_t room) {
    using F = typename Job::F;
    const std::size_t shared = RowParts<SoftmaxPart<F>, SoftmaxRow<F>>::bytes(plan.chunks) + room;
    launch_rows(execution, kernel,
                grid_of(rows_at_once(job.rows.rows, plan, kernel, shared) * plan.blocks), threads,
                shared, plan.blocks, job, plan);
  };
  if constexpr (V > 1) {
    if (job.plain) {
      const std::size_t next =
          NextChunk<typename Job::In, S>::bytes(static_cast<std::size_t>(plan.warps));
      return job.ragged ? launch(softmax_cluster_kernel<kLog, Job, V, true, true>, next)
                        : launch(softmax_cluster_kernel<kLog, Job, V, true, false>, next);
    }
  }
  launch(softmax_cluster_kernel<kLog, Job, V, false, (V > 1)>, detour);
}

// Two chunks a warp. The job is plain, in packs.
template <bool kLog, int V, class Job>
void launch_pairs(const Job& job, const ChunkRows& plan, Execution& execution) {
  using F = typename Job::F;
  const auto kernel = job.ragged ? softmax_pair_kernel<kLog, Job, V, true>
                                 : softmax_pair_kernel<kLog, Job, V, false>;
  const std::size_t shared =
      RowParts<SoftmaxPart<F>, SoftmaxRow<F>>::bytes(plan.chunks) +
      PairRoom<Job, ChunkShare<V>>::bytes(static_cast<std::size_t>(plan.warps));
  launch_rows(execution, kernel,
              grid_of(rows_at_once(job.rows.rows, plan, kernel, shared) * plan.blocks),
              static_cast<unsigned>(plan.warps * kWarp), shared, plan.blocks, job, plan);
}

template <bool kLog, int V, class Job>
void launch_long(const Job& job, Execution& execution) {
  using F = typename Job::F;
  constexpr std::size_t kChunk = sizeof(F) * kFoldChunk;
  const std::size_t fixed =
      sizeof(LongShared<F>) + detour_bytes<ChunkShare<V>>(job, kLongWarps * kWarp);
  LongRows plan = plan_long(job.rows.length, fixed, kChunk, execution.device.index);
  const int warps = plan.warps();
  const std::size_t weights = kChunk * static_cast<std::size_t>(warps * plan.waiting);
  plan.detour = static_cast<int>(sizeof(LongShared<F>) + weights);
  const std::int64_t rows = std::min<std::int64_t>(job.rows.rows, 1 << 26);
  launch_rows(execution, softmax_long_kernel<kLog, Job, V>, grid_of(rows * plan.blocks),
              static_cast<unsigned>(warps * kWarp), fixed + weights, plan.blocks, job, plan);
}

// In packs of V elements; one by one if V is 1.
template <bool kLog, int V, class Job>
void launch_softmax(const Job& job, Execution& execution) {
  constexpr int kWarps = Job::kMostWarps;
  constexpr int kOfBlock = sizeof(typename Job::In) == 2 ? kWarps / 2 : kWarps;
  ChunkRows plan;
  if (job.rows.length <= kFoldChunk) return launch_short<kLog, V>(job, execution);
  const auto plans = [&](int of_block, int of_warp) {
    return plan_chunks(job.rows.length, kWarps, of_block, of_warp, execution.device.index, plan);
  };
  const bool fits = plans(kOfBlock, 1);
  if (fits && plan.blocks == 1) return launch_block<kLog, V>(job, execution);
  if constexpr (V > 1 && std::is_same_v<typename Job::In, typename Job::Out>) {
    // Two chunks a warp: where a chunk a warp has no room, and where it is faster.
    const bool better = sizeof(typename Job::In) == sizeof(typename Job::F) && !job.ragged;
    if (job.plain && (!fits || better) && plans(0, 2))
      return launch_pairs<kLog, V>(job, plan, execution);
  }
  if (fits) return launch_chunks<kLog, V>(job, plan, execution);
  launch_long<kLog, V>(job, execution);
}

template <class In, class Out>
SoftmaxJob<In, Out> softmax_job(const SoftmaxArguments& a, Packs packs) {
  return {static_cast<const In*>(a.x),
          end_of_rows<In>(a.rows, 1, a.x),
          static_cast<Out*>(a.out),
          a.rows,
          packs == Packs::ragged,
          a.masked_is_zero,
          a.is_plain(),
          static_cast<compute_t<In>>(a.scale),
          a.mask};
}

template <bool kLog>
void run_softmax(const SoftmaxArguments& a, Execution& execution) {
  if (a.rows.rows == 0 || a.rows.length == 0) return;
  const CurrentDevice current(execution.device.index);
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    const Packs packs = packs_of(a.rows, {{a.out, sizeof(Out)}, {a.x, sizeof(In)}}, 1);
    const SoftmaxJob<In, Out> job = softmax_job<In, Out>(a, packs);
    packs == Packs::none ? launch_softmax<kLog, 1>(job, execution)
                         : launch_softmax<kLog, 16 / sizeof(In)>(job, execution);
  });
}

}  // namespace twinops
