// A remainder (rows/remainder.cuh) that is appended to a warp's chunk, in the kernels of softmax
// and log_softmax.
#pragma once

#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

template <class In, class RemainderFragment>
class SoftmaxRemainder : RowRemainder<In, RemainderFragment> {
 public:
  using F = compute_t<In>;
  using RowRemainder<In, RemainderFragment>::RowRemainder;

  __device__ __forceinline__ void load(const In* from) {
    if (!mine_) return;
    Vector<In, 1> vectors[RemainderFragment::kElements];
    fragment_.load_whole_vectors(from, 1, kPad<In>, vectors);
    range_ = widen_fragment<RemainderFragment>(vectors, false, x_);
  }
  // Publishes its part of the row, with `shift` taken from every element.
  template <bool kLog>
  __device__ __forceinline__ void publish(F shift, SoftmaxPart<F>* part) {
    if (!mine_) return;
    if constexpr (kHasOutOfRange<In>) range_ = moved<RemainderFragment>(range_, shift, x_);
    max_ = greatest_of_lanes<kWarp>(range_.max);
    const F sum = weigh<kLog, RemainderFragment, In>(x_, max_, range_.min);
    if (fragment_.lane() == 0) *part = {max_, sum};
  }
  template <bool kLog, class Params>
  __device__ __forceinline__ void store(const Params& params, std::int64_t at,
                                        SoftmaxRow<F> row) const {
    if (mine_)
      store_fragment<kLog>(params, fragment_, at, 1, x_, row.max, last_of_chunk<kLog>(row, max_));
  }

 private:
  using RowRemainder<In, RemainderFragment>::fragment_;
  using RowRemainder<In, RemainderFragment>::mine_;
  F x_[RemainderFragment::kElements], max_;
  LaneRange<F> range_;
};

}  // namespace twinops
