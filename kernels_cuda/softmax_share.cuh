// What the kernels of softmax and log_softmax do with a lane's share of a chunk: read it under
// scale and mask, weigh it, join it with the row's other chunks, and store what it becomes.
#pragma once

#include "kernels_cuda/row_fold.cuh"
#include "kernels_cuda/row_launch.cuh"
#include "kernels_cuda/row_share.cuh"
#include "kernels_cuda/row_starts.cuh"
#include "numerics/softmax.hpp"
#include "operators/softmax.hpp"

namespace twinops {

template <class In_, class Out_>
struct SoftmaxJob {
  using In = In_;
  using Out = Out_;
  using F = compute_t<In>;
  static constexpr int kMostWarps = kRowWarps<F>;  // of a block

  const In* x;
  const In* x_end;
  Out* out;
  Rows<2> rows;
  bool ragged;                 // rows in packs that need not be whole
  bool masked_is_zero, plain;  // plain: softmax of x itself
  F scale;
  RowMask mask;
};

template <class T>
inline constexpr T kPad = -kInfinity<T>;  // beyond a row: weights of +0
template <>
inline constexpr float16 kPad<float16> = portable::narrow_float16(-kInfinity<float>);
template <>
inline constexpr bfloat16 kPad<bfloat16> = portable::narrow_bfloat16(-kInfinity<float>);

// What is added to the elements of a row under the scale, from its element `begin` on.
template <class In>
struct RowAddend {
  using F = compute_t<In>;
  RowMask::Kind kind;
  const void* data;
  std::int64_t at, step;
  F scale;

  __device__ __forceinline__ F of(int i) const {
    const std::int64_t place = at + i * step;
    switch (kind) {
      case RowMask::Kind::none:
        return F(0);
      case RowMask::Kind::excluded:
        return static_cast<const std::uint8_t*>(data)[place] != 0 ? -kInfinity<F> : F(0);
      case RowMask::Kind::added:
        return widen(static_cast<const In*>(data)[place]);
      default:
        return static_cast<F>(static_cast<const float*>(data)[place]);
    }
  }
};

// Shared memory of a block for its threads' shares, and this thread's part. A place between threads
// keeps them in different banks.
template <class S, class F>
constexpr std::size_t room_of_shares(std::size_t threads) {
  return threads * (S::kElements + 1) * sizeof(F);
}
template <class S, class F>
__device__ __forceinline__ F* place_in(void* room) {
  return static_cast<F*>(room) + threadIdx.x * (S::kElements + 1);
}

// Puts a share in shared memory under scale and mask; elements from `left` on are masked out. Not
// inlined: unrolled over a share's elements it would be most of a kernel's code.
template <class S, class In, class F>
__device__ __noinline__ void mask_share(S share, RowAddend<In> addend, int left, F* mine) {
  constexpr int V = S::kPack;
#pragma unroll 1
  for (int i = 0; i < S::kElements; i += V)
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const int j = share.element(i / V, e);
      mine[i + e] =
          j < left ? scaled_and_masked(mine[i + e], addend.scale, addend.of(j)) : -kInfinity<F>;
    }
}

// A lane's share of what softmax is taken of, from element `begin` of a row on, which lies at `at`.
// What is not plain goes through shared memory, `room`.
template <class S, class Job, class F = typename Job::F>
__device__ __forceinline__ void load_share(const Job& job, const S& share, std::int64_t r,
                                           const typename Job::In* at, std::int64_t step,
                                           std::int64_t begin, void* room, F (&x)[S::kElements]) {
  using In = typename Job::In;
  if (job.plain) return share.load(at, step, kPad<In>, x);
  constexpr int V = S::kPack;
  const RowStarts<RowMask::kOperands> starts = row_starts(job.mask.outer, r);
  const std::int64_t columns = job.mask.columns(starts.of, job.rows.length);
  const int left =
      static_cast<int>(max(std::int64_t{0}, min(std::int64_t{share.left()}, columns - begin)));
  // Elements that do not count are not read, but for those that fill a pack of a whole row.
  share.cut_to(job.ragged ? left : (left + V - 1) & -V).load(at, step, kPad<In>, x);
  F* const mine = place_in<S, F>(room);
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) mine[i] = x[i];
  const RowAddend<In> addend{job.mask.kind, job.mask.data,
                             starts.of[RowMask::kMask] + begin * job.mask.step, job.mask.step,
                             job.scale};
  mask_share(share, addend, left, mine);
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) x[i] = mine[i];
}

