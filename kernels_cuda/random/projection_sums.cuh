// The sums of random_projection on a GPU: how a chunk of x comes to shared memory, and how a thread
// folds its terms in registers. The kernel: random_projection.cuh.
#pragma once

#include <cstring>

#include "kernels_cuda/random/projection_draw.cuh"

namespace twinops {

// The offset of a row of an operand.
__device__ inline std::int64_t projection_row(const Projection& p, int operand, std::int64_t row) {
  std::int64_t offset = 0;
  for (int axis = p.outer.rank - 1; axis >= 0; --axis) {
    const std::int64_t index = axis == 0 ? row : row % p.outer.size[axis];
    if (axis != 0) row /= p.outer.size[axis];
    offset += index * p.outer.stride[operand][axis];
  }
  return offset;
}

// Eight terms of a row from t on in compute type; +0 from n on, or where `row` is nullptr.
template <class T>
__device__ __forceinline__ void load_terms(const T* row, std::int64_t step, int t, int n,
                                           compute_t<T> (&x)[8]) {
  constexpr int kWords = static_cast<int>(sizeof(T)) / 2;
  if (row != nullptr && step == 1 && t + 8 <= n &&
      reinterpret_cast<std::uintptr_t>(row + t) % 16 == 0) {
    T elements[8];
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      const uint4 word = __ldg(reinterpret_cast<const uint4*>(row + t) + k);
      memcpy(elements + k * 8 / kWords, &word, sizeof(word));
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = widen(elements[j]);
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j)
    x[j] = row != nullptr && t + j < n ? widen(row[(t + j) * step]) : compute_t<T>(0);
}

// Brings the terms of a pass of a chunk to shared memory, x[part][number][row]. `row`: the row of
// this thread's lane. Returns whether all terms that the thread has read may go by products.
template <class T>
__device__ __forceinline__ bool load_chunk(const ProjectionParams& params, const ChunkShape& shape,
                                           const T* row, int pass, compute_t<T>* x) {
  using F = compute_t<T>;
  constexpr int kRows = kProjectionRows<F>, kLanesOfRow = 32 / kRows;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int terms = kProjectionBody << shape.stride_log;
  const int groups_log = params.groups_log, passes = 1 << shape.passes_log;
  // Parts come in bit-reversed order, so a pass has the parts with these low bits above the
  // group's.
  const int low =
      shape.passes_log == 0
          ? 0
          : static_cast<int>(__brev(static_cast<unsigned>(pass)) >> (32 - shape.passes_log));
  bool by_products = true;
  const auto put = [&](int t, const F(&v)[8]) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      by_products = by_products && goes_by_products(v[j]);
      const int part = (t + j) & ((1 << shape.stride_log) - 1), q = (t + j) >> shape.stride_log;
      if ((part >> groups_log & (passes - 1)) != low) continue;
      const int place =
          part >> (groups_log + shape.passes_log) << groups_log | (part & ((1 << groups_log) - 1));
      x[(place * kProjectionBody + q) * kRows + lane % kRows] = v[j];
    }
  };
  constexpr int kStep = 8 * kProjectionWarps * kLanesOfRow, kAtOnce = sizeof(F) == 8 ? 2 : 4;
  const int begin = 8 * (warp * kLanesOfRow + lane / kRows);
  if (row != nullptr && params.p.x_step == 1 && shape.terms == terms &&
      terms % (kStep * kAtOnce) == 0 && reinterpret_cast<std::uintptr_t>(row) % 16 == 0) {
    constexpr int kWords = static_cast<int>(sizeof(T)) / 2;
#pragma unroll 1
    for (int t = begin; t < terms; t += kStep * kAtOnce) {
      uint4 words[kAtOnce][kWords];  // all loads are issued before one is waited for
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
#pragma unroll
        for (int k = 0; k < kWords; ++k)
          words[n][k] = __ldg(reinterpret_cast<const uint4*>(row + t + n * kStep) + k);
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        T elements[8];
        F v[8];
        memcpy(elements, words[n], sizeof(elements));
#pragma unroll
        for (int j = 0; j < 8; ++j) v[j] = widen(elements[j]);
        put(t + n * kStep, v);
      }
    }
    return by_products;
  }
#pragma unroll 1
  for (int t = begin; t < terms; t += kStep) {
    F v[8];
    load_terms(row, params.p.x_step, t, shape.terms, v);
    put(t, v);
  }
  return by_products;
}

