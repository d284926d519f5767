// What is left of a row after its whole chunks, where the last chunk's warp takes it along, as in
// softmax_tail.cuh.
#pragma once

#include "kernels_cuda/softmax_grad_share.cuh"

namespace twinops {

template <class Tail, class In>
class GradTail {
 public:
  using F = compute_t<In>;

  // mine: this warp takes it along. left: of a row, for that warp.
  __device__ __forceinline__ GradTail(int left, int lane, bool mine)
      : tail_(static_cast<const In*>(nullptr), left, lane), mine_(mine) {}

  __device__ __forceinline__ void load(const In* y, const In* dy) {
    if (mine_) of_lane_.load(tail_, y, 1, dy, 1);
  }
  template <bool kLog>
  __device__ __forceinline__ void bring(F* part) const {
    if (!mine_) return;
    const F sum = of_lane_.template sum<kLog>();
    if (tail_.lane() == 0) *part = sum;
  }
  template <bool kLog, class Out>
  __device__ __forceinline__ void store(Out* dx, F sum, F scale) const {
    if (mine_) of_lane_.template store<kLog>(tail_, dx, 1, sum, scale);
  }

 private:
  Tail tail_;
  bool mine_;
  GradShare<In, Tail> of_lane_;
};
template <class In>
class GradTail<void, In> {  // none
 public:
  using F = compute_t<In>;
  __device__ __forceinline__ GradTail(int, int, bool) {}
  __device__ __forceinline__ void load(const In*, const In*) const {}
  template <bool kLog>
  __device__ __forceinline__ void bring(F*) const {}
  template <bool kLog, class Out>
  __device__ __forceinline__ void store(Out*, F, F) const {}
};

}  // namespace twinops
