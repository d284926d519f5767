// Where a row's elements lie in lanes, wherever the row begins in memory.
//
// A chunk of a row, or a whole short row, has G * R * V slots on G lanes: R vectors of V elements a
// lane, and the lanes' vectors of one r side by side. A vector is 16 bytes of memory that begin at
// a multiple of 16. Element i lies in slot i + shift, where `shift` counts the elements that lie
// before the chunk in its first vector. The chunk's last elements wrap round into the slots before
// its first one. A fold gives the same bits whatever the shift (rows/fold.cuh), so elements stay
// where they were loaded. Where R is no power of two, the layout is that of the next one without
// its last vectors, which no row then reaches.
#pragma once

#include "kernels_cuda/common/vector_io.cuh"

namespace twinops {

// Whether 0 <= j < left, which is not below 0.
__device__ __forceinline__ bool is_below(int j, int left) {
  return static_cast<unsigned>(j) < static_cast<unsigned>(left);
}

// This thread's warp, computed again (reload_thread()).
__device__ __forceinline__ int reload_warp() { return static_cast<int>(reload_thread() / kWarp); }

// A lane of those that share a row, and how many elements there are for them.
class RowLane {
 public:
  __device__ __forceinline__ int lane() const { return lane_; }
  __device__ __forceinline__ int left() const { return left_; }
  // Leaves fewer elements from here on.
  __device__ __forceinline__ void cut_to(int left) { left_ = left; }

 protected:
  __device__ __forceinline__ RowLane(int lane, int left) : lane_(lane), left_(left) {}

  int lane_, left_;
};

// kUnaligned_: vectors need not be whole. Aligned and unaligned rows have types of their own,
// because a kernel that holds the code of both is slower
// (docs/lab/softmax-block-kernel.md#vectors-wherever-a-row-begins). V = 1: elements lie `step`
// apart, and nothing is shifted.
template <int G, int R, int V, bool kUnaligned_>
class RotatedLayout : public RowLane {
 public:
  static constexpr int kElements = R * V, kLanes = G, kVector = V, kSlots = G * R * V;
  static constexpr int kStride = G * V;  // elements from one vector of a lane to its next
  static constexpr bool kUnaligned = kUnaligned_;
  static_assert(V > 1 || !kUnaligned);

  // The layout of the chunk at `at`, from which on `left` elements are the row's.
  template <class T>
  __device__ __forceinline__ RotatedLayout(const T* at, int left, int lane)
      : RowLane(lane, max(0, min(left, kSlots))), shift_(0) {
    if constexpr (kUnaligned)
      shift_ = static_cast<int>(reinterpret_cast<std::uintptr_t>(at) / sizeof(T) % V);
  }

  // Whether all of vector r is the chunk's, and is read and written at once.
  __device__ __forceinline__ bool whole(int r) const {
    return rest() >= V + r * kStride && !(kUnaligned && r == 0 && lane_ == 0);
  }
  // Where vector r lies, counted from the chunk's first element. Pointers are made once, for vector
  // 0.
  __device__ __forceinline__ int place(int r) const { return lane_ * V - shift_ + r * kStride; }
  // How many of the row's elements vector r has, if that is above 0.
  __device__ __forceinline__ int count(int r) const { return min(V, rest() - r * kStride); }
  // Where the elements that wrap round into lane 0's first vector begin, and how many there are.
  __device__ __forceinline__ int wrapped_place() const { return kSlots - shift_; }
  __device__ __forceinline__ int wrapped_count() const { return left_ - wrapped_place(); }
  // By a bit: of left_ == kSlots, and the min() that made left_, ptxas 13.0 makes one VIMNMX.RELU
  // for sm_90, whose predicate then says the opposite.
  __device__ __forceinline__ bool full() const { return (left_ & kSlots) == kSlots; }
  // Which element of the chunk is element e of vector r.
  __device__ __forceinline__ int element(int r, int e) const {
    const int i = place(r) + e;
    return V > 1 && r == 0 && i < 0 ? i + kSlots : i;
  }

 protected:
  __device__ __forceinline__ int slot(int r) const { return (r * G + lane_) * V; }
  // How many elements of the chunk are left from vector 0 on.
  __device__ __forceinline__ int rest() const { return left_ - place(0); }

  // The first slot of the tail: the vector that the row ends in, if that is not the head.
  __device__ __forceinline__ int tail_slot() const { return (left_ + shift_) & -V; }
  __device__ __forceinline__ bool has_tail() const {
    return tail_slot() >= V && tail_slot() < kSlots;
  }
  __device__ __forceinline__ bool any_tail() const { return G < kWarp || has_tail(); }  // of a warp

  // The element that a lane's k-th head or tail element is, or -1: V of the head, then V of the
  // tail.
  __device__ __forceinline__ int head_tail_element(int k) const {
    const int q = lane_ + k * G;
    int i = q - shift_;
    if (q >= V)
      i = q < 2 * V && has_tail() ? i + tail_slot() - V : left_;
    else if (i < 0)
      i += kSlots;
    return i < left_ ? i : -1;
  }

  int shift_;
};

}  // namespace twinops
