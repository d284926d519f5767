// The kernels of softmax and log_softmax of strided rows (strided_rows/lanes.cuh). Rows of up to a
// chunk, and of as many chunks as a block or a cluster has warps for, stay in registers: x is read
// once, out is written once. Longer rows are read twice, and their chunks' maxima and sums wait in
// shared memory. The sum is a fold over registers, then lanes, then warps.
//
// In 16 bits instructions are the limit, so a thread holds many values; the compiler has to know
// how many blocks are to be at work. What was measured and tried:
// docs/lab/softmax-strided-kernels.md#threads-of-many-values.
#pragma once

#include "kernels_cuda/softmax/softmax_op.cuh"
#include "kernels_cuda/strided_rows/fold.cuh"

namespace twinops {

template <class In_, class Out_>
struct StridedSoftmaxParams {
  using In = In_;
  using Out = Out_;
  using F = compute_t<In>;

  const In* x;
  Out* out;
  Rows<2, kKernelAxes> rows;
  StridedPlan plan;
  bool masked_is_zero;
};

// A block's shared memory: of the chunks that it has at once and, where a row has several, of the
// whole row.
template <class F>
struct StridedSoftmaxSmem {
  StridedSmem<F> max, sum;
  SoftmaxPart<F>* parts;  // [row][chunk]
  SoftmaxRow<F>* of_row;
  F* shift;  // [row]: what is taken from every element

  __host__ __device__ static constexpr std::size_t bytes(const StridedPlan& plan, int V) {
    const std::size_t rows = static_cast<std::size_t>(plan.lanes()) * V;
    const std::size_t joined =
        plan.warps_log == 0 ? 0 : rows * (plan.warps() + 3) * plan.at_once * sizeof(F);
    const std::size_t of_rows = rows * ((plan.chunks + 1) * sizeof(SoftmaxPart<F>) + sizeof(F));
    return plan.chunks == 1 ? joined : joined + of_rows;
  }
  __device__ __forceinline__ StridedSoftmaxSmem(void* smem, const StridedPlan& plan, int V,
                                                int group) {
    const int rows = plan.lanes() * V, each = rows * (plan.warps() + 3);
    parts = static_cast<SoftmaxPart<F>*>(smem);
    F* of_group = static_cast<F*>(smem);
    if (plan.chunks > 1) {
      of_row = reinterpret_cast<SoftmaxRow<F>*>(parts + rows * plan.chunks);
      shift = reinterpret_cast<F*>(of_row + rows);
      of_group = shift + rows;
    }
    of_group += group * each;
    max = {of_group, of_group + rows * (plan.warps() + 1)};
    sum = {of_group, max.joined + rows};
  }
};

// What the elements of a row of one chunk need of its sum. One thread computes it for all that hold
// the row.
template <bool kLog, class Params, int V, class F>
struct FinishRow {
  static constexpr bool kExpensive = kLog;
  const StridedPlan& plan;
  const StridedPlace<V>& of;
  const F (&max)[V];
  const F* max_of_rows;

  __device__ __forceinline__ void by_lanes(F (&v)[V]) const {
    if (V > 1 && plan.places() >= V) {
      const F last =
          finish_row<kLog, Params>(SoftmaxPart<F>{pick_row(max, of.place), pick_row(v, of.place)})
              .last;
#pragma unroll
      for (int e = 0; e < V; ++e)
        v[e] = __shfl_sync(kAllLanes, last, (e << plan.lanes_log) + of.side);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e)
        v[e] = finish_row<kLog, Params>(SoftmaxPart<F>{max[e], v[e]}).last;
    }
  }
  __device__ __forceinline__ F of_row(int row, F sum) const {
    F m = max_of_rows[row];
    if (kind_of_row(m) == RowKind::out_of_range) m = F(0);
    return finish_row<kLog, Params>(SoftmaxPart<F>{m, sum}).last;
  }
};

