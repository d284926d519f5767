// The tail of a row (row_tail.cuh) in the kernels of softmax_grad and log_softmax_grad.
#pragma once

#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/softmax/softmax_grad_op.cuh"

namespace twinops {

template <class In, class Tail>
class GradTail : RowTail<In, Tail> {
 public:
  using F = compute_t<In>;
  using RowTail<In, Tail>::RowTail;

  __device__ __forceinline__ void load(const In* y, const In* dy) {
    if (mine_) of_lane_.load(share_, y, 1, dy, 1);
  }
  template <bool kLog>
  __device__ __forceinline__ void bring(F* part) const {
    if (!mine_) return;
    const F sum = of_lane_.template sum<kLog>();
    if (share_.lane() == 0) *part = sum;
  }
  template <bool kLog, class Out>
  __device__ __forceinline__ void store(Out* dx, F sum, F scale) const {
    if (mine_) of_lane_.template store<kLog>(share_, dx, 1, sum, scale);
  }

 private:
  using RowTail<In, Tail>::share_;
  using RowTail<In, Tail>::mine_;
  GradShare<In, Tail> of_lane_;
};

}  // namespace twinops
