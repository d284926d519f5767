// The tail of a row (row_tail.cuh) in the kernels of softmax and log_softmax.
#pragma once

#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

template <class In, class Tail>
class SoftmaxTail : RowTail<In, Tail> {
 public:
  using F = compute_t<In>;
  using RowTail<In, Tail>::RowTail;

  __device__ __forceinline__ void load(const In* from) {
    if (!mine_) return;
    Pack<In, 1> packs[Tail::kElements];
    share_.load_whole_ones(from, 1, kPad<In>, packs);
    range_ = widen_share<Tail>(packs, false, x_);
  }
  // Its part of the row, from whose elements `shift` is taken.
  template <bool kLog>
  __device__ __forceinline__ void bring(F shift, SoftmaxPart<F>* part) {
    if (!mine_) return;
    if constexpr (kHasFar<In>) range_ = moved<Tail>(range_, shift, x_);
    max_ = greatest_of_lanes<kWarp>(range_.max);
    const F sum = weigh<kLog, Tail, In>(x_, max_, range_.min);
    if (share_.lane() == 0) *part = {max_, sum};
  }
  template <bool kLog, class Job>
  __device__ __forceinline__ void store(const Job& job, std::int64_t at, SoftmaxRow<F> row) const {
    if (mine_) store_share<kLog>(job, share_, at, 1, x_, row.max, last_of_chunk<kLog>(row, max_));
  }

 private:
  using RowTail<In, Tail>::share_;
  using RowTail<In, Tail>::mine_;
  F x_[Tail::kElements], max_;
  LaneRange<F> range_;
};

}  // namespace twinops