// A chunk of V rows in K registers each, the first kSure of which lie in the row. kShort: the chunk
// is all of the row.
template <bool kLog, class Params, int V, int K, int kSure, bool kShort>
struct StridedChunk {
  using In = typename Params::In;
  using Out = typename Params::Out;
  using F = typename Params::F;
  static constexpr bool kTwo = sizeof(In) == 2 && V > 1;  // elements an instruction
  static constexpr bool kNormal =
      kTwo && kShort;  // looks for rows all of whose weights are normal numbers
  F x[K][V];
  strided_rows_t<In, V> least;  // of each row's elements in this thread; if kNormal
  int registers;                // that hold elements of the row

  // Loads the chunk, and finds the greatest element of each row.
  __device__ __forceinline__ void load(const StridedPlan& plan, const StridedPlace<V>& of,
                                       const In* at, std::int64_t step, int left, F (&max)[V]) {
    strided_rows_t<In, V> vectors[K];
    load_strided<kSure>(of, at, step, left, kPad<In>, vectors);
#pragma unroll
    for (int k = 0; k < K; ++k) widen_strided(vectors[k], x[k]);
    registers = of.registers(left);
    if constexpr (kTwo) {
      strided_rows_t<In, V> greatest = vectors[0];
      least = vectors[0];
#pragma unroll
      for (int k = 1; k < K; ++k)
#pragma unroll
        for (int i = 0; i < V / 2; ++i) {
          greatest.of[i] = greater_two<In>(greatest.of[i], vectors[k].of[i]);
          if (kNormal && (k < kSure || k < registers))
            least.of[i] = lesser_two<In>(least.of[i], vectors[k].of[i]);
        }
      join_strided_lanes(plan, greatest.of, greater_two<In>);
#pragma unroll
      for (std::uint32_t& two : greatest.of)
        two = greater_two<In>(two, two);  // if one of them is NaN, both
      widen_strided(greatest, max);
    } else {
      find_greatest(max);
      join_strided_lanes(plan, max, [](F a, F b) { return greatest_or_nan(a, b); });
    }
  }
  // Takes `by` from every element of a row.
  __device__ __forceinline__ void move(int v, F by) {
#pragma unroll
    for (int k = 0; k < K; ++k) x[k][v] = x[k][v] - by;
    if constexpr (kNormal) least = fill_strided<V>(kPad<In>);  // no longer looks for normal weights
  }
  __device__ __forceinline__ void find_greatest(F (&max)[V]) const {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      max[v] = x[0][v];
#pragma unroll
      for (int k = 1; k < K; ++k) max[v] = greatest_or_nan(max[v], x[k][v]);
    }
  }
  // The sums of weights over registers; x becomes the weights, except in log_softmax (kLog).
  __device__ __forceinline__ void weigh(const F (&max)[V], F (&sum)[V]) {
    const auto weigh_by = [&](auto&& weight_of) {
      fold_registers<K>(sum, [&](int k, F(&s)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          s[v] = weight_of(k, v);
          if constexpr (!kLog) x[k][v] = s[v];
        }
      });
    };
    if constexpr (kNormal) {
      F magic[V], low[V];
      widen_strided(least, low);
      bool normal = true;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        magic[v] = weight_magic(max[v]);
        normal &= weight_is_normal(low[v], magic[v]);
      }
      if (__all_sync(kAllLanes, normal))
        return weigh_by([&](int k, int v) {
          return k < kSure || k < registers ? normal_weight<In>(x[k][v], magic[v]) : F(0);
        });
    }
    WeightScale<F> scale[V];
