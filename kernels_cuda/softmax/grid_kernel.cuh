// The kernel of softmax and log_softmax of long rows in 16 bits, dealt round the device's blocks: a
// chunk a warp. A warp weighs a chunk, leaves its weights in shared memory, and stores them when it
// has weighed its next one, of a row further on: rows' parts travel meanwhile (dealt_relay.cuh),
// and the chunk after that is on its way. No barrier holds a block's warps together.
//
// What it replaced, teams of blocks that worked on a row with a barrier of each block a turn, stood
// still a third of the time: at 2^20 columns 0.74 of the copy rate, its logarithm 0.71 in bfloat16.
//
// A spill costs more here than elsewhere, since shared memory leaves no room for L1: two registers
// of ragged rows of float16 0.82 to 0.72. Tried and left: groups of 16 chunks in place of 8
// (float16 at 2^20 0.80 to 0.72), and of 4 (at 2^19 0.83 to 0.76); fewer warps with more registers
// (25: 0.70, 22: 0.65); rows out of exp's reach in the same loop (bfloat16 0.83 to 0.67), or in one
// of their own with their chunks in registers (0.80); as many blocks as make whole rows (600001
// columns of float16 0.82 to 0.55).
#pragma once

#include "kernels_cuda/rows/async_copy.cuh"
#include "kernels_cuda/rows/grid_scope.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/rows/smem_stash.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

// What the blocks have in shared memory, and in global memory.
template <class Job, class S>
struct DealtRoom {
  using F = typename Job::F;
  using Relay = DealtRelay<SoftmaxPart<F>, SoftmaxRow<F>>;
  using Waiting = WaitingChunk<typename Job::In, S>;
  using Next = NextChunk<typename Job::In, S>;
  static constexpr bool kAgain = kHasFar<typename Job::In>;  // rows may have to be looked at twice
  static constexpr int kWeighers = 31;                       // warps that have chunks
  static constexpr int kWarps = kWeighers + 1;

  struct alignas(16) Found {
    int far;  // whether one has to be
  };
  static constexpr std::size_t kWaiting = sizeof(Found) + Relay::bytes();  // where what waits lies
  static constexpr std::size_t kNext = kWaiting + Waiting::bytes(kWeighers);
  static constexpr std::size_t kBytes = kNext + Next::bytes(kWeighers);

  // Of rows that may come again, a second letter a group and its row's maximum.
  static constexpr std::size_t scratch_bytes(std::size_t groups) {
    return kAgain ? Relay::scratch_bytes(2 * groups) + groups * sizeof(F)
                  : Relay::scratch_bytes(groups);
  }
};

// What a block does.
template <bool kLog, class Job, class S>
class DealtSoftmax {
 public:
  using F = typename Job::F;
  using In = typename Job::In;
  using Room = DealtRoom<Job, S>;
  using Relay = typename Room::Relay;

  __device__ __forceinline__ DealtSoftmax(const Job& job, const DealtRows& plan,
                                          unsigned char* memory)
      : job_(job),
        plan_(plan),
        memory_(memory),
        relay_(memory + sizeof(typename Room::Found), plan) {}

