// The kernels of dropout, bias_dropout_residual and their backward passes.
//
// Memory: x (bias, residual) is read once, y written once, the mask read or written once, 16 bytes
// an access; a thread has several packs in flight before it draws. Nothing depends on the grid:
// element i draws word i mod 4 of block i / 4. For 16-bit types the ten Philox rounds are close to
// the limit of the integer units, so words are compared as integers with a threshold, the counter's
// upper words, equal for all blocks of a launch, let two of the twenty wide multiplications be
// shared by a thread's packs, and thread blocks with whole packs only run code without branches.
//
// What the fast path does not take (strides, shards along an inner axis, a seed a row, other
// layouts, unaligned memory) goes eight elements a thread: at once where they lie in one run
// (dropout_run.cuh), else one by one.
#pragma once

#include <algorithm>

#include "kernels_cuda/dropout_pack.cuh"
#include "kernels_cuda/dropout_run.cuh"
#include "kernels_cuda/dropout_unit.cuh"
#include "kernels_cuda/kernel.hpp"
#include "operators/dropout_work.hpp"

namespace twinops {

inline constexpr int kDropoutThreads = 256;

template <class T>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_walk_kernel(const __grid_constant__ DropoutWork work, std::int64_t units, bool runs) {
  const Sequence sequence = work.random.sequence();
  const std::int64_t step = std::int64_t{gridDim.x} * kDropoutThreads;
  for (std::int64_t unit = std::int64_t{blockIdx.x} * kDropoutThreads + threadIdx.x; unit < units;
       unit += step)
    if (!runs || !dropout_run<T>(work, sequence, unit)) dropout_unit<T>(work, sequence, unit);
}

// pack mod row; packs are fewer than 2^32 on most calls.
__device__ inline std::int64_t column_of(std::int64_t pack, std::int64_t row) {
  if ((pack | row) >> 32 == 0)
    return static_cast<std::uint32_t>(pack) % static_cast<std::uint32_t>(row);
  return pack % row;
}

// What a launch of the fast path is compiled for.
enum class PackSource { same, draw, mask };

// A launch of the fast path. The round keys travel with it; with a seed on the device each warp
// computes them, in uniform registers.
struct DropoutLaunch {
  DropoutWork work;
  PhiloxKeys keys;
  std::int64_t units;  // bytes of mask, with its padding
};

// A word that is the same in all threads of a warp, in a uniform register. All of them call it.
__device__ inline std::uint32_t uniform_word(std::uint32_t word) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __reduce_or_sync(~0u, word);  // its result is in a uniform register at once
#else
  return __shfl_sync(~0u, word, 0);
#endif
}
__device__ inline std::uint64_t uniform_word(std::uint64_t word) {
  return std::uint64_t{uniform_word(static_cast<std::uint32_t>(word >> 32))} << 32 |
         uniform_word(static_cast<std::uint32_t>(word));
}

// Where a launch's draws begin.
struct DropoutDraws {
  PhiloxKeys keys;
  std::uint64_t subsequence, block;  // of element 0
};

template <bool kSeedTensor>
__device__ DropoutDraws draws_of(const DropoutLaunch& launch, const Sequence& sequence) {
  const std::uint64_t block = sequence.block + launch.work.random.first / 4;
  if constexpr (!kSeedTensor) return {launch.keys, sequence.subsequence, block};
  return {philox_keys(uniform_word(sequence.seed)), uniform_word(sequence.subsequence),
          uniform_word(block)};
}

