// The kernel of softmax_grad and log_softmax_grad of long rows, over all multiprocessors as in
// grid_kernel.cuh: a chunk a warp. A warp adds up a chunk's terms, and stores the gradients once it
// has added up its next chunk's, of a later row. Until then y and dy wait in shared memory as they
// were copied there; log_softmax_grad's y, which its sum does not need, is sent for later. When a
// chunk is taken to be stored, its places are free, and the next one is sent for. y and dy are read
// once, dx is written once. What was measured and tried:
// docs/lab/softmax-grad-kernels.md#the-grid-kernel.
#pragma once

#include "kernels_cuda/rows/async_copy.cuh"
#include "kernels_cuda/rows/grid_scope.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/softmax/softmax_grad_op.cuh"

namespace twinops {

// What a block has in shared memory: places for each warp's chunks of dy and y.
template <bool kLog, class In, class S>
struct GridGradSmemLayout {
  using F = compute_t<In>;
  using Scope = GridScope<F, F>;
  using Async = AsyncChunk<In, S>;
  static constexpr int kPlacesOfY = kLog ? 1 : 2, kPlacesOfDy = 2;
  static constexpr std::size_t kMost = 227 * 1024;  // of a block, on the devices with clusters
  static constexpr std::size_t kOfWarp = (kPlacesOfY + kPlacesOfDy) * Async::bytes(1);
  static constexpr int kChunkWarps =
      std::min(31, static_cast<int>((kMost - Scope::bytes()) / kOfWarp));
  static constexpr int kWarps = kChunkWarps + 1;
  static constexpr std::size_t kBytes = Scope::bytes() + kChunkWarps * kOfWarp;

  static constexpr std::size_t scratch_bytes(std::size_t groups) {
    return Scope::scratch_bytes(groups);
  }
};

// What a block does.
template <bool kLog, class In, class Out, class S>
class GridGrad {
 public:
  using F = compute_t<In>;
  using SmemLayout = GridGradSmemLayout<kLog, In, S>;

  __device__ __forceinline__ GridGrad(const GradParams<In, Out>& params,
                                      const RoundRobinTiles& plan, unsigned char* smem)
      : params_(params),
        plan_(plan),
        places_(smem + SmemLayout::Scope::bytes()),
        scope_(smem, plan) {}

