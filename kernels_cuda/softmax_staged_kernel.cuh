// softmax and log_softmax of short rows of 16 bits that begin anywhere, where they lie side by side
// (staged_rows.cuh). Rows that are read from global memory by their own lanes have up to 16 edge
// elements each, which for rows of a few packs is most of the work. Share of the copy rate on an
// H200, float16, so and then staged: 10 columns 0.27 and 0.62, 21 0.30 and 0.76, 33 0.40 and 0.82,
// 65 0.61 and 0.80, 77 0.68 and 0.86, 103 0.77 and 0.86; from 105 columns on nothing is gained.
// Tried and left: eight lanes a row (65 columns 0.65), four (110 columns, log_softmax: a loss); one
// block of a multiprocessor more or less.
#pragma once

#include "kernels_cuda/softmax_kernels.cuh"
#include "kernels_cuda/staged_rows.cuh"

namespace twinops {

// S: how a row lies in lanes.
template <bool kLog, class Job, class S>
__global__ void __launch_bounds__(kShortThreads, (short_blocks<Job, S>()))
    softmax_staged_kernel(const __grid_constant__ Job job) {
  using F = typename Job::F;
  using In = typename Job::In;
  constexpr int G = S::kLanes;
  TWINOPS_DYNAMIC_SHARED(memory);
  const auto length = static_cast<int>(job.rows.length);
  const std::int64_t first = std::int64_t{blockIdx.x} * kStagedRows<G>;
  const auto rows = static_cast<int>(min(std::int64_t{kStagedRows<G>}, job.rows.rows - first));
  const StagedRows<In> staged(memory, job.x + first * length, rows * length);
  staged.fetch(job.x + first * length);

  const int r = staged_row<G>();
  const S share(staged.elements(), r < rows ? length : 0, threadIdx.x % G);
  Pack<In, 1> packs[S::kElements];
  F x[S::kElements];
  share.load(staged.elements() + r * length, 1, kPad<In>, packs);
  LaneRange<F> range = widen_share<S>(packs, share.full(), x);
  F max = greatest_of_lanes<G>(range.max);
  if (kMeetsFar<Job> && kind_of_row(max) == RowKind::far) {
    range = moved<S>(range, max, x);
    max = F(0);
  }
  const F sum = weigh<kLog, S, In>(x, max, range.min);
  const auto row = finish_row<kLog, In>(SoftmaxPart<F>{max, sum});
  Job here = job;
  here.out = staged.elements();
  store_share<kLog>(here, share, r * length, 1, x, row.max, row.last);
  staged.store(job.out + first * length);
}

}  // namespace twinops
