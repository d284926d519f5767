// The backward pass of bias_dropout_residual with its sum over rows, in one pass over memory.
//
// Memory: dy and the mask are read once, dx is written once. Vectors of dy come through shared
// memory, eight ahead of the one in work. Where there is more than one chunk of rows, a sum for
// each chunk and column goes through scratch memory to a second kernel, which is launched while
// this one ends.
// Order: numerics/fold.hpp over the rows. A block has a chunk of 1024 rows by 16 vectors of
// columns; a thread has 32 rows of one vector, 32 rows apart. A thread folds the top five bits of a
// row's index, the block's warps the next four, a warp's lanes the last.
// Shapes and what was tried: docs/lab/random-cuda.md.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <algorithm>

#include "kernels_cuda/dropout/column_sums.cuh"
#include "kernels_cuda/dropout/dispatch.cuh"
#include "operators/bias_dropout_residual_grad.hpp"

namespace twinops {

inline constexpr int kGradThreads = 512, kGradSumWarps = kGradThreads / 32;
inline constexpr int kGradRowVectors = 16;  // of a row, in a block
inline constexpr int kGradSlots = kGradThreads / kGradRowVectors;
inline constexpr int kGradThreadVectors = kFoldChunk / kGradSlots;
inline constexpr int kGradInFlight = 8;  // vectors of a thread
static_assert(kGradThreadVectors == 32);

struct BiasGradParams {
  DropoutParams dropout;
  std::int64_t rows, columns, chunks;
};

// Makes a vector of dx from a vector of dy, stores it, and returns what was stored in compute type.
template <class T, MaskSource kSource, bool kOneHigh>
__device__ __forceinline__ void grad_vector(const FlatDropout& work, const DrawOrigin& draws,
                                            std::int64_t vector, std::uint32_t bits,
                                            DropoutVector<T>& x,
                                            compute_t<T> (&v)[DropoutVector<T>::kElements]) {
  using F = compute_t<T>;
  constexpr int kElements = DropoutVector<T>::kElements;
  std::uint32_t words[kElements];
  if constexpr (kSource == MaskSource::contiguous) {
    if constexpr (kOneHigh)
      draw_vector<kSource>(draws, vector, words);
    else
      draw_carrying_vector(draws, vector, words);
  }
  x.widen_to(v);
#pragma unroll
  for (int j = 0; j < kElements; ++j)
    v[j] =
        dropped_out(is_drawn(kSource) ? keeps<kSource>(work.keep, words[j]) : (bits >> j & 1u) != 0,
                    v[j], static_cast<F>(work.scale));
  x.narrow_from(v);
  x.store(static_cast<T*>(work.y), vector);
  x.widen_to(v);
}

// The shared memory of a block: for each thread a ring of vectors of dy that are on their way, and
// sums that wait for their neighbours. (In registers they leave no room for two blocks a
// multiprocessor.)
template <class T>
struct BiasGradSmem {
  static constexpr int kElements = DropoutVector<T>::kElements;
  DropoutVector<T> ring[kGradInFlight][kGradThreads];
  compute_t<T> waiting[3][kElements][kGradThreads];
};

// A thread's vectors of a chunk, 32 rows apart, in the order that folds neighbours first.
template <class T, MaskSource kSource, bool kOneHigh>
class GradColumn {
 public:
  using F = compute_t<T>;
  static constexpr int kElements = DropoutVector<T>::kElements;

  __device__ GradColumn(const BiasGradParams& params, const DrawOrigin& draws,
                        BiasGradSmem<T>& shared, std::int64_t row, std::int64_t column)
      : work_(params.dropout.work), draws_(draws), shared_(shared) {
    const std::int64_t row_vectors = params.columns / kElements;
    vector_ = row * row_vectors + column;
    step_ = kGradSlots * row_vectors;
    const std::int64_t rows = column < row_vectors ? params.rows - row : 0;
    vectors_ = rows <= 0 ? 0
                         : static_cast<int>(min((rows + kGradSlots - 1) / kGradSlots,
                                                std::int64_t{kGradThreadVectors}));
  }

  // Makes the thread's vectors of dx and returns their fold in `sums`.
  __device__ __forceinline__ void fold(F (&sums)[kElements]) {
#pragma unroll
    for (int n = 0; n < kGradInFlight; ++n) ask(n);
    std::uint32_t bits[4], later[4];
    load_masks(0, bits);
#pragma unroll 1
    for (int group = 0; group < kGradThreadVectors / 4; ++group) {
      load_masks(group + 1, later);
      fold_four(group, bits, sums);
      add(group, sums);
#pragma unroll
      for (int i = 0; i < 4; ++i) bits[i] = later[i];
    }
  }