// The packs first, first + kDropoutThreads, ... With kWhole there are kPacks of them; else there is
// one, if `whole`. Every thread of the warp calls it.
template <class T, PackSource kSource, DropoutWork::Sink kSink, bool kSums, int kPacks, bool kWhole>
__device__ __forceinline__ void dropout_packs(const DropoutWork& work, const DropoutDraws& draws,
                                              std::int64_t first, bool whole) {
  static_assert(kWhole || kPacks == 1);
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  using F = compute_t<T>;
  using Pack = DropoutPack<T>;
  constexpr int kElements = Pack::kElements;
  const F scale = static_cast<F>(work.scale);
  Pack x[kPacks], bias[kSums ? kPacks : 1], residual[kSums ? kPacks : 1];
  std::uint32_t bits[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t pack = first + k * kDropoutThreads;
    bits[k] = kSource == PackSource::same && work.source == Source::all ? 0xffu : 0u;
    if (!kWhole && !whole) continue;
    x[k].load(static_cast<const T*>(work.x), pack);
    if constexpr (kSource == PackSource::mask)
      bits[k] = load_pack_mask<kElements>(work.mask_in, work.source == Source::bytes, pack);
    if constexpr (kSums) {
      if (work.bias != nullptr)
        bias[k].load_shared(static_cast<const T*>(work.bias),
                            column_of(pack, work.bias_period / kElements));
      if (work.residual != nullptr) residual[k].load(static_cast<const T*>(work.residual), pack);
    }
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t pack = first + k * kDropoutThreads;
    if (kWhole || whole) {
      PhiloxBlock<std::uint32_t> words[kElements / 4];
      if constexpr (kSource == PackSource::draw) {
#pragma unroll
        for (int b = 0; b < kElements / 4; ++b)
          words[b] = philox_rounds<std::uint32_t>(
              {{static_cast<std::uint32_t>(draws.block + pack * (kElements / 4)) + b,
                static_cast<std::uint32_t>(draws.block >> 32),
                static_cast<std::uint32_t>(draws.subsequence),
                static_cast<std::uint32_t>(draws.subsequence >> 32)}},
              draws.keys);
      }
      F v[kElements], bias_values[kElements], residual_values[kElements];
      x[k].widen_to(v);
      if constexpr (kSums) {
        bias[k].widen_to(bias_values);
        residual[k].widen_to(residual_values);
      }
#pragma unroll
      for (int j = 0; j < kElements; ++j) {
        const bool kept = kSource == PackSource::draw ? words[j / 4].w[j % 4] < work.keep.count
                                                      : (bits[k] >> j & 1u) != 0;
        if constexpr (kSource == PackSource::draw && kSink != Sink::nothing)
          set_bit_if(kept, bits[k], 1u << j);
        if constexpr (kSums)
          v[j] = dropped_out<F>(
              kept, v[j], scale,
              {work.bias != nullptr, work.residual != nullptr, bias_values[j], residual_values[j]});
        else
          v[j] = dropped_out(kept, v[j], scale);
      }
      x[k].narrow_from(v);
      x[k].store(static_cast<T*>(work.y), pack);
    }
    if constexpr (kSink != Sink::nothing)
      store_pack_mask<kElements, kSink == Sink::bytes>(work.mask_out, pack, kWhole || whole,
                                                       bits[k]);
  }
}

template <class T, PackSource kSource, bool kSeedTensor, DropoutWork::Sink kSink, bool kSums,
          int kUnroll>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_pack_kernel(const __grid_constant__ DropoutLaunch launch) {
  constexpr int kPacksOfUnit = 8 / DropoutPack<T>::kElements;
  const DropoutWork& work = launch.work;
  const Sequence sequence = work.random.sequence();
  const DropoutDraws draws = draws_of<kSeedTensor>(launch, sequence);
  const std::uint64_t last_block = draws.block + static_cast<std::uint64_t>(work.elements) / 4;
  // Where the upper half of the block number changes within a launch, all goes one by one.
  const bool one_high = kSource != PackSource::draw || (draws.block ^ last_block) >> 32 == 0;
  const std::int64_t whole_packs = one_high ? work.elements / 8 * kPacksOfUnit : 0;
  const std::int64_t tile = std::int64_t{blockIdx.x} * (kDropoutThreads * kUnroll);
  if (tile + kDropoutThreads * kUnroll <= whole_packs) {
    dropout_packs<T, kSource, kSink, kSums, kUnroll, true>(work, draws, tile + threadIdx.x, true);
    return;
  }
#pragma unroll 1
  for (int k = 0; k < kUnroll; ++k) {  // the last elements, and the padding of the mask
    const std::int64_t pack = tile + k * kDropoutThreads + threadIdx.x;
    const bool whole = pack < whole_packs;
    dropout_packs<T, kSource, kSink, kSums, 1, false>(work, draws, pack, whole);
    if (!whole && pack % kPacksOfUnit == 0 && pack / kPacksOfUnit < launch.units)
      dropout_flat_unit<T>(work, sequence, pack / kPacksOfUnit);
  }
}