  // All threads.
  __device__ __forceinline__ void run() const {
    // By a shuffle, so that the compiler knows that all lanes of a warp go the same way.
    const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x / kWarp), 0);
    scope_.begin(false);
    if (warp == kChunkWarps) {
      scope_.wait_for_grid();
      receive_all();
    } else {
      add_all(warp);
    }
  }

 private:
  using Chunk = RoundRobinTiles::Chunk;
  using Async = typename SmemLayout::Async;
  static constexpr int kChunks = RoundRobinTiles::kChunks, kChunkWarps = SmemLayout::kChunkWarps;

  __device__ __forceinline__ RowStarts<3> starts(Chunk c) const {
    RowStarts<3> starts = row_starts<true>(params_.rows.outer, c.row);
#pragma unroll
    for (int k = 0; k < 3; ++k) starts.of[k] += c.begin;
    return starts;
  }
  // The fragment of a chunk; dx, y and dy are aligned alike.
  __device__ __forceinline__ S fragment(const RowStarts<3>& starts, Chunk c) const {
    return S(params_.y + starts.of[kY], left(c),
             S::kUnaligned ? reload_lane() : threadIdx.x % kWarp);
  }
  __device__ __forceinline__ int left(Chunk c) const { return plan_.length - c.begin; }

  // A warp's places, which it uses by turns.
  __device__ __forceinline__ Async place_of_dy(int turn) const {
    return Async(places_ + (turn & 1) * Async::bytes(kChunkWarps));
  }
  __device__ __forceinline__ Async place_of_y(int turn) const {
    const int side = kLog ? 0 : turn & 1;
    return Async(places_ + (SmemLayout::kPlacesOfDy + side) * Async::bytes(kChunkWarps));
  }
  __device__ __forceinline__ void fetch_y(Chunk c, int turn) const {
    const RowStarts<3> at = starts(c);
    place_of_y(turn).fetch(fragment(at, c), params_.y + at.of[kY], params_.y_end, left(c));
  }
  __device__ __forceinline__ void fetch_dy(Chunk c, int turn) const {
    const RowStarts<3> at = starts(c);
    place_of_dy(turn).fetch(fragment(at, c), params_.dy + at.of[kDy], params_.dy_end, left(c));
  }

  // One of the warps that have chunks: every kChunkWarps-th of the block's chunks.
  __device__ __forceinline__ void add_all(int warp) const {
    const int all = plan_.own() * kChunks;
    if (warp < all) {
      if constexpr (!kLog) fetch_y(plan_.chunk(warp), 0);
      fetch_dy(plan_.chunk(warp), 0);
    }
#pragma unroll 1
    for (int i = warp, turn = 0;; i += kChunkWarps, ++turn) {
      const bool more = i < all;
      GradFragment<In, S> of_lane;
      if (more) {
        const Chunk c = plan_.chunk(i);
        const S mine = fragment(starts(c), c);
        if constexpr (!kLog) place_of_y(turn).template take<false>(mine, In{}, of_lane.y);
        place_of_dy(turn).template take<false>(mine, In{}, of_lane.dy);
        if constexpr (S::kUnaligned) __syncwarp();  // else the compiler duplicates what follows
        scope_.publish(i / kChunks, c.group, i % kChunks, of_lane.template sum<kLog>(),
                       join_sums<1, F>);
      }
      if (turn == 0) scope_.wait_for_grid();
      F sum{};
      if (turn > 0) {
        const Chunk c = plan_.chunk(i - kChunkWarps);
        sum = scope_.row((i - kChunkWarps) / kChunks);
        const S mine = fragment(starts(c), c);
        place_of_y(turn + 1).template take<false>(mine, In{}, of_lane.y);
        place_of_dy(turn + 1).template take<false>(mine, In{}, of_lane.dy);
      }
      if (kLog && more) fetch_y(plan_.chunk(i), turn);
      if (i + kChunkWarps < all) {
        if constexpr (!kLog) fetch_y(plan_.chunk(i + kChunkWarps), turn + 1);
        fetch_dy(plan_.chunk(i + kChunkWarps), turn + 1);
      }
      if (turn > 0) {
        const Chunk c = plan_.chunk(i - kChunkWarps);
        const RowStarts<3> at = starts(c);
        constexpr bool kInOrder = false, kRecompute = true;
        of_lane.template store<kLog, kInOrder, kRecompute>(fragment(at, c), params_.dx + at.of[kDx],
                                                           1, sum, params_.scale);
      }
      if (!more) return;
    }
  }

  // The warp that receives the messages.
  __device__ __forceinline__ void receive_all() const {
    const int own = plan_.own();
    const auto first_message_of = [&](int i) { return plan_.row(plan_.group(i)) * plan_.groups; };
    typename SmemLayout::Scope::Inbox inbox;
    scope_.poll(first_message_of(0), inbox);
#pragma unroll 1
    for (int i = 0; i < own; ++i) {
      const auto poll = [&] { scope_.poll(first_message_of(min(i + 1, own - 1)), inbox); };
      scope_.receive(i, first_message_of(i), inbox, poll, join_sums<SmemLayout::Scope::kOfLane, F>,
                     [](F sum) { return sum; });
    }
  }

  const GradParams<In, Out>& params_;
  const RoundRobinTiles& plan_;
  unsigned char* places_;
  typename SmemLayout::Scope scope_;
};

template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(GridGradSmemLayout<kLog, In, S>::kWarps* kWarp, 1)
    grad_grid_kernel(const __grid_constant__ GradParams<In, Out> params,
                     const __grid_constant__ RoundRobinTiles plan) {
  TWINOPS_DYNAMIC_SHARED(smem);
  const GridGrad<kLog, In, Out, S> block(params, plan, smem);
  block.run();
}

}  // namespace twinops