  // All threads.
  __device__ __forceinline__ void run() const {
    // By a shuffle, so that the compiler knows that all of a warp go the same way.
    const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x / kWarp), 0);
    if (Room::kAgain && threadIdx.x == 0) found().far = 0;
    relay_.begin(Room::kAgain);
    if (warp == kWeighers) {
      relay_.meet();
      receive_all();
    } else {
      weigh_all(warp);
    }
    if constexpr (Room::kAgain) {
      __syncthreads();
      if (found().far != 0) look_again();
    }
  }

 private:
  using Chunk = DealtRows::Chunk;
  static constexpr int kChunks = DealtRows::kChunks, kWeighers = Room::kWeighers;

  __device__ __forceinline__ std::int64_t start(int operand, Chunk c) const {
    return row_starts<true>(job_.rows.outer, c.row).of[operand] + c.begin;
  }
  // How a chunk at `at` lies in lanes; x and out are aligned alike.
  template <class T>
  __device__ __forceinline__ S share(const T* at, Chunk c) const {
    return S(at, plan_.length - c.begin, S::kRagged ? lane_anew() : threadIdx.x % kWarp);
  }

  // One warp of those that weigh: every so many of the block's chunks.
  __device__ __forceinline__ void weigh_all(int warp) const {
    constexpr int V = S::kPack;
    const typename Room::Waiting waiting(memory_ + Room::kWaiting);
    const typename Room::Next next(memory_ + Room::kNext);
    const int all = plan_.own() * kChunks;
    const auto fetch = [&](int i) {
      if (i >= all) return;
      const Chunk c = plan_.chunk(i);
      const In* const from = job_.x + start(1, c);
      next.fetch(share(from, c), from, job_.x_end, plan_.length - c.begin);
    };
    F max_before = F(0);
    int i = warp;
    fetch(i);
#pragma unroll 1
    for (;; i += kWeighers) {
      const bool more = i < all;
      F x[S::kElements], max = F(0);
      if (more) {
        const Chunk c = plan_.chunk(i);
        const S mine = share(job_.x + start(1, c), c);
        Pack<In, V> packs[S::kElements / V];
        next.template take<false>(mine, kPad<In>, packs);
        fetch(i + kWeighers);
        if constexpr (S::kRagged) __syncwarp();  // else the compiler writes what follows twice
        const LaneRange<F> range = widen_share<S>(packs, mine.full(), x);
        max = greatest_of_lanes<kWarp>(range.max);
        const F sum = weigh<kLog, S, In>(x, max, range.min, mine.left() == 0);
        relay_.bring(i / kChunks, c.group, i % kChunks, {max, sum}, join_parts<F>);
      }
      if (i < kWeighers) relay_.meet();
      if (i >= kWeighers) {
        const Chunk before = plan_.chunk(i - kWeighers);
        const SoftmaxRow<F> row = relay_.row((i - kWeighers) / kChunks);
        if (!Room::kAgain || kind_of_row(row.max) != RowKind::far) {
          const auto value = [&](int p, F(&y)[V]) { waiting.get_pack(p, y); };
          const std::int64_t at = start(0, before);
          store_values<kLog>(job_, share(job_.out + at, before), at, 1, value, row.max,
                             last_of_chunk<kLog>(row, max_before));
        }
      }
      if (!more) return;
      waiting.put(x);
      max_before = max;
    }
  }

  // The warp that reads the letters.
  __device__ __forceinline__ void receive_all() const {
    const int own = plan_.own();
    const auto letters_of = [&](int i) { return plan_.row(plan_.group(i)) * plan_.groups; };
    typename Relay::Post post;
    relay_.ask(letters_of(0), post);
#pragma unroll 1
    for (int i = 0; i < own; ++i) {
      const auto ask = [&] { relay_.ask(letters_of(min(i + 1, own - 1)), post); };
      const SoftmaxRow<F> row =
          relay_.receive(i, letters_of(i), post, ask, join_many<F>, finish_row<kLog, In, F>);
      if (Room::kAgain && lane_anew() == 0) {
        row_maxima()[plan_.group(i)] = row.max;
        if (kind_of_row(row.max) == RowKind::far) found().far = 1;
      }
    }
  }

  // All threads, at the end: rows out of exp's reach, one after the other, with elements from which
  // the row's maximum is taken. They are rare, and nothing here is fast: no chunk is in registers,
  // and each is weighed for its sum and again to be stored.
  __device__ __forceinline__ void look_again() const {
    const int own = plan_.own(), warp = warp_anew();
    int turn = own;  // own groups that come again are counted on
#pragma unroll 1
    for (int i = 0, count; i < own; i += count) {
      const int row = plan_.chunk(i * kChunks).row;
      const F shift = row_maxima()[plan_.group(i)];
      for (count = 1; i + count < own && plan_.chunk((i + count) * kChunks).row == row; ++count)
        continue;
      if (kind_of_row(shift) != RowKind::far) continue;
      if (warp == kWeighers)
        receive_again(plan_.all() + row * plan_.groups, turn, count);
      else
        weigh_again(i * kChunks, turn, count * kChunks, shift);
      turn += count;
      relay_.row(turn - 1);  // who has nothing to store must not run ahead
    }
  }
  __device__ __forceinline__ void receive_again(int first, int turn, int count) const {
#pragma unroll 1
    for (int k = 0; k < count; ++k) {
      typename Relay::Post post;
      relay_.ask(first, post);
      relay_.receive(
          turn + k, first, post, [] {}, join_many<F>, finish_row<kLog, In, F>);
    }
  }
  // The block's `chunks` from number `first` on, all of one row.
  __device__ __forceinline__ void weigh_again(int first, int turn, int chunks, F shift) const {
#pragma unroll 1
    for (int k = warp_anew(); k < 2 * chunks; k += kWeighers) {
      const bool store = k >= chunks;
      const int i = store ? k - chunks : k, own = turn + i / kChunks;
      const Chunk c = plan_.chunk(first + i);
      const int lane = lane_anew(), left = max(0, min(kFoldChunk, plan_.length - c.begin));
      const In* const from = job_.x + start(1, c);
      const auto element = [&](int j) { return widen(from[j]) - shift; };
      F max = -kInfinity<F>;
#pragma unroll 1
      for (int j = lane; j < left; j += kWarp) max = greatest_or_nan(max, element(j));
      max = greatest_of_lanes<kWarp>(max);
      const WeightScale<F> scale = weight_scale(max);
      if (store) {
        const SoftmaxRow<F> row = relay_.row(own);
        const F last = last_of_chunk<kLog>(row, max);
#pragma unroll 1
        for (int j = lane; j < left; j += kWarp) {
          const F y =
              kLog ? log_softmax(element(j), row.max, last) : weight<In>(element(j), scale) * last;
          job_.out[start(0, c) + j] = narrow<typename Job::Out>(y);
        }
      } else {
        F* const weights =
            reinterpret_cast<F*>(memory_ + Room::kWaiting) + warp_anew() * kFoldChunk;
#pragma unroll 1
        for (int j = lane; j < kFoldChunk; j += kWarp)
          weights[j] = j < left ? weight<In>(element(j), scale) : F(0);
        const F sum = fold_in_memory(weights);
        relay_.bring(own, plan_.all() + c.group, i % kChunks, {max, sum}, join_parts<F>);
      }
    }
  }

  __device__ __forceinline__ typename Room::Found& found() const {
    return *reinterpret_cast<typename Room::Found*>(memory_);
  }
  __device__ __forceinline__ F* row_maxima() const {  // by group
    const auto letters = Relay::scratch_bytes(2 * static_cast<std::size_t>(plan_.all()));
    return reinterpret_cast<F*>(static_cast<unsigned char*>(plan_.letters) + letters);
  }

  const Job& job_;
  const DealtRows& plan_;
  unsigned char* memory_;
  Relay relay_;
};

template <bool kLog, class Job, class S>
__global__ void __launch_bounds__(DealtRoom<Job, S>::kWarps* kWarp, 1)
    softmax_dealt_kernel(const __grid_constant__ Job job, const __grid_constant__ DealtRows plan) {
  TWINOPS_DYNAMIC_SHARED(memory);
  const DealtSoftmax<kLog, Job, S> block(job, plan, memory);
  block.run();
}

}  // namespace twinops
