// The kernels of softmax_grad and log_softmax_grad of strided rows (strided_rows/lanes.cuh), as
// strided_kernel.cuh, with a plain folded sum. y and dy stay in registers as they are stored in
// memory, where a block has registers for a row; else they are read twice. dx is written once.
#pragma once

#include "kernels_cuda/softmax/softmax_grad_op.cuh"
#include "kernels_cuda/strided_rows/fold.cuh"

namespace twinops {

template <class In_, class Out_>
struct StridedGradParams {
  using In = In_;
  using Out = Out_;
  using F = compute_t<In>;

  const In* y;
  const In* dy;
  Out* dx;
  Rows<3, kKernelAxes> rows;
  StridedPlan plan;
  F scale;
};

// A block's shared memory: of the chunks that it has at once and, where a row has several, of the
// whole row.
template <class F>
struct StridedGradSmem {
  StridedSmem<F> sum;
  F* parts;   // [row][chunk]
  F* of_row;  // [row]

  __host__ __device__ static constexpr std::size_t bytes(const StridedPlan& plan, int V) {
    const std::size_t rows = static_cast<std::size_t>(plan.lanes()) * V;
    const std::size_t joined = plan.warps_log == 0 ? 0 : rows * (plan.warps() + 2) * plan.at_once;
    return (plan.chunks == 1 ? joined : joined + rows * (plan.chunks + 1)) * sizeof(F);
  }
  __device__ __forceinline__ StridedGradSmem(void* smem, const StridedPlan& plan, int V,
                                             int group) {
    const int rows = plan.lanes() * V;
    F* of_group = static_cast<F*>(smem);
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
template <bool kLog, class Params, int V, int K>
struct StridedGradChunk {
  using In = typename Params::In;
  using Out = typename Params::Out;
  using F = typename Params::F;
  using Vectors = strided_rows_t<In, V>;
  Vectors y[K], dy[K];

  // Loads the chunk from where its y and dy begin.
  __device__ __forceinline__ void load(const Params& params, const StridedPlace<V>& of,
                                       const In* y_at, const In* dy_at, int left) {
    load_strided<0>(of, y_at, params.rows.step[kY], left, In{}, y);
    load_strided<0>(of, dy_at, params.rows.step[kDy], left, In{}, dy);
  }
  __device__ __forceinline__ void sum(F (&sum)[V]) const {
    fold_registers<K>(sum, [&](int k, F(&s)[V]) {
      F ys[V], dys[V];
      widen_strided(y[k], ys);
      widen_strided(dy[k], dys);
#pragma unroll
      for (int v = 0; v < V; ++v) s[v] = grad_term<kLog, F>(ys[v], dys[v]);
    });
  }
  // The same, joined with what other threads have of the chunk.
  __device__ __forceinline__ void sum(const StridedPlan& plan, const StridedPlace<V>& of,
                                      StridedSmem<F> shared, F (&s)[V]) const {
    const auto add = [](F a, F b) { return a + b; };
    sum(s);
    join_strided_lanes(plan, s, add);
    join_strided_warps(plan, of, shared, s, add, NoFinish{});
  }
  // Makes y and dy opaque between the sum and the store: else what was widened for the sum stays in
  // registers, and that takes two times as many.
  __device__ __forceinline__ void forget() {
    if constexpr (sizeof(In) == 2 && V > 1) {
#pragma unroll
      for (int k = 0; k < K; ++k)
#pragma unroll
        for (int i = 0; i < Vectors::kCount; ++i) {
          make_word_opaque(y[k].of[i]);
          make_word_opaque(dy[k].of[i]);
        }
    }
  }
  __device__ __forceinline__ void store(const Params& params, const StridedPlace<V>& of, Out* at,
                                        int left, const F (&sum)[V]) const {
    const auto store_by = [&](auto&& grad) {
      store_strided<false, 0, V, K>(of, at, params.rows.step[kDx], left, [&](int k, F(&dx)[V]) {
        F ys[V], dys[V];
        widen_strided(y[k], ys);
        widen_strided(dy[k], dys);
#pragma unroll
        for (int v = 0; v < V; ++v) dx[v] = grad(ys[v], dys[v], sum[v]);
      });
    };
    if constexpr (kLog && sizeof(F) == 4)
      if (__all_sync(kAllLanes, y_magnitude() <= ExpTable<F>::kNormal))
        return store_by([&](F y, F dy, F sum) {
          return normal_log_softmax_grad<In>(y, dy, sum, params.scale);
        });
    store_by([&](F y, F dy, F sum) { return softmax_grad<kLog, In, F>(y, dy, sum, params.scale); });
  }

 private:
  __device__ __forceinline__ F y_magnitude() const {
    GreatestSize<In> most;
#pragma unroll
    for (const Vectors& vector : y)
      if constexpr (V > 1)
        for (const std::uint32_t word : vector.of) most.take(word);
      else if constexpr (sizeof(In) == 2)
        most.take(bit_cast<std::uint16_t>(vector));
      else
        most.take(bit_cast<std::uint32_t>(vector));
    return most.value();
  }
};

// Rows of up to a chunk, to dx, which may be dy or y.
template <bool kLog, int K, class Params, int V>
__device__ __forceinline__ void grad_strided_rows(const Params& params, const StridedPlan& plan,
                                                  const StridedPlace<V>& of,
                                                  const StridedSmem<typename Params::F>& shared,
                                                  const typename Params::In* y,
                                                  const typename Params::In* dy,
                                                  typename Params::Out* dx) {
  using F = typename Params::F;
  const int left = static_cast<int>(params.rows.length);
  StridedGradChunk<kLog, Params, V, K> chunk;
  F sum[V];
  chunk.load(params, of, y, dy, left);
  chunk.sum(plan, of, shared, sum);
#pragma unroll
  for (F& s : sum) s = s + F(0);
  chunk.forget();
  chunk.store(params, of, dx, left, sum);
}

template <bool kLog, class Params, int V, int K>
__global__ void __launch_bounds__(1024) grad_strided_kernel(const __grid_constant__ Params params) {
  TWINOPS_DYNAMIC_SHARED(smem);
  const StridedPlan& plan = params.plan;
  const StridedPlace<V> of(plan, params.rows.rows, false);
  const StridedGradSmem<typename Params::F> shared(smem, plan, V, of.group);
  const RowStarts<3> starts = strided_starts(plan, params.rows.outer, of.row);
  grad_strided_rows<kLog, K>(params, plan, of, shared.sum, params.y + starts.of[kY],
                             params.dy + starts.of[kDy], params.dx + starts.of[kDx]);
}

// Rows of several chunks.
template <bool kLog, class Params, int V, int K>
__global__ void __launch_bounds__(1024)
    grad_strided_chunks_kernel(const __grid_constant__ Params params) {
  using F = typename Params::F;
  TWINOPS_DYNAMIC_SHARED(smem);
  const StridedPlan& plan = params.plan;
  arrive_strided(plan);
  const StridedPlace<V> of(plan, params.rows.rows, true);
  const int first = static_cast<int>(blockIdx.x % plan.blocks) * plan.at_once;  // chunk
  const StridedGradSmem<F> shared(smem, plan, V, of.group);
  const RowStarts<3> starts = strided_starts(plan, params.rows.outer, of.row);
  const auto left_at = [&](int c) { return left_of_chunk(params.rows.length, c); };
  const auto start = [&](int k, int c) {
    return starts.of[k] + std::int64_t{c} * kFoldChunk * params.rows.step[k];
  };
  StridedGradChunk<kLog, Params, V, K> chunk;
  F sum[V];
  const auto load = [&](int c) {
    chunk.load(params, of, params.y + start(kY, c), params.dy + start(kDy, c), left_at(c));
  };
#pragma unroll 1
  for (int c = first + of.group; c - of.group < plan.chunks; c += plan.at_work()) {
    load(c);
    chunk.sum(plan, of, shared.sum, sum);
    if (c == first + of.group) wait_strided(plan);
    if (of.warp == 0 && of.place == 0 && c < plan.chunks) {
#pragma unroll
      for (int v = 0; v < V; ++v)
        send_strided(plan, shared.parts + (of.side * V + v) * plan.chunks + c, sum[v]);
    }
  }
  cluster_barrier(plan.blocks);
  join_strided_chunks<F>(
      plan, plan.lanes() * V, [&](int row, int c) { return shared.parts[row * plan.chunks + c]; },
      [](F part) { return fold_neighbours(part); },
      [&](int row, F part) { shared.of_row[row] = part + F(0); });
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = shared.of_row[of.side * V + v];
#pragma unroll 1
  for (int c = first + of.group; c < plan.chunks; c += plan.at_work()) {
    if (plan.at_work() < plan.chunks) load(c);
    chunk.store(params, of, params.dx + start(kDx, c), left_at(c), sum);
  }
}

}  // namespace twinops
