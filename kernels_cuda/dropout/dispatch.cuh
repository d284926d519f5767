// The kernels of dropout, bias_dropout_residual and their backward passes.
//
// Memory: x (bias, residual) is read once, y written once, the mask read or written once, 16 bytes
// an access; a thread has two packs in flight before it draws. Nothing depends on the grid: which
// words an element draws is a function of its index alone (dropout_draw.cuh). Words are compared as
// integers with a threshold, and thread blocks with whole packs only run code without branches.
// Tried and slower, on an H200: streaming accesses (ld.cs, st.cs) by a tenth; one pack a thread by
// a seventh; four packs, or blocks of 256 threads, by 0.02 to 0.04.
//
// What the fast path does not take (strides, shards along an inner axis, a seed a row, unaligned
// memory) goes row by row where its innermost axis lies in long runs (dropout_rows.cuh); else eight
// elements a thread: at once where they lie in one run (dropout_run.cuh), else one by one.
#pragma once

#include <algorithm>

#include "kernels_cuda/dropout/element_walk.cuh"
#include "kernels_cuda/dropout/rows_kernel.cuh"
#include "kernels_cuda/dropout/run.cuh"
#include "kernels_cuda/dropout/vector.cuh"
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/random/draw.cuh"
#include "operators/dropout_work.hpp"

namespace twinops {

inline constexpr int kDropoutThreads = 128;

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

// A launch of the fast path. The round keys travel with it; with a seed on the device each warp
// computes them, in uniform registers.
struct DropoutLaunch {
  FlatDropout work;
  PhiloxKeys keys;
};
static_assert(sizeof(DropoutLaunch) <= kSmallParameters);

// Groups of eight elements, and with those the bytes of a mask, with its padding.
__host__ __device__ constexpr std::int64_t dropout_units(std::int64_t elements,
                                                         DropoutWork::Sink sink) {
  return sink == DropoutWork::Sink::bits ? (elements + 31) / 32 * 4 : (elements + 7) / 8;
}

template <PackSource kSource, bool kKeys>
__device__ DropoutDraws draws_of(const DropoutLaunch& launch, const Sequence& sequence) {
  const RandomArguments& random = launch.work.random;
  const std::uint64_t first = random.first / (kSource == PackSource::triton ? 1 : 4);
  if constexpr (kKeys)
    return {launch.keys, sequence.subsequence, sequence.block, first, random.period};
  return {philox_keys(uniform_word(sequence.seed)), uniform_word(sequence.subsequence),
          uniform_word(sequence.block), first, random.period};
}

// The packs first, first + kDropoutThreads, ... With kWhole there are kPacks of them; else there is
// one, if `whole`. Every thread of the warp calls it.
template <class T, PackSource kSource, DropoutWork::Sink kSink, bool kSums, int kPacks, bool kWhole>
__device__ __forceinline__ void dropout_packs(const FlatDropout& work, const DropoutDraws& draws,
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
        bias[k].load(static_cast<const T*>(work.bias),
                     column_of(pack, work.bias_period / kElements));
      if (work.residual != nullptr) residual[k].load(static_cast<const T*>(work.residual), pack);
    }
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t pack = first + k * kDropoutThreads;
    if (kWhole || whole) {
      std::uint32_t words[kElements];
      if constexpr (is_drawn(kSource)) draw_pack<kSource>(draws, pack, words);
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
      x[k].store(static_cast<T*>(work.y), pack);
    }
    if constexpr (kSink != Sink::nothing)
      store_pack_mask<kElements, kSink == Sink::bytes>(work.mask_out, pack, kWhole || whole,
                                                       bits[k]);
  }
}

template <class T, PackSource kSource, bool kKeys, DropoutWork::Sink kSink, bool kSums, int kUnroll>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_pack_kernel(const __grid_constant__ DropoutLaunch launch) {
  constexpr int kPacksOfUnit = 8 / DropoutPack<T>::kElements;
  const FlatDropout& work = launch.work;
  const Sequence sequence = work.random.sequence();
  const DropoutDraws draws = draws_of<kSource, kKeys>(launch, sequence);
  const std::int64_t units = dropout_units(work.elements, kSink);
  const std::int64_t whole_packs =
      draws.reaches<kSource>(work.elements) ? work.elements / 8 * kPacksOfUnit : 0;
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
    if (!whole && pack % kPacksOfUnit == 0 && pack / kPacksOfUnit < units)
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
  return work.flat && aligned(work.x, 16) && aligned(work.y, 16) && aligned(work.bias, 16) &&
         aligned(work.residual, 16) &&
         (work.bias == nullptr || work.bias_period % kDropoutElements<T> == 0) &&
         mask_aligned(work.mask_in, work.source == DropoutWork::Source::bytes) &&
         mask_aligned(work.mask_out, work.sink == DropoutWork::Sink::bytes) &&
         (work.source != DropoutWork::Source::draw || work.random.layout == RandomLayout::triton ||
          work.random.first % 4 == 0);
}

inline constexpr int kDropoutUnroll = 2;  // packs that a thread has in flight

template <class T, PackSource kSource, DropoutWork::Sink kSink, bool kSums>
void launch_packs(const DropoutWork& work, std::int64_t units, cudaStream_t stream) {
  constexpr std::int64_t kTile = kDropoutThreads * kDropoutUnroll;
  const std::int64_t packs = units * (8 / kDropoutElements<T>);
  const auto blocks = static_cast<unsigned>((packs + kTile - 1) / kTile);
  const DropoutLaunch launch{work, philox_keys(work.random.seed)};
  const auto with_keys = [&]<bool kKeys>() {
    launch_grid("launch of dropout",
                dropout_pack_kernel<T, kSource, kKeys, kSink, kSums, kDropoutUnroll>, blocks,
                kDropoutThreads, 0, stream, launch);
  };
  if constexpr (!is_drawn(kSource)) {
    with_keys.template operator()<true>();
  } else if constexpr (kSource == PackSource::contiguous) {
    if (work.random.seed_tensor == nullptr) return with_keys.template operator()<true>();
    with_keys.template operator()<false>();
  } else {  // of the rarer layouts one kernel will do
    with_keys.template operator()<false>();
  }
}

// Launches for elements of type T. kForward: the mask may be stored and is not read; else the
// reverse.
template <class T, bool kForward, bool kSums>
void launch_dropout(const DropoutWork& work, cudaStream_t stream) {
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  const std::int64_t units = dropout_units(work.elements, work.sink);
  if (!goes_by_packs<T>(work)) {
    if (launch_dropout_rows<T, kSums>(work, units, stream)) return;
    const std::int64_t blocks = (units + kDropoutThreads - 1) / kDropoutThreads;
    launch_grid("launch of dropout", dropout_walk_kernel<T>,
                static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)), kDropoutThreads, 0,
                stream, work, units, goes_by_runs(work));
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
  if (work.source == Source::draw) {
    if (work.random.layout == RandomLayout::triton)
      return by_source.template operator()<PackSource::triton>();
    if (work.random.layout == RandomLayout::strided)
      return by_source.template operator()<PackSource::strided>();
    return by_source.template operator()<PackSource::contiguous>();
  }
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
  ++execution.launches;
}

}  // namespace twinops
