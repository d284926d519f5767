// The kernel of softmax and log_softmax of long rows in 16 bits, over all multiprocessors
// (rows/tile_scheduler.cuh): a chunk a warp. A warp weighs a chunk, leaves its weights in shared
// memory, and stores them once it has weighed its next chunk, of a later row. Meanwhile the row's
// parts travel (rows/grid_scope.cuh), and the chunk after that is on its way. No barrier holds a
// block's warps together. x is read once, out is written once; groups of eight chunks are joined by
// one warp, groups by the receiving warp of each block.
//
// The kernel must not spill, because shared memory leaves no room for L1. What was measured and
// tried: docs/lab/softmax-grid-kernel.md.
#pragma once

#include "kernels_cuda/rows/async_copy.cuh"
#include "kernels_cuda/rows/grid_scope.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/rows/smem_stash.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

// What a block has in shared memory, and all blocks in global memory.
template <class Params, class S>
struct GridSmemLayout {
  using F = typename Params::F;
  using Scope = GridScope<SoftmaxPart<F>, SoftmaxRow<F>>;
  using Stash = SmemStash<typename Params::In, S>;
  using Async = AsyncChunk<typename Params::In, S>;
  static constexpr bool kRetries =
      kHasOutOfRange<typename Params::In>;  // rows may come a second time
  static constexpr int kChunkWarps = 31;    // warps that have chunks
  static constexpr int kWarps = kChunkWarps + 1;

  struct alignas(16) Flags {
    int out_of_range;  // whether a row comes a second time
  };
  static constexpr std::size_t kStash = sizeof(Flags) + Scope::bytes();  // where the stash lies
  static constexpr std::size_t kAsync = kStash + Stash::bytes(kChunkWarps);
  static constexpr std::size_t kBytes = kAsync + Async::bytes(kChunkWarps);

  // Where rows may come a second time, each group has a second message and its row's maximum.
  static constexpr std::size_t scratch_bytes(std::size_t groups) {
    return kRetries ? Scope::scratch_bytes(2 * groups) + groups * sizeof(F)
                    : Scope::scratch_bytes(groups);
  }
};

// What a block does.
template <bool kLog, class Params, class S>
class GridSoftmax {
 public:
  using F = typename Params::F;
  using In = typename Params::In;
  using SmemLayout = GridSmemLayout<Params, S>;
  using Scope = typename SmemLayout::Scope;

  __device__ __forceinline__ GridSoftmax(const Params& params, const RoundRobinTiles& plan,
                                         unsigned char* smem)
      : params_(params),
        plan_(plan),
        smem_(smem),
        scope_(smem + sizeof(typename SmemLayout::Flags), plan) {}