#pragma unroll
    for (int v = 0; v < V; ++v) scale[v] = weight_scale(max[v]);
    weigh_by([&](int k, int v) { return weight<In>(x[k][v], scale[v]); });
  }
  // x becomes the result first: stores that reuse registers wait for those before them.
  __device__ __forceinline__ void store(const Params& params, const StridedPlace<V>& of, Out* at,
                                        int left, const F (&max)[V], const F (&last)[V]) {
    const std::int64_t step = params.rows.step[kOut];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const LastStep<kLog, true, Out, F> last_step(max[v], last[v]);
      F y[K];
#pragma unroll
      for (int k = 0; k < K; ++k) y[k] = x[k][v];
      last_step(y);
#pragma unroll
      for (int k = 0; k < K; ++k) x[k][v] = y[k];
    }
    store_strided<sizeof(F) == 4, kSure, V, K>(of, at, step, left, [&](int k, F(&y)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) y[v] = x[k][v];
    });
    if (all_ordinary(max)) return;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const RowKind kind = kind_of_row(max[v]);
      if (kind != RowKind::ordinary)  // is stored once more
        fill_strided_row(of, at + v, step, left,
                         narrow<Out>(special_row<F>(kind, params.masked_is_zero, kLog)));
    }
  }
  __device__ __forceinline__ static bool all_ordinary(const F (&max)[V]) {
    bool yes = true;
#pragma unroll
    for (int v = 0; v < V; ++v) yes &= abs(max[v]) <= kExpReach<F>;
    return yes;
  }
};

// Rows of up to a chunk, from x to out, which may be the same memory. Chunk: a StridedChunk.
template <bool kLog, class Chunk, class Params, int V>
__device__ __forceinline__ void softmax_strided_rows(
    const Params& params, const StridedPlan& plan, const StridedPlace<V>& of,
    const StridedSoftmaxSmem<typename Params::F>& shared, const typename Params::In* x,
    typename Params::Out* out) {
  using F = typename Params::F;
  const int left = static_cast<int>(params.rows.length);
  Chunk chunk;
  F max[V], last[V];
  chunk.load(plan, of, x, params.rows.step[kX], left, max);
  join_strided_warps(
      plan, of, shared.max, max, [](F a, F b) { return greatest_or_nan(a, b); }, NoFinish{});
  if (!Chunk::all_ordinary(max)) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (kind_of_row(max[v]) != RowKind::out_of_range) continue;
      chunk.move(v, max[v]);
      max[v] = F(0);
    }
  }
  chunk.weigh(max, last);
  const auto add = [](F a, F b) { return a + b; };
  join_strided_lanes(plan, last, add);
  join_strided_warps(plan, of, shared.sum, last, add,
                     FinishRow<kLog, Params, V, F>{plan, of, max, shared.max.joined});
  chunk.store(params, of, out, left, max, last);
}

// In K registers of a thread, the last kMaybe of which may lie beyond the row.
template <bool kLog, class Params, int V, int K, int kMaybe, bool kMany>
__global__ void __launch_bounds__(kStridedThreads<kMany>,
                                  kStridedBlocks<kMany, typename Params::F, V * K>)
    softmax_strided_kernel(const __grid_constant__ Params params) {
  TWINOPS_DYNAMIC_SHARED(smem);
  const StridedPlan& plan = params.plan;
  const StridedPlace<V> of(plan, params.rows.rows, false);
  const StridedSoftmaxSmem<typename Params::F> shared(smem, plan, V, of.group);
  const RowStarts<2> starts = strided_starts(plan, params.rows.outer, of.row);
  softmax_strided_rows<kLog, StridedChunk<kLog, Params, V, K, K - kMaybe, true>>(
      params, plan, of, shared, params.x + starts.of[kX], params.out + starts.of[kOut]);
}

