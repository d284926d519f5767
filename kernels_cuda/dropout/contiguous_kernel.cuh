// Dropout, bias_dropout_residual and their backward passes for tensors that are contiguous and
// aligned: the fast path of the family.
//
// Memory: x (bias, residual) is read once, y is written once, the mask is read or written once, 16
// bytes an access. A thread has two vectors in flight before it draws. Nothing is added up.
// Which words an element draws is a function of its index alone (random/draw.cuh), so the grid's
// size changes nothing. Thread blocks that hold whole vectors only run code without branches.
// Unroll, block size and accesses: docs/lab/dropout-cuda.md.
#pragma once

#include "kernels_cuda/dropout/strided_octet.cuh"
#include "kernels_cuda/dropout/vector.cuh"
#include "kernels_cuda/random/draw.cuh"
#include "operators/dropout_work.hpp"

namespace twinops {

inline constexpr int kDropoutThreads = 128;

// vector mod row. Mostly both are below 2^32, for which division is shorter.
__device__ inline std::int64_t column_of(std::int64_t vector, std::int64_t row) {
  if ((vector | row) >> 32 == 0)
    return static_cast<std::uint32_t>(vector) % static_cast<std::uint32_t>(row);
  return vector % row;
}

// The parameters of a launch. The Philox round keys are among them; where the seed is on the
// device, each warp computes them in uniform registers.
struct DropoutParams {
  FlatDropout work;
  PhiloxKeys keys;
};
static_assert(sizeof(DropoutParams) <= kSmallParameters);

// How many octets there are: eight elements and their byte of the mask. A bit mask has padding up
// to whole 32-bit words.
__host__ __device__ constexpr std::int64_t dropout_octets(std::int64_t elements,
                                                          DropoutWork::Sink sink) {
  return sink == DropoutWork::Sink::bits ? (elements + 31) / 32 * 4 : (elements + 7) / 8;
}

template <MaskSource kSource, bool kKeys>
__device__ DrawOrigin draws_of(const DropoutParams& params, const Sequence& sequence) {
  const RandomArguments& random = params.work.random;
  const std::uint64_t first = random.first / (kSource == MaskSource::triton ? 1 : 4);
  if constexpr (kKeys)
    return {params.keys, sequence.subsequence, sequence.block, first, random.period};
  return {philox_keys(uniform_word(sequence.seed)), uniform_word(sequence.subsequence),
          uniform_word(sequence.block), first, random.period};
}

// Takes vectors first, first + kDropoutThreads, ...: kVectors of them with kWhole, else one, if
// `whole`. Every thread of the warp calls it.
template <class T, MaskSource kSource, DropoutWork::Sink kSink, bool kSums, int kVectors,
          bool kWhole>
__device__ __forceinline__ void dropout_vectors(const FlatDropout& work, const DrawOrigin& draws,
                                                std::int64_t first, bool whole) {
  static_assert(kWhole || kVectors == 1);
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  using F = compute_t<T>;
  using Vector = DropoutVector<T>;
  constexpr int kElements = Vector::kElements;
  const F scale = static_cast<F>(work.scale);
  Vector x[kVectors], bias[kSums ? kVectors : 1], residual[kSums ? kVectors : 1];
  std::uint32_t bits[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const std::int64_t vector = first + k * kDropoutThreads;
    bits[k] = kSource == MaskSource::same && work.source == Source::all ? 0xffu : 0u;
    if (!kWhole && !whole) continue;
    x[k].load(static_cast<const T*>(work.x), vector);
    if constexpr (kSource == MaskSource::mask)
      bits[k] = load_vector_mask<kElements>(work.mask_in, work.source == Source::bytes, vector);
    if constexpr (kSums) {
      if (work.bias != nullptr)
        bias[k].load(static_cast<const T*>(work.bias),
                     column_of(vector, work.bias_period / kElements));
      if (work.residual != nullptr) residual[k].load(static_cast<const T*>(work.residual), vector);
    }
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const std::int64_t vector = first + k * kDropoutThreads;
    if (kWhole || whole) {
      std::uint32_t words[kElements];
      if constexpr (is_drawn(kSource)) draw_vector<kSource>(draws, vector, words);
      F v[kElements], bias_values[kElements], residual_values[kElements];
      x[k].widen_to(v);
      if constexpr (kSums) {
        bias[k].widen_to(bias_values);
        residual[k].widen_to(residual_values);
      }
#pragma unroll
      for (int j = 0; j < kElements; ++j) {
        const bool kept =
            is_drawn(kSource) ? keeps<kSource>(work.keep, words[j]) : (bits[k] >> j & 1u) != 0;
        if constexpr (is_drawn(kSource) && kSink != Sink::nothing) or_if(kept, bits[k], 1u << j);
        if constexpr (kSums)
          v[j] = dropped_out<F>(
              kept, v[j], scale,
              {work.bias != nullptr, work.residual != nullptr, bias_values[j], residual_values[j]});
        else
          v[j] = dropped_out(kept, v[j], scale);
      }
      x[k].narrow_from(v);
      x[k].store(static_cast<T*>(work.y), vector);
    }
    if constexpr (kSink != Sink::nothing)
      store_vector_mask<kElements, kSink == Sink::bytes>(work.mask_out, vector, kWhole || whole,
                                                         bits[k]);
  }
}

template <class T, MaskSource kSource, bool kKeys, DropoutWork::Sink kSink, bool kSums, int kUnroll>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_contiguous_kernel(const __grid_constant__ DropoutParams params) {
  constexpr int kVectorsOfOctet = 8 / DropoutVector<T>::kElements;
  const FlatDropout& work = params.work;
  const Sequence sequence = work.random.sequence();
  const DrawOrigin draws = draws_of<kSource, kKeys>(params, sequence);
  const std::int64_t octets = dropout_octets(work.elements, kSink);
  const std::int64_t whole_vectors =
      draws.reaches<kSource>(work.elements) ? work.elements / 8 * kVectorsOfOctet : 0;
  const std::int64_t tile = std::int64_t{blockIdx.x} * (kDropoutThreads * kUnroll);
  if (tile + kDropoutThreads * kUnroll <= whole_vectors) {
    dropout_vectors<T, kSource, kSink, kSums, kUnroll, true>(work, draws, tile + threadIdx.x, true);
    return;
  }
#pragma unroll 1
  for (int k = 0; k < kUnroll; ++k) {  // the last elements and the mask's padding
    const std::int64_t vector = tile + k * kDropoutThreads + threadIdx.x;
    const bool whole = vector < whole_vectors;
    dropout_vectors<T, kSource, kSink, kSums, 1, false>(work, draws, vector, whole);
    if (!whole && vector % kVectorsOfOctet == 0 && vector / kVectorsOfOctet < octets)
      dropout_flat_octet<T, layout_of(kSource)>(work, sequence, vector / kVectorsOfOctet);
  }
}

// Whether the call is contiguous and aligned to the kernel's accesses.
template <class T>
bool fits_contiguous_kernel(const DropoutWork& work) {
  const auto aligned = [](const void* p, std::uintptr_t bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
  };
  const auto mask_aligned = [&](const void* mask, bool bytes) {
    return !bytes || aligned(mask, kDropoutVectorElements<T>);
  };
  return work.flat && aligned(work.x, 16) && aligned(work.y, 16) && aligned(work.bias, 16) &&
         aligned(work.residual, 16) &&
         (work.bias == nullptr || work.bias_period % kDropoutVectorElements<T> == 0) &&
         mask_aligned(work.mask_in, work.source == DropoutWork::Source::bytes) &&
         mask_aligned(work.mask_out, work.sink == DropoutWork::Sink::bytes) &&
         (work.source != DropoutWork::Source::draw || work.random.layout == RandomLayout::triton ||
          (work.random.first % 4 == 0 && work.random.layout != RandomLayout::torch));
}

inline constexpr int kDropoutUnroll = 2;  // vectors that a thread has in flight

template <class T, MaskSource kSource, DropoutWork::Sink kSink, bool kSums>
void launch_contiguous(const DropoutWork& work, std::int64_t octets, cudaStream_t stream) {
  constexpr std::int64_t kTile = kDropoutThreads * kDropoutUnroll;
  const std::int64_t vectors = octets * (8 / kDropoutVectorElements<T>);
  const auto blocks = static_cast<unsigned>((vectors + kTile - 1) / kTile);
  const DropoutParams params{work, philox_keys(work.random.seed)};
  const auto with_keys = [&]<bool kKeys>() {
    launch_grid("launch of dropout",
                dropout_contiguous_kernel<T, kSource, kKeys, kSink, kSums, kDropoutUnroll>, blocks,
                kDropoutThreads, 0, stream, params);
  };
  if constexpr (!is_drawn(kSource)) {
    with_keys.template operator()<true>();
  } else if constexpr (kSource == MaskSource::contiguous) {
    if (work.random.seed_tensor == nullptr) return with_keys.template operator()<true>();
    with_keys.template operator()<false>();
  } else {  // rarer layouts share one kernel
    with_keys.template operator()<false>();
  }
}

}  // namespace twinops