  // All threads.
  __device__ __forceinline__ void run() const {
    // By a shuffle, so that the compiler knows that all lanes of a warp go the same way.
    const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x / kWarp), 0);
    if (SmemLayout::kRetries && threadIdx.x == 0) flags().out_of_range = 0;
    scope_.begin(SmemLayout::kRetries);
    if (warp == kChunkWarps) {
      scope_.wait_for_grid();
      receive_all();
    } else {
      weigh_all(warp);
    }
    if constexpr (SmemLayout::kRetries) {
      __syncthreads();
      if (flags().out_of_range != 0) retry_rows();
    }
  }

 private:
  using Chunk = RoundRobinTiles::Chunk;
  static constexpr int kChunks = RoundRobinTiles::kChunks, kChunkWarps = SmemLayout::kChunkWarps;

  __device__ __forceinline__ std::int64_t start(int operand, Chunk c) const {
    return row_starts<true>(params_.rows.outer, c.row).of[operand] + c.begin;
  }
  // The fragment of a chunk at `at`; x and out are aligned alike.
  template <class T>
  __device__ __forceinline__ S fragment(const T* at, Chunk c) const {
    return S(at, plan_.length - c.begin, S::kUnaligned ? reload_lane() : threadIdx.x % kWarp);
  }

  // One of the warps that have chunks: every kChunkWarps-th of the block's chunks.
  __device__ __forceinline__ void weigh_all(int warp) const {
    constexpr int V = S::kVector;
    const typename SmemLayout::Stash stash(smem_ + SmemLayout::kStash);
    const typename SmemLayout::Async async(smem_ + SmemLayout::kAsync);
    const int all = plan_.own() * kChunks;
    const auto fetch = [&](int i) {
      if (i >= all) return;
      const Chunk c = plan_.chunk(i);
      const In* const from = params_.x + start(kX, c);
      async.fetch(fragment(from, c), from, params_.x_end, plan_.length - c.begin);
    };
    F max_before = F(0);
    int i = warp;
    fetch(i);
#pragma unroll 1
    for (;; i += kChunkWarps) {
      const bool more = i < all;
      F x[S::kElements], max = F(0);
      if (more) {
        const Chunk c = plan_.chunk(i);
        const S mine = fragment(params_.x + start(kX, c), c);
        Vector<In, V> vectors[S::kElements / V];
        async.template take<false>(mine, kPad<In>, vectors);
        fetch(i + kChunkWarps);
        if constexpr (S::kUnaligned) __syncwarp();  // else the compiler duplicates what follows
        const LaneRange<F> range = widen_fragment<S>(vectors, mine.full(), x);
        max = greatest_of_lanes<kWarp>(range.max);
        const F sum = weigh<kLog, S, In>(x, max, range.min, mine.left() == 0);
        scope_.publish(i / kChunks, c.group, i % kChunks, {max, sum}, join_parts<F>);
      }
      if (i < kChunkWarps) scope_.wait_for_grid();
      if (i >= kChunkWarps) {
        const Chunk before = plan_.chunk(i - kChunkWarps);
        const SoftmaxRow<F> row = scope_.row((i - kChunkWarps) / kChunks);
        if (!SmemLayout::kRetries || kind_of_row(row.max) != RowKind::out_of_range) {
          const auto value = [&](int p, F(&y)[V]) { stash.get_vector(p, y); };
          const std::int64_t at = start(kOut, before);
          store_values<kLog, true>(params_, fragment(params_.out + at, before), at, 1, value,
                                   row.max, last_of_chunk<kLog, Params>(row, max_before));
        }
      }
      if (!more) return;
      stash.put(x);
      max_before = max;
    }
  }

  // The warp that receives the messages.
  __device__ __forceinline__ void receive_all() const {
    const int own = plan_.own();
    const auto first_message_of = [&](int i) { return plan_.row(plan_.group(i)) * plan_.groups; };
    typename Scope::Inbox inbox;
    scope_.poll(first_message_of(0), inbox);
#pragma unroll 1
    for (int i = 0; i < own; ++i) {
      const auto poll = [&] { scope_.poll(first_message_of(min(i + 1, own - 1)), inbox); };
      const SoftmaxRow<F> row = scope_.receive(i, first_message_of(i), inbox, poll, join_many<F>,
                                               finish_row<kLog, Params, F>);
      if (SmemLayout::kRetries && reload_lane() == 0) {
        row_maxima()[plan_.group(i)] = row.max;
        if (kind_of_row(row.max) == RowKind::out_of_range) flags().out_of_range = 1;
      }
    }
  }

  // All threads, at the end: rows whose maximum is out of exp's range, one after the other, with
  // the maximum taken from every element. They are rare, and nothing here is fast: no chunk is in
  // registers, and each is weighed once for its sum and once to be stored.
  __device__ __forceinline__ void retry_rows() const {
    const int own = plan_.own(), warp = reload_warp();
    int turn = own;  // own groups that come a second time are counted on
#pragma unroll 1
    for (int i = 0, count; i < own; i += count) {
      const int row = plan_.chunk(i * kChunks).row;
      const F shift = row_maxima()[plan_.group(i)];
      for (count = 1; i + count < own && plan_.chunk((i + count) * kChunks).row == row; ++count)
        continue;
      if (kind_of_row(shift) != RowKind::out_of_range) continue;
      if (warp == kChunkWarps)
        receive_retry(plan_.all() + row * plan_.groups, turn, count);
      else
        weigh_retry(i * kChunks, turn, count * kChunks, shift);
      turn += count;
      scope_.row(turn - 1);  // a warp that has nothing to store must not run ahead
    }
  }
  __device__ __forceinline__ void receive_retry(int first, int turn, int count) const {
#pragma unroll 1
    for (int k = 0; k < count; ++k) {
      typename Scope::Inbox inbox;
      scope_.poll(first, inbox);
      scope_.receive(
          turn + k, first, inbox, [] {}, join_many<F>, finish_row<kLog, Params, F>);
    }
  }
  // The block's `chunks` chunks from number `first` on, all of one row.
  __device__ __forceinline__ void weigh_retry(int first, int turn, int chunks, F shift) const {
#pragma unroll 1
    for (int k = reload_warp(); k < 2 * chunks; k += kChunkWarps) {
      const bool store = k >= chunks;
      const int i = store ? k - chunks : k, own = turn + i / kChunks;
      const Chunk c = plan_.chunk(first + i);
      const int lane = reload_lane(), left = max(0, min(kFoldChunk, plan_.length - c.begin));
      const In* const from = params_.x + start(kX, c);
      const auto element = [&](int j) { return widen(from[j]) - shift; };
      F max = -kInfinity<F>;
#pragma unroll 1
      for (int j = lane; j < left; j += kWarp) max = greatest_or_nan(max, element(j));
      max = greatest_of_lanes<kWarp>(max);
      const WeightScale<F> scale = weight_scale(max);
      if (store) {
        const SoftmaxRow<F> row = scope_.row(own);
        const LastStep<kLog, true, typename Params::Out, F> last_step(
            row.max, last_of_chunk<kLog, Params>(row, max));
#pragma unroll 1
        for (int j = lane; j < left; j += kWarp) {
          F y[1] = {kLog ? element(j) : weight<In>(element(j), scale)};
          last_step(y);
          params_.out[start(kOut, c) + j] = narrow<typename Params::Out>(y[0]);
        }
      } else {
        F* const weights =
            reinterpret_cast<F*>(smem_ + SmemLayout::kStash) + reload_warp() * kFoldChunk;
#pragma unroll 1
        for (int j = lane; j < kFoldChunk; j += kWarp)
          weights[j] = j < left ? weight<In>(element(j), scale) : F(0);
        const F sum = fold_in_memory(weights);
        scope_.publish(own, plan_.all() + c.group, i % kChunks, {max, sum}, join_parts<F>);
      }
    }
  }

  __device__ __forceinline__ typename SmemLayout::Flags& flags() const {
    return *reinterpret_cast<typename SmemLayout::Flags*>(smem_);
  }
  __device__ __forceinline__ F* row_maxima() const {  // by group
    const auto messages = Scope::scratch_bytes(2 * static_cast<std::size_t>(plan_.all()));
    return reinterpret_cast<F*>(static_cast<unsigned char*>(plan_.messages) + messages);
  }

  const Params& params_;
  const RoundRobinTiles& plan_;
  unsigned char* smem_;
  Scope scope_;
};

template <bool kLog, class Params, class S>
__global__ void __launch_bounds__(GridSmemLayout<Params, S>::kWarps* kWarp, 1)
    softmax_grid_kernel(const __grid_constant__ Params params,
                        const __grid_constant__ RoundRobinTiles plan) {
  TWINOPS_DYNAMIC_SHARED(smem);
  const GridSoftmax<kLog, Params, S> block(params, plan, smem);
  block.run();
}

}  // namespace twinops
