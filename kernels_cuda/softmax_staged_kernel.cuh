// softmax and log_softmax of short rows that begin anywhere, where they lie side by side
// (staged_rows.cuh). Rows that their own lanes read from global memory have up to 16 edge elements
// each, which for rows of a few packs is most of the work.
#pragma once

#include "kernels_cuda/softmax_kernels.cuh"
#include "kernels_cuda/staged_rows.cuh"

namespace twinops {

// A lane's share of a row in shared memory.
template <class S, class In, class F>
__device__ __forceinline__ LaneRange<F> load_staged(const S& share, const In* at,
                                                    F (&x)[S::kElements]) {
  constexpr int V = S::kPack, R = S::kElements / V;
  Pack<In, V> packs[R];
  share.load(at, packs);
  F least = -kInfinity<F>;
  if constexpr (V == 2) {
    Pack<In, V> padded[R];
#pragma unroll
    for (int r = 0; r < R; ++r) padded[r] = packs[r];
    share.pad(bit_cast<In>(static_cast<std::uint16_t>(kPad<In>.bits & 0x7fff)), padded);
    least = over_packs(padded, lesser_two<In>);
  }
  share.pad(kPad<In>, packs);
  return {widen_share<S>(packs, false, x).max, least};
}

// S: a StagedShare.
template <bool kLog, class Job, class S>
__global__ void __launch_bounds__(kShortThreads, (short_blocks<Job, S>()))
    softmax_staged_kernel(const __grid_constant__ Job job, const int rounds) {
  using F = typename Job::F;
  using In = typename Job::In;
  TWINOPS_DYNAMIC_SHARED(memory);
  const StagedBlock<S> block(job.rows, rounds);
  const StagedRows<In> staged(memory, job.x + block.begin, block.count);
  staged.fetch(job.x + block.begin);
  staged.wait();

  Job here = job;
  here.out = staged.memory();
#pragma unroll 1
  for (int r = staged_row<S>(block.length); r < block.rows; r += kStagedRows<S>) {
    const int begin = staged.shift() + r * block.length;
    const S share(begin, block.length, threadIdx.x % S::kLanes);
    F x[S::kElements];
    LaneRange<F> range = load_staged(share, staged.memory() + begin, x);
    F max = greatest_of_lanes<S::kLanes>(range.max);
    if (kMeetsFar<Job> && kind_of_row(max) == RowKind::far) {
      range = moved<S>(range, max, x);
      max = F(0);
    }
    const auto is_of_row = [&](int i) { return share.has(i); };
    const F sum = weigh<kLog, S, In>(x, max, range.min, false, is_of_row);
    const auto row = finish_row<kLog, In>(SoftmaxPart<F>{max, sum});
    store_share<kLog>(here, share, begin, 1, x, row.max, row.last);
  }
  staged.store(job.out + block.begin);
}

}  // namespace twinops