// Loads kCount neighbours, 16 bytes.
template <int kCount>
__device__ __forceinline__ void load_shared(const float* from, float* to) {
  static_assert(kCount == 4);
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
template <int kCount>
__device__ __forceinline__ void load_shared(const double* from, double* to) {
  static_assert(kCount == 2);
  const double2 v = *reinterpret_cast<const double2*>(from);
  to[0] = v.x, to[1] = v.y;
}

// The lanes of a warp are a grid of 4 along the rows by 8 along the outputs, 16 bytes each,
// repeated until the warp's tile is full. The row of a thread's number r, and the output of its
// number o:
template <class F>
inline constexpr int kLaneVector = 16 / static_cast<int>(sizeof(F));
template <class F>
__device__ __forceinline__ int row_of(int r) {
  constexpr int V = kLaneVector<F>;
  return r / V * 4 * V + static_cast<int>(threadIdx.x) % 4 * V + r % V;
}
template <class F>
__device__ __forceinline__ int output_of(int o) {
  constexpr int V = kLaneVector<F>;
  return o / V * 8 * V + static_cast<int>(threadIdx.x) % 32 / 4 * V + o % V;
}

template <class F>
using ThreadSums = F[kThreadRows<F>][4];

// The fold of kTerms terms, every kStep-th from the first. x, entries: where the thread's first
// term lies.
template <int kTerms, int kStep, bool kProducts, class F>
__device__ __forceinline__ void fold_terms(const F* x, const F* entries, ThreadSums<F>& sums) {
  constexpr int V = kLaneVector<F>, R = kThreadRows<F>, kRows = kProjectionRows<F>;
  if constexpr (kTerms == 2) {
    F x0[R], x1[R], e0[4], e1[4];
#pragma unroll
    for (int r = 0; r < R; r += V) {
      load_shared<V>(x + r / V * 4 * V, x0 + r);
      load_shared<V>(x + kStep * kRows + r / V * 4 * V, x1 + r);
    }
#pragma unroll
    for (int o = 0; o < 4; o += V) {
      load_shared<V>(entries + o / V * 8 * V, e0 + o);
      load_shared<V>(entries + kStep * kWarpOutputs + o / V * 8 * V, e1 + o);
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int o = 0; o < 4; ++o)
        sums[r][o] = kProducts ? projection_pair(e0[o], x0[r], e1[o], x1[r])
                               : projection_term(e0[o] > 0, e0[o] < 0, x0[r]) +
                                     projection_term(e1[o] > 0, e1[o] < 0, x1[r]);
  } else {
    ThreadSums<F> odd;
    fold_terms<kTerms / 2, 2 * kStep, kProducts>(x, entries, sums);
    fold_terms<kTerms / 2, 2 * kStep, kProducts>(x + kStep * kRows, entries + kStep * kWarpOutputs,
                                                 odd);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int o = 0; o < 4; ++o) sums[r][o] = sums[r][o] + odd[r][o];
  }
}

// Sums of bodies that wait for their neighbours, for all of a thread's outputs: the two lower
// levels in registers, the third in shared memory, and the levels above, which are used once in
// eight bodies, in local memory. (The compiler would leave one structure of all levels in local
// memory.)
template <class F>
struct BodyRegisters {
  ThreadSums<F> first, second;
};
template <class F>
using BodyMemory = ThreadSums<F>[4];

template <class F, class Body>
__device__ __forceinline__ void each_sum(Body&& body) {
#pragma unroll
  for (int r = 0; r < kThreadRows<F>; ++r)
#pragma unroll
    for (int o = 0; o < 4; ++o) body(r, o);
}

// Adds body u of 2^group_parts_log. After the last body `sums` has them all. `shared`: the thread's
// place for the third level, every kProjectionThreads-th value; nullptr where it does not fit.
template <class F>
__device__ __forceinline__ void add_body(BodyRegisters<F>& waiting, F* shared,
                                         BodyMemory<F>& memory, ThreadSums<F>& sums, int u,
                                         int group_parts_log) {
  const bool last = u + 1 == 1 << group_parts_log;
  if ((u & 1) == 0) {
    if (!last) each_sum<F>([&](int r, int o) { waiting.first[r][o] = sums[r][o]; });
    return;
  }
  each_sum<F>([&](int r, int o) { sums[r][o] = waiting.first[r][o] + sums[r][o]; });
  if ((u & 2) == 0) {
    if (!last) each_sum<F>([&](int r, int o) { waiting.second[r][o] = sums[r][o]; });
    return;
  }
  each_sum<F>([&](int r, int o) { sums[r][o] = waiting.second[r][o] + sums[r][o]; });
  int above = 2;
  if (shared != nullptr) {
    const auto third = [&](int r, int o) -> F& { return shared[(r * 4 + o) * kProjectionThreads]; };
    if ((u & 4) == 0) {
      if (!last) each_sum<F>([&](int r, int o) { third(r, o) = sums[r][o]; });
      return;
    }
    each_sum<F>([&](int r, int o) { sums[r][o] = third(r, o) + sums[r][o]; });
    above = 3;
  }
  int level = 0;
  for (; u >> (level + above) & 1; ++level)
    each_sum<F>([&](int r, int o) { sums[r][o] = memory[level][r][o] + sums[r][o]; });
  if (!last) each_sum<F>([&](int r, int o) { memory[level][r][o] = sums[r][o]; });
}

}  // namespace twinops