// Whether the fast path can take it: everything in one run, and aligned to its accesses.
template <class T>
bool goes_by_packs(const DropoutWork& work) {
  const auto aligned = [](const void* p, std::uintptr_t bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
  };
  const auto mask_aligned = [&](const void* mask, bool bytes) {
    return !bytes || aligned(mask, kDropoutElements<T>);
  };
  const bool draws = work.source == DropoutWork::Source::draw;
  return work.flat && aligned(work.x, 16) && aligned(work.y, 16) && aligned(work.bias, 16) &&
         aligned(work.residual, 16) &&
         (work.bias == nullptr || work.bias_period % kDropoutElements<T> == 0) &&
         mask_aligned(work.mask_in, work.source == DropoutWork::Source::bytes) &&
         mask_aligned(work.mask_out, work.sink == DropoutWork::Sink::bytes) &&
         (!draws || (work.random.layout == RandomLayout::contiguous && work.random.first % 4 == 0));
}

// How many packs a thread has in flight.
template <class T, PackSource kSource, bool kSums>
inline constexpr int kDropoutUnroll = kSums || sizeof(T) == 8 ? 2 : 4;

template <class T, PackSource kSource, DropoutWork::Sink kSink, bool kSums>
void launch_packs(const DropoutWork& work, std::int64_t units, cudaStream_t stream) {
  constexpr int kUnroll = kDropoutUnroll<T, kSource, kSums>;
  constexpr std::int64_t kTile = kDropoutThreads * kUnroll;
  const std::int64_t packs = units * (8 / kDropoutElements<T>);
  const auto blocks = static_cast<unsigned>((packs + kTile - 1) / kTile);
  const DropoutLaunch launch{work, philox_keys(work.random.seed), units};
  if constexpr (kSource == PackSource::draw) {
    if (work.random.seed_tensor != nullptr) {
      dropout_pack_kernel<T, kSource, true, kSink, kSums, kUnroll>
          <<<blocks, kDropoutThreads, 0, stream>>>(launch);
      return;
    }
  }
  dropout_pack_kernel<T, kSource, false, kSink, kSums, kUnroll>
      <<<blocks, kDropoutThreads, 0, stream>>>(launch);
}

// Launches for elements of type T. kForward: the mask may be stored and is not read; else the
// reverse.
template <class T, bool kForward, bool kSums>
void launch_dropout(const DropoutWork& work, cudaStream_t stream) {
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  const std::int64_t units =
      work.sink == Sink::bits ? (work.elements + 31) / 32 * 4 : (work.elements + 7) / 8;
  if (!goes_by_packs<T>(work)) {
    const std::int64_t blocks = (units + kDropoutThreads - 1) / kDropoutThreads;
    dropout_walk_kernel<T><<<static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)),
                             kDropoutThreads, 0, stream>>>(work, units, goes_by_runs(work));
    return;
  }
  const auto by_source = [&]<PackSource kSource>() {
    if constexpr (kForward) {
      if (work.sink == Sink::bits)
        return launch_packs<T, kSource, Sink::bits, kSums>(work, units, stream);
      if (work.sink == Sink::bytes)
        return launch_packs<T, kSource, Sink::bytes, kSums>(work, units, stream);
    }
    launch_packs<T, kSource, Sink::nothing, kSums>(work, units, stream);
  };
  if (work.source == Source::draw) return by_source.template operator()<PackSource::draw>();
  if constexpr (!kForward) {
    if (work.source == Source::bits || work.source == Source::bytes)
      return by_source.template operator()<PackSource::mask>();
  }
  by_source.template operator()<PackSource::same>();
}

template <bool kForward, bool kSums>
void dropout_on_cuda(const DropoutWork& work, Execution& execution) {
  execution.random_words = work.random_words;
  if (work.elements == 0) return;
  const CurrentDevice current(execution.device.index);
  with_floating_type(work.type, [&]<class T>(TypeTag<T>) {
    launch_dropout<T, kForward, kSums>(work, static_cast<cudaStream_t>(execution.stream));
  });
  check(cudaGetLastError(), "launch of dropout");
  ++execution.launches;
}

}  // namespace twinops