 private:
  // The n-th vector in that order: n with its five bits reversed.
  __device__ static __forceinline__ int number(int n) {
    return static_cast<int>(__brev(static_cast<unsigned>(n)) >> 27);
  }
  __device__ __forceinline__ std::int64_t vector(int n) const {
    return vector_ + number(n) * step_;
  }
  __device__ __forceinline__ bool is_there(int n) const { return number(n) < vectors_; }

  __device__ __forceinline__ void ask(int n) {
    if (n < kGradThreadVectors && is_there(n)) {
#pragma unroll
      for (int k = 0; k < DropoutVector<T>::kWords; ++k)
        __pipeline_memcpy_async(
            &shared_.ring[n % kGradInFlight][threadIdx.x].words[k],
            static_cast<const uint4*>(work_.x) + vector(n) * DropoutVector<T>::kWords + k, 16);
    }
    __pipeline_commit();
  }

  __device__ __forceinline__ void load_masks(int group, std::uint32_t (&bits)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = group * 4 + i;
      bits[i] =
          kSource == MaskSource::same && work_.source == DropoutWork::Source::all ? 0xffu : 0u;
      if constexpr (kSource == MaskSource::mask)
        if (n < kGradThreadVectors && is_there(n)) bits[i] = load_mask(vector(n));
    }
  }
  // Loaded through the cache: many blocks read from one sector of the mask.
  __device__ __forceinline__ std::uint32_t load_mask(std::int64_t vector) const {
    if (work_.source == DropoutWork::Source::bytes)
      return load_vector_mask<kElements>(work_.mask_in, true, vector);
    const auto* mask = static_cast<const std::uint8_t*>(work_.mask_in);
    if (kElements == 8) return __ldg(mask + vector);
    return __ldg(mask + vector / 2) >> (vector % 2 * 4) & 15u;
  }

  // The fold of vectors 4 group to 4 group + 3.
  __device__ __forceinline__ void fold_four(int group, const std::uint32_t (&bits)[4],
                                            F (&sums)[kElements]) {
    F first_half[kElements];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = group * 4 + i;
      __pipeline_wait_prior(kGradInFlight - 1);
      F v[kElements] = {};
      if (is_there(n)) {
        DropoutVector<T> x = shared_.ring[n % kGradInFlight][threadIdx.x];
        grad_vector<T, kSource, kOneHigh>(work_, draws_, vector(n), bits[i], x, v);
      }
      ask(n + kGradInFlight);
#pragma unroll
      for (int j = 0; j < kElements; ++j) {
        sums[j] = i % 2 == 0 ? v[j] : sums[j] + v[j];
        if (i == 1) first_half[j] = sums[j];
        if (i == 3) sums[j] = first_half[j] + sums[j];
      }
    }
  }

  // Adds the fold of a group to those of its neighbours. After the last group `sums` has them all.
  __device__ __forceinline__ void add(int group, F (&sums)[kElements]) {
#pragma unroll
    for (int level = 0; level < 3; ++level) {
      const bool second = group >> level & 1;
#pragma unroll
      for (int j = 0; j < kElements; ++j) {
        F& waiting = shared_.waiting[level][j][threadIdx.x];
        if (second)
          sums[j] = waiting + sums[j];
        else
          waiting = sums[j];
      }
      if (!second) return;
    }
  }

  const FlatDropout& work_;
  const DrawOrigin& draws_;
  BiasGradSmem<T>& shared_;
  std::int64_t vector_, step_;
  int vectors_;
};

