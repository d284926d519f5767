// The kernels of softmax_grad and log_softmax_grad over rows that lie across memory
// (across_rows.cuh): as softmax_across_kernel.cuh, with a plain folded sum. y and dy stay in
// registers as they are stored, where a block has registers for a row; else they are read twice.
#pragma once

#include "kernels_cuda/softmax/grad_block_kernel.cuh"
#include "kernels_cuda/strided_rows/fold.cuh"

namespace twinops {

template <class In_, class Out_>
struct GradAcrossJob {
  using In = In_;
  using Out = Out_;
  using F = compute_t<In>;

  const In* y;
  const In* dy;
  Out* dx;
  Rows<3, kFewAxes> rows;
  AcrossPlan plan;
  F scale;
};

// A block's shared memory: of the chunks at once, then, where a row has several, of the whole row.
template <class F>
struct GradAcrossRoom {
  AcrossRoom<F> sum;
  F* parts;   // [row][chunk]
  F* of_row;  // [row]

  __host__ __device__ static constexpr std::size_t bytes(const AcrossPlan& plan, int V) {
    const std::size_t rows = static_cast<std::size_t>(plan.lanes()) * V;
    const std::size_t joined = plan.warps_log == 0 ? 0 : rows * (plan.warps() + 2) * plan.at_once;
    return (plan.chunks == 1 ? joined : joined + rows * (plan.chunks + 1)) * sizeof(F);
  }
  __device__ __forceinline__ GradAcrossRoom(void* memory, const AcrossPlan& plan, int V,
                                            int group) {
    const int rows = plan.lanes() * V;
    F* of_group = static_cast<F*>(memory);
    if (plan.chunks > 1) {
      parts = of_group;
      of_row = parts + rows * plan.chunks;
      of_group = of_row + rows;
    }
    of_group += group * rows * (plan.warps() + 2);
    sum = {of_group, of_group + rows * (plan.warps() + 1)};
  }
};

// A chunk of V rows in K registers each, of y and of dy.
template <bool kLog, class Job, int V, int K>
struct GradChunkAcross {
  using In = typename Job::In;
  using Out = typename Job::Out;
  using F = typename Job::F;
  using Packs = rows_across_t<In, V>;
  Packs y[K], dy[K];

  // From where y and dy of the chunk begin.
  __device__ __forceinline__ void load(const Job& job, const AcrossPlace<V>& of, const In* y_at,
                                       const In* dy_at, int left) {
    load_across<0>(of, y_at, job.rows.step[1], left, In{}, y);
    load_across<0>(of, dy_at, job.rows.step[2], left, In{}, dy);
  }
  __device__ __forceinline__ void sum(F (&sum)[V]) const {
    fold_registers<K>(sum, [&](int k, F(&s)[V]) {
      F ys[V], dys[V];
      widen_across(y[k], ys);
      widen_across(dy[k], dys);
#pragma unroll
      for (int v = 0; v < V; ++v) s[v] = grad_term<kLog, F>(ys[v], dys[v]);
    });
  }
  // Joined with what others have of the same chunk.
  __device__ __forceinline__ void sum(const AcrossPlan& plan, const AcrossPlace<V>& of,
                                      AcrossRoom<F> room, F (&s)[V]) const {
    const auto add = [](F a, F b) { return a + b; };
    sum(s);
    join_lanes_across(plan, s, add);
    join_warps_across(plan, of, room, s, add, JoinedAsItIs{});
  }
  // Else what was widened for the sum stays in registers, of which that takes two times as many
  // (softmax_grad of bfloat16 spilled 14 of them).
  __device__ __forceinline__ void forget() {
    if constexpr (sizeof(In) == 2 && V > 1) {
#pragma unroll
      for (int k = 0; k < K; ++k)
#pragma unroll
        for (int i = 0; i < Packs::kCount; ++i) {
          forget_word(y[k].of[i]);
          forget_word(dy[k].of[i]);
        }
    }
  }
  __device__ __forceinline__ void store(const Job& job, const AcrossPlace<V>& of, Out* at, int left,
                                        const F (&sum)[V]) const {
    const auto store_by = [&](auto&& grad) {
      store_across<false, 0, V, K>(of, at, job.rows.step[0], left, [&](int k, F(&dx)[V]) {
        F ys[V], dys[V];
        widen_across(y[k], ys);
        widen_across(dy[k], dys);
#pragma unroll
        for (int v = 0; v < V; ++v) dx[v] = grad(ys[v], dys[v], sum[v]);
      });
    };
    if constexpr (kLog && sizeof(F) == 4)
      if (__all_sync(kAllLanes, y_magnitude() <= ExpTable<F>::kNormal))
        return store_by(
            [&](F y, F dy, F sum) { return normal_log_softmax_grad<In>(y, dy, sum, job.scale); });
    store_by([&](F y, F dy, F sum) { return softmax_grad<kLog, In, F>(y, dy, sum, job.scale); });
  }

