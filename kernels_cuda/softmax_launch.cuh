// Which of the softmax kernels a call takes, by the length of its rows and where they lie.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/row_launch.cuh"
#include "kernels_cuda/softmax_kernels.cuh"

namespace twinops {

template <bool kLog, int V, class In, class Out>
void launch_chunks(const SoftmaxJob<In, Out>& job, const ChunkRows& plan, Execution& execution) {
  const auto threads = static_cast<unsigned>(plan.warps * kWarp);
  if (plan.blocks == 1)
    return launch_rows(execution, softmax_row_kernel<kLog, In, Out, V>, grid_of(job.rows.rows),
                       threads, 0, 1, job);
  const std::size_t fetched =
      V == 1 ? 0 : NextChunk<In, V, kFoldChunk / kWarp / V>::kBytes * threads;
  const std::size_t shared = RowParts<SoftmaxPart<compute_t<In>>>::bytes(plan.chunks) + fetched;
  const auto kernel = softmax_cluster_kernel<kLog, In, Out, V>;
  launch_rows(execution, kernel,
              grid_of(rows_at_once(job.rows.rows, plan, kernel, shared) * plan.blocks), threads,
              shared, plan.blocks, job, plan);
}

template <bool kLog, int V, class In, class Out>
void launch_long(const SoftmaxJob<In, Out>& job, Execution& execution) {
  using F = compute_t<In>;
  constexpr std::size_t kFixed = sizeof(LongShared<F>), kChunk = sizeof(F) * kFoldChunk;
  const LongRows plan = plan_long(job.rows.length, kFixed, kChunk, execution.device.index);
  const int warps = plan.warps();
  const std::size_t shared = kFixed + kChunk * static_cast<std::size_t>(warps * plan.waiting);
  const std::int64_t rows = std::min<std::int64_t>(job.rows.rows, 1 << 26);
  launch_rows(execution, softmax_long_kernel<kLog, In, Out, V>, grid_of(rows * plan.blocks),
              static_cast<unsigned>(warps * kWarp), shared, plan.blocks, job, plan);
}

template <bool kLog, class In, class Out>
void run_rows(const SoftmaxArguments& a, Execution& execution) {
  constexpr int V = 16 / static_cast<int>(sizeof(In));
  const SoftmaxJob<In, Out> job{static_cast<const In*>(a.x), static_cast<Out*>(a.out), a.rows,
                                a.masked_is_zero};
  const bool packs =
      packs_fit(a.rows, 0, a.out, sizeof(Out), V) && packs_fit(a.rows, 1, a.x, sizeof(In), V);
  if (a.rows.length <= kFoldChunk) {
    const auto launch = [&]<int kV, int G, int R>(ShortShape<kV, G, R>) {
      constexpr std::int64_t kRows = kShortThreads / G;
      launch_rows(execution, softmax_short_kernel<kLog, In, Out, kV, G, R>,
                  grid_of((a.rows.rows + kRows - 1) / kRows), kShortThreads, 0, 1, job);
    };
    packs ? with_short_shape<V>(a.rows.length, launch) : with_short_shape<1>(a.rows.length, launch);
    return;
  }
  ChunkRows plan;
  if (plan_chunks<compute_t<In>>(a.rows.length, execution.device.index, plan))
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
