// A remainder (rows/remainder.cuh) that is appended to a warp's chunk, in the kernels of
// softmax_grad and log_softmax_grad.
#pragma once

#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/softmax/softmax_grad_op.cuh"

namespace twinops {

template <class In, class RemainderFragment>
class GradRemainder : RowRemainder<In, RemainderFragment> {
 public:
  using F = compute_t<In>;
  using RowRemainder<In, RemainderFragment>::RowRemainder;

  __device__ __forceinline__ void load(const In* y, const In* dy) {
    if (mine_) of_lane_.load(fragment_, y, 1, dy, 1);
  }
  template <bool kLog>
  __device__ __forceinline__ void publish(F* part) const {
    if (!mine_) return;
    const F sum = of_lane_.template sum<kLog>();
    if (fragment_.lane() == 0) *part = sum;
  }
  template <bool kLog, class Out>
  __device__ __forceinline__ void store(Out* dx, F sum, F scale) const {
    if (mine_) of_lane_.template store<kLog>(fragment_, dx, 1, sum, scale);
  }

 private:
  using RowRemainder<In, RemainderFragment>::fragment_;
  using RowRemainder<In, RemainderFragment>::mine_;
  GradFragment<In, RemainderFragment> of_lane_;
};

}  // namespace twinops