 private:
  __device__ __forceinline__ F y_magnitude() const {
    GreatestSize<In> most;
#pragma unroll
    for (const Packs& pack : y)
      if constexpr (V > 1)
        for (const std::uint32_t word : pack.of) most.take(word);
      else if constexpr (sizeof(In) == 2)
        most.take(bit_cast<std::uint16_t>(pack));
      else
        most.take(bit_cast<std::uint32_t>(pack));
    return most.value();
  }
};

// Rows of up to a chunk, to dx, which may be dy or y.
template <bool kLog, int K, class Job, int V>
__device__ __forceinline__ void grad_across(const Job& job, const AcrossPlan& plan,
                                            const AcrossPlace<V>& of,
                                            const AcrossRoom<typename Job::F>& room,
                                            const typename Job::In* y, const typename Job::In* dy,
                                            typename Job::Out* dx) {
  using F = typename Job::F;
  const int left = static_cast<int>(job.rows.length);
  GradChunkAcross<kLog, Job, V, K> chunk;
  F sum[V];
  chunk.load(job, of, y, dy, left);
  chunk.sum(plan, of, room, sum);
#pragma unroll
  for (F& s : sum) s = s + F(0);
  chunk.forget();
  chunk.store(job, of, dx, left, sum);
}

template <bool kLog, class Job, int V, int K>
__global__ void __launch_bounds__(1024) grad_across_kernel(const __grid_constant__ Job job) {
  TWINOPS_DYNAMIC_SHARED(memory);
  const AcrossPlan& plan = job.plan;
  const AcrossPlace<V> of(plan, job.rows.rows, false);
  const GradAcrossRoom<typename Job::F> room(memory, plan, V, of.group);
  const RowStarts<3> starts = across_starts(plan, job.rows.outer, of.row);
  grad_across<kLog, K>(job, plan, of, room.sum, job.y + starts.of[1], job.dy + starts.of[2],
                       job.dx + starts.of[0]);
}

// Rows of several chunks.
template <bool kLog, class Job, int V, int K>
__global__ void __launch_bounds__(1024) grad_across_long_kernel(const __grid_constant__ Job job) {
  using F = typename Job::F;
  TWINOPS_DYNAMIC_SHARED(memory);
  const AcrossPlan& plan = job.plan;
  arrive_across(plan);
  const AcrossPlace<V> of(plan, job.rows.rows, true);
  const int first = static_cast<int>(blockIdx.x % plan.blocks) * plan.at_once;  // chunk
  const GradAcrossRoom<F> room(memory, plan, V, of.group);
  const RowStarts<3> starts = across_starts(plan, job.rows.outer, of.row);
  const auto left_at = [&](int c) { return left_of_chunk(job.rows.length, c); };
  const auto start = [&](int k, int c) {
    return starts.of[k] + std::int64_t{c} * kFoldChunk * job.rows.step[k];
  };
  GradChunkAcross<kLog, Job, V, K> chunk;
  F sum[V];
  const auto load = [&](int c) {
    chunk.load(job, of, job.y + start(1, c), job.dy + start(2, c), left_at(c));
  };
#pragma unroll 1
  for (int c = first + of.group; c - of.group < plan.chunks; c += plan.at_work()) {
    load(c);
    chunk.sum(plan, of, room.sum, sum);
    if (c == first + of.group) wait_across(plan);
    if (of.warp == 0 && of.place == 0 && c < plan.chunks) {
#pragma unroll
      for (int v = 0; v < V; ++v)
        send_across(plan, room.parts + (of.side * V + v) * plan.chunks + c, sum[v]);
    }
  }
  cluster_barrier(plan.blocks);
  join_chunks_across<F>(
      plan, plan.lanes() * V, [&](int row, int c) { return room.parts[row * plan.chunks + c]; },
      [](F part) { return fold_neighbours(part); },
      [&](int row, F part) { room.of_row[row] = part + F(0); });
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = room.of_row[of.side * V + v];
#pragma unroll 1
  for (int c = first + of.group; c < plan.chunks; c += plan.at_work()) {
    if (plan.at_work() < plan.chunks) load(c);
    chunk.store(job, of, job.dx + start(0, c), left_at(c), sum);
  }
}

}  // namespace twinops