// Rows of several chunks.
template <bool kLog, class Params, int V, int K, bool kMany>
__global__ void __launch_bounds__(kStridedThreads<kMany>,
                                  kStridedBlocks<kMany, typename Params::F, V * K>)
    softmax_strided_chunks_kernel(const __grid_constant__ Params params) {
  using F = typename Params::F;
  TWINOPS_DYNAMIC_SHARED(smem);
  const StridedPlan& plan = params.plan;
  arrive_strided(plan);
  const StridedPlace<V> of(plan, params.rows.rows, true);
  const int first = static_cast<int>(blockIdx.x % plan.blocks) * plan.at_once;  // chunk
  const StridedSoftmaxSmem<F> shared(smem, plan, V, of.group);
  const RowStarts<2> starts = strided_starts(plan, params.rows.outer, of.row);
  const auto left_at = [&](int c) { return left_of_chunk(params.rows.length, c); };
  StridedChunk<kLog, Params, V, K, 0, false> chunk;
  bool moved = false;
  const auto load = [&](int c, F(&max)[V]) {
    chunk.load(plan, of, params.x + starts.of[kX] + c * kFoldChunk * params.rows.step[kX],
               params.rows.step[kX], left_at(c), max);
    if (!moved) return;
#pragma unroll
    for (int v = 0; v < V; ++v) chunk.move(v, shared.shift[of.side * V + v]);
    chunk.find_greatest(max);
    join_strided_lanes(plan, max, [](F a, F b) { return greatest_or_nan(a, b); });
  };
  const auto part_of = [&](int v, int c) -> SoftmaxPart<F>& {
    return shared.parts[(of.side * V + v) * plan.chunks + c];
  };

  F row_max[V];
  while (true) {
#pragma unroll 1
    for (int c = first + of.group; c - of.group < plan.chunks; c += plan.at_work()) {
      F max[V], sum[V];
      const auto add = [](F a, F b) { return a + b; };
      load(c, max);
      join_strided_warps(
          plan, of, shared.max, max, [](F a, F b) { return greatest_or_nan(a, b); }, NoFinish{});
      chunk.weigh(max, sum);
      join_strided_lanes(plan, sum, add);
      join_strided_warps(plan, of, shared.sum, sum, add, NoFinish{});
      if (c == first + of.group) wait_strided(plan);
      if (of.warp == 0 && of.place == 0 && c < plan.chunks) {
#pragma unroll
        for (int v = 0; v < V; ++v)
          send_strided(plan, &part_of(v, c), SoftmaxPart<F>{max[v], sum[v]});
      }
    }
    cluster_barrier(plan.blocks);
    join_strided_chunks<SoftmaxPart<F>>(
        plan, plan.lanes() * V, [&](int row, int c) { return shared.parts[row * plan.chunks + c]; },
        [](SoftmaxPart<F> part) { return join_lanes(part); },
        [&](int row, SoftmaxPart<F> part) { shared.of_row[row] = finish_row<kLog, Params>(part); });
    __syncthreads();
    bool out_of_range = false;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      row_max[v] = shared.of_row[of.side * V + v].max;
      out_of_range |= kind_of_row(row_max[v]) == RowKind::out_of_range;
    }
    if (__syncthreads_or(out_of_range) == 0) break;  // the same in every block of the cluster
    for (int row = threadIdx.x; row < plan.lanes() * V; row += blockDim.x) {
      const F max = shared.of_row[row].max;
      shared.shift[row] = kind_of_row(max) == RowKind::out_of_range ? max : F(0);
    }
    moved = true;
    cluster_barrier(plan.blocks);
    arrive_strided(plan);
  }

#pragma unroll 1
  for (int c = first + of.group; c < plan.chunks; c += plan.at_work()) {
    F max[V], last[V];
    const bool kept = plan.at_work() >= plan.chunks;
    if (!kept) load(c, max);
#pragma unroll
    for (int v = 0; v < V; ++v) max[v] = part_of(v, c).max;
    if (!kLog && !kept) chunk.weigh(max, last);
#pragma unroll
    for (int v = 0; v < V; ++v)
      last[v] = last_of_chunk<kLog, Params>(shared.of_row[of.side * V + v], max[v]);
    chunk.store(params, of, params.out + starts.of[kOut] + c * kFoldChunk * params.rows.step[kOut],
                left_at(c), row_max, last);
  }
}

}  // namespace twinops