// The greatest element of a chunk that G lanes hold.
template <int G, int N, class F>
__device__ __forceinline__ F greatest_of_share(const F (&x)[N]) {
  F max = x[0];
#pragma unroll
  for (int i = 1; i < N; ++i) max = greatest_or_nan(max, x[i]);
  return greatest_of_lanes<G>(max);
}

// The sum of a chunk's weights under its maximum. x becomes the weights, unless it is kept.
template <bool kKeepX, class S, class F>
__device__ __forceinline__ F weigh(F (&x)[S::kElements], F max) {
  const WeightScale<F> scale = weight_scale(max);
  F w[S::kElements];
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) {
    w[i] = weight(x[i], scale);
    if constexpr (!kKeepX) x[i] = w[i];
  }
  return fold_lanes<S::kLanes, S::kElements / S::kPack, S::kPack>(w);
}

// What `count` chunks make; every lane has it.
template <class F>
__device__ __forceinline__ SoftmaxPart<F> join_parts(const SoftmaxPart<F>* parts, int count) {
  SoftmaxPart<F> row;
#pragma unroll 1
  for (int i = threadIdx.x % kWarp; i < count; i += kWarp)
    row.max = greatest_or_nan(row.max, parts[i].max);
  row.max = greatest_of_lanes<kWarp>(row.max);
  const std::int32_t top = row.n();
  row.sum = fold_chunks<F>(count, [&](int i) { return parts[i].sum_under(top); });
  return row;
}

// The row that a warp's chunk is part of, by join(part of the chunk). load(x) reads the chunk,
// which then becomes its weights, unless it is kept. Where the row's maximum is out of reach, all
// begin again, with elements from which it is taken.
template <bool kKeepX, class S, class F, class Load, class Join>
__device__ __forceinline__ SoftmaxPart<F> settle(F (&x)[S::kElements], F& max, Load&& load,
                                                 Join&& join) {
  F shift = F(0);
#pragma unroll 1
  while (true) {
    load(x);
    if (shift != F(0)) {
#pragma unroll
      for (int i = 0; i < S::kElements; ++i) x[i] = x[i] - shift;
    }
    max = greatest_of_share<S::kLanes>(x);
    const SoftmaxPart<F> row = join(SoftmaxPart<F>{max, weigh<kKeepX, S>(x, max)});
    if (kind_of_row(row.max) != RowKind::far) return row;
    shift = row.max;
  }
}

// Stores a share of a row at out + at: from x, which holds its elements (kLog) or its weights.
template <bool kLog, class S, class In, class Out, class F>
__device__ __forceinline__ void store_share(const SoftmaxJob<In, Out>& job, S share,
                                            std::int64_t at, std::int64_t step,
                                            const F (&x)[S::kElements], SoftmaxPart<F> row,
                                            F last) {
  const RowKind kind = kind_of_row(row.max);
  if (kind != RowKind::ordinary) {
    fill_share(job.out + at, step, share.left(), share.lane(), S::kLanes,
               narrow<Out>(special_row<F>(kind, job.masked_is_zero, kLog)));
    share = share.cut_to(0);  // which goes on beside the others of its warp
  }
  constexpr int V = S::kPack;
  share.template store<true>(job.out + at, step, [&](int r, F(&y)[V]) {
#pragma unroll
    for (int e = 0; e < V; ++e)
      y[e] = kLog ? log_softmax(x[r * V + e], row.max, last) : x[r * V + e] * last;
  });
}

}  // namespace twinops
