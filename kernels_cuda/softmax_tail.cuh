// What is left of a row after its whole chunks, where the last chunk's warp takes it along, an
// element or two a lane: a warp of its own spends as many instructions on one element as on a whole
// chunk. Float16, share of the copy rate, softmax and log_softmax with a warp of its own and so:
// 2049 columns 0.75 and 0.71, 0.89 and 0.87; 3100 0.83 and 0.79, 0.89 and 0.88; 8193 0.83 and 0.81,
// 0.90 and 0.88. (The logarithm's kernel of the same source has 0.92 to 0.94 where the compiler
// meets fewer other kernels with it.)
//
// Tried and left: packs of 16 bytes (2500 columns 0.84 to 0.72, by spills); one element a lane, for
// up to 32 (4100 0.92 to 0.80, though it is less to do); four, for up to 128 (2049 0.90 to 0.85).
#pragma once

#include "kernels_cuda/softmax_share.cuh"

namespace twinops {

template <class Tail, class In>
class SoftmaxTail {
 public:
  using F = compute_t<In>;

  // mine: this warp takes it along. left: of a row, for that warp.
  __device__ __forceinline__ SoftmaxTail(int left, int lane, bool mine)
      : tail_(static_cast<const In*>(nullptr), left, lane), mine_(mine) {}

  __device__ __forceinline__ void load(const In* from) {
    if (!mine_) return;
    Pack<In, 1> packs[Tail::kElements];
    tail_.load_whole_ones(from, 1, kPad<In>, packs);
    range_ = widen_share<Tail>(packs, false, y_);
  }
  // Its part of the row, from whose elements `shift` is taken.
  template <bool kLog>
  __device__ __forceinline__ void bring(F shift, SoftmaxPart<F>* part) {
    if (!mine_) return;
    if constexpr (kHasFar<In>) range_ = moved<Tail>(range_, shift, y_);
    max_ = greatest_of_lanes<kWarp>(range_.max);
    const F sum = weigh<kLog, Tail, In>(y_, max_, range_.min);
    if (tail_.lane() == 0) *part = {max_, sum};
  }
  template <bool kLog, class Job>
  __device__ __forceinline__ void store(const Job& job, std::int64_t at, SoftmaxRow<F> row) const {
    if (mine_) store_share<kLog>(job, tail_, at, 1, y_, row.max, last_of_chunk<kLog>(row, max_));
  }

 private:
  Tail tail_;
  bool mine_;
  F y_[Tail::kElements], max_;
  LaneRange<F> range_;
};

template <class In>
class SoftmaxTail<void, In> {  // none
 public:
  using F = compute_t<In>;
  __device__ __forceinline__ SoftmaxTail(int, int, bool) {}
  __device__ __forceinline__ void load(const In*) const {}
  template <bool kLog>
  __device__ __forceinline__ void bring(F, SoftmaxPart<F>*) const {}
  template <bool kLog, class Job>
  __device__ __forceinline__ void store(const Job&, std::int64_t, SoftmaxRow<F>) const {}
};

}  // namespace twinops