template <class T, MaskSource kSource, bool kKeys>
__global__ void __launch_bounds__(kGradThreads, sizeof(T) == 8 ? 1 : 2)
    bias_grad_kernel(const __grid_constant__ BiasGradParams params, T* dbias,
                     compute_t<T>* partial) {
  using F = compute_t<T>;
  constexpr int kElements = DropoutVector<T>::kElements;
  TWINOPS_DYNAMIC_SHARED(memory);
  auto& shared = *reinterpret_cast<BiasGradSmem<T>*>(memory);
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // tree_sums_kernel may start and wait
#endif
  const FlatDropout& work = params.dropout.work;
  const Sequence sequence = work.random.sequence();
  const DrawOrigin draws = draws_of<kSource, kKeys>(params.dropout, sequence);
  const bool one_high = draws.reaches<kSource>(work.elements);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t column =
      std::int64_t{blockIdx.x} * kGradRowVectors + threadIdx.x % kGradRowVectors;
  for (std::int64_t chunk = blockIdx.y; chunk < params.chunks; chunk += gridDim.y) {
    const std::int64_t row = chunk * kFoldChunk + threadIdx.x / kGradRowVectors;
    F sums[kElements];
    if (one_high)
      GradColumn<T, kSource, true>(params, draws, shared, row, column).fold(sums);
    else
      GradColumn<T, kSource, false>(params, draws, shared, row, column).fold(sums);
#pragma unroll
    for (int j = 0; j < kElements; ++j) shared.waiting[0][j][threadIdx.x] = sums[j];
    __syncthreads();
    F of_warps[kGradSumWarps] = {};
#pragma unroll
    for (int w = 0; w < kGradSumWarps; ++w)
      if (warp < kElements) of_warps[w] = shared.waiting[0][warp][w * 32 + lane];
    __syncthreads();  // the next chunk overwrites `waiting`
    if (warp >= kElements) continue;
    F sum = fold_sixteen(of_warps);
    sum = sum + __shfl_down_sync(~0u, sum, kGradRowVectors);
    const std::int64_t at = column * kElements + warp;
    if (lane >= kGradRowVectors || at >= params.columns) continue;
    if (params.chunks > 1) {
      partial[chunk * params.columns + at] = sum;
    } else {
      ChunkTree<F> tree;
      tree.add(sum);
      dbias[at] = narrow<T>(tree.total());
    }
  }
}

template <class T, MaskSource kSource>
void launch_bias_grad(const BiasGradParams& params, void* dbias, void* scratch,
                      cudaStream_t stream) {
  const std::int64_t vectors = params.columns / DropoutVector<T>::kElements;
  const dim3 blocks(static_cast<unsigned>((vectors + kGradRowVectors - 1) / kGradRowVectors),
                    static_cast<unsigned>(std::min<std::int64_t>(params.chunks, 65535)));
  auto* const sums = static_cast<T*>(dbias);
  auto* const partial = static_cast<compute_t<T>*>(scratch);
  const auto go = [&](auto kernel) {
    constexpr auto kBytes = static_cast<int>(sizeof(BiasGradSmem<T>));
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
          "cudaFuncSetAttribute");
    launch_grid("launch of bias_dropout_residual_grad", kernel, blocks, kGradThreads, kBytes,
                stream, params, sums, partial);
  };
  if constexpr (is_drawn(kSource)) {
    if (params.dropout.work.random.seed_tensor != nullptr)
      return go(bias_grad_kernel<T, kSource, false>);
  }
  go(bias_grad_kernel<T, kSource, true>);
}

// Whether one pass can make dx and dbias.
inline bool fits_bias_grad_kernel(const DropoutWork& work, const ColumnSums& s, int device) {
  bool fits =
      s.sums != nullptr && s.rows > 0 && s.is_matrix() &&
      (work.source != DropoutWork::Source::draw || work.random.layout == RandomLayout::contiguous);
  const int available = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  with_floating_type(work.type, [&]<class T>(TypeTag<T>) {
    fits = fits && fits_contiguous_kernel<T>(work) && s.columns % kDropoutVectorElements<T> == 0 &&
           sizeof(BiasGradSmem<T>) <= static_cast<std::size_t>(available);
  });
  return fits;
}

inline void bias_grad_on_cuda(const DropoutWork& work, const ColumnSums& s, std::int64_t chunks,
                              void* scratch, Execution& execution) {
  using Source = DropoutWork::Source;
  execution.random_words = work.random_words;
  const CurrentDevice current(execution.device.index);
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  const BiasGradParams params{{work, philox_keys(work.random.seed)}, s.rows, s.columns, chunks};
  with_floating_type(work.type, [&]<class T>(TypeTag<T>) {
    if (work.source == Source::draw)
      launch_bias_grad<T, MaskSource::contiguous>(params, s.sums, scratch, stream);
    else if (work.source == Source::bits || work.source == Source::bytes)
      launch_bias_grad<T, MaskSource::mask>(params, s.sums, scratch, stream);
    else
      launch_bias_grad<T, MaskSource::same>(params, s.sums, scratch, stream);
    ++execution.launches;
    if (chunks > 1) launch_tree_sums<T>(s, chunks, scratch, execution);
  });
}

}  // namespace twinops
