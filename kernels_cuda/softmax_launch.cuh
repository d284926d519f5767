// Which of the softmax kernels a call takes, by the length of its rows and where they lie.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/row_launch.cuh"
#include "kernels_cuda/softmax_kernels.cuh"

namespace twinops {

// What a job that is not plain takes of a block's shared memory.
template <int G, int R, int V, class In, class Out>
std::size_t detour_bytes(const SoftmaxJob<In, Out>& job, std::size_t threads) {
  return job.plain ? 0 : Detour<compute_t<In>>::template bytes<Share<G, R, V>>(threads);
}

template <bool kLog, int V, class In, class Out>
void launch_chunks(const SoftmaxJob<In, Out>& job, const ChunkRows& plan, Execution& execution) {
  constexpr int R = kFoldChunk / kWarp / V;
  const auto threads = static_cast<unsigned>(plan.warps * kWarp);
  const std::size_t detour = detour_bytes<kWarp, R, V>(job, threads);
  if (plan.blocks == 1)
    return launch_rows(execution, softmax_row_kernel<kLog, In, Out, V>, grid_of(job.rows.rows),
                       threads, detour, 1, job);
  const auto launch = [&](auto kernel, std::size_t room) {
    const std::size_t shared = RowParts<SoftmaxPart<compute_t<In>>>::bytes(plan.chunks) + room;
    launch_rows(execution, kernel,
                grid_of(rows_at_once(job.rows.rows, plan, kernel, shared) * plan.blocks), threads,
                shared, plan.blocks, job, plan);
  };
  if constexpr (V > 1)
    if (job.plain)
      return launch(softmax_cluster_kernel<kLog, In, Out, V, true>,
                    NextChunk<In, V, R>::kBytes * threads);
  launch(softmax_cluster_kernel<kLog, In, Out, V, false>, detour);
}

template <bool kLog, int V, class In, class Out>
void launch_long(const SoftmaxJob<In, Out>& job, Execution& execution) {
  using F = compute_t<In>;
  constexpr std::size_t kChunk = sizeof(F) * kFoldChunk;
  const std::size_t fixed = sizeof(LongShared<F>) +
                            detour_bytes<kWarp, kFoldChunk / kWarp / V, V>(job, kLongWarps * kWarp);
  LongRows plan = plan_long(job.rows.length, fixed, kChunk, execution.device.index);
  const int warps = plan.warps();
  const std::size_t weights = kChunk * static_cast<std::size_t>(warps * plan.waiting);
  plan.detour = static_cast<int>(sizeof(LongShared<F>) + weights);
  const std::int64_t rows = std::min<std::int64_t>(job.rows.rows, 1 << 26);
  launch_rows(execution, softmax_long_kernel<kLog, In, Out, V>, grid_of(rows * plan.blocks),
              static_cast<unsigned>(warps * kWarp), fixed + weights, plan.blocks, job, plan);
}

template <bool kLog, class In, class Out>
void run_rows(const SoftmaxArguments& a, Execution& execution) {
  constexpr int V = 16 / static_cast<int>(sizeof(In));
  const SoftmaxJob<In, Out> job{static_cast<const In*>(a.x),
                                static_cast<Out*>(a.out),
                                a.rows,
                                a.masked_is_zero,
                                a.is_plain(),
                                static_cast<compute_t<In>>(a.scale),
                                a.mask};
  const bool packs =
      packs_fit(a.rows, 0, a.out, sizeof(Out), V) && packs_fit(a.rows, 1, a.x, sizeof(In), V);
  if (a.rows.length <= kFoldChunk) {
    const auto launch = [&]<int kV, int G, int R>(ShortShape<kV, G, R>) {
      constexpr std::int64_t kRows = kShortThreads / G;
      launch_rows(execution, softmax_short_kernel<kLog, In, Out, kV, G, R>,
                  grid_of((a.rows.rows + kRows - 1) / kRows), kShortThreads,
                  detour_bytes<G, R, kV>(job, kShortThreads), 1, job);
    };
    packs ? with_short_shape<V>(a.rows.length, launch) : with_short_shape<1>(a.rows.length, launch);
    return;
  }
  constexpr int kWarps = kRowWarps<compute_t<In>>;
  ChunkRows plan;
  if (plan_chunks(a.rows.length, kWarps, sizeof(In) == 2 ? kWarps / 2 : kWarps,
                  execution.device.index, plan))
    return packs ? launch_chunks<kLog, V>(job, plan, execution)
                 : launch_chunks<kLog, 1>(job, plan, execution);
  packs ? launch_long<kLog, V>(job, execution) : launch_long<kLog, 1>(job, execution);
}

template <bool kLog>
void run_softmax(const SoftmaxArguments& a, Execution& execution) {
  if (a.rows.rows == 0 || a.rows.length == 0) return;
  const CurrentDevice current(execution.device.index);
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    run_rows<kLog, In, Out>(a, execution);
  });
}

}  // namespace twinops
