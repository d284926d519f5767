// The kernels of dropout, bias_dropout_residual and their backward passes.
//
// Memory: x (bias, residual) is read once, y written once, the mask read or written once, 16 bytes
// an access; a thread has several packs in flight before it draws. Nothing depends on the grid:
// element i draws word i mod 4 of block i / 4. For 16-bit types the ten Philox rounds are close to
// the limit of the integer units, so words are compared as integers with a threshold, and the
// counter's upper words, equal for all blocks of a launch, let two of the twenty wide
// multiplications be shared by a thread's packs.
//
// What the fast path does not take (strides, shards along an inner axis, a seed a row, other
// layouts, unaligned memory, the last elements) goes eight elements a thread, one by one.
#pragma once

#include <algorithm>

#include "kernels_cuda/dropout_pack.cuh"
#include "kernels_cuda/kernel.hpp"
#include "operators/dropout_work.hpp"

namespace twinops {

inline constexpr int kDropoutThreads = 256;

// Elements [8 unit, 8 unit + 8) and their byte of mask, one by one, wherever they lie.
template <class T>
__device__ void dropout_unit(const DropoutWork& work, const Sequence& sequence, std::int64_t unit) {
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  using F = compute_t<T>;
  constexpr int kOperands = DropoutWork::kOperands;
  const Layout<kOperands>& walk = work.walk;
  WordReader reader(work.random.layout, work.random.period);
  std::uint32_t bits = 0;
  for (int j = 0; j < 8; ++j) {
    const std::int64_t i = unit * 8 + j;
    if (i >= work.elements) break;
    std::int64_t rest = i, offset[kOperands] = {};
    for (int axis = walk.rank - 1; axis >= 0; --axis) {
      const std::int64_t index = axis == 0 ? rest : rest % walk.size[axis];
      if (axis != 0) rest /= walk.size[axis];
      for (int k = 0; k < kOperands; ++k) offset[k] += index * walk.stride[k][axis];
    }
    bool kept = work.source == Source::all;
    if (work.source == Source::draw) {
      Sequence s = sequence;
      if (work.random.seeds != nullptr) s.seed = work.random.seeds[offset[DropoutWork::kRow]];
      const std::uint64_t e =
          work.random.first + static_cast<std::uint64_t>(offset[DropoutWork::kDraw]);
      kept = work.keep.has(reader.word(s, e));
    } else if (work.source == Source::bits) {
      kept = static_cast<const std::uint8_t*>(work.mask_in)[unit] >> j & 1;
    } else if (work.source == Source::bytes) {
      kept = static_cast<const std::uint8_t*>(work.mask_in)[i] != 0;
    }
    bits |= static_cast<std::uint32_t>(kept) << j;
    const auto read = [&](const void* from, int operand) {
      return from == nullptr ? F(0) : widen(static_cast<const T*>(from)[offset[operand]]);
    };
    const F x = read(work.x, DropoutWork::kX), bias = read(work.bias, DropoutWork::kBias),
            residual = read(work.residual, DropoutWork::kResidual);
    static_cast<T*>(work.y)[offset[DropoutWork::kY]] =
        narrow<T>(dropped_out<F>(kept, x, static_cast<F>(work.scale),
                                 {work.bias != nullptr, work.residual != nullptr, bias, residual}));
    if (work.sink == Sink::bytes) static_cast<std::uint8_t*>(work.mask_out)[i] = kept;
  }
  if (work.sink == Sink::bits)
    static_cast<std::uint8_t*>(work.mask_out)[unit] = static_cast<std::uint8_t>(bits);
}

template <class T>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_walk_kernel(const __grid_constant__ DropoutWork work, std::int64_t units) {
  const Sequence sequence = work.random.sequence();
  const std::int64_t step = std::int64_t{gridDim.x} * kDropoutThreads;
  for (std::int64_t unit = std::int64_t{blockIdx.x} * kDropoutThreads + threadIdx.x; unit < units;
       unit += step)
    dropout_unit<T>(work, sequence, unit);
}

// The same where elements and draws follow one another. A loop of few registers: it ends the fast
// path, whose packs need them.
template <class T>
__device__ void dropout_flat_unit(const DropoutWork& work, const Sequence& sequence,
                                  std::int64_t unit) {
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  using F = compute_t<T>;
  std::uint32_t bits = 0;
#pragma unroll 1
  for (std::int64_t i = unit * 8; i < min(unit * 8 + 8, work.elements); ++i) {
    bool kept = work.source == Source::all;
    if (work.source == Source::draw)
      kept = work.keep.has(word_of(RandomLayout::contiguous, 1, sequence,
                                   work.random.first + static_cast<std::uint64_t>(i)));
    else if (work.source == Source::bits)
      kept = static_cast<const std::uint8_t*>(work.mask_in)[unit] >> (i % 8) & 1;
    else if (work.source == Source::bytes)
      kept = static_cast<const std::uint8_t*>(work.mask_in)[i] != 0;
    bits |= static_cast<std::uint32_t>(kept) << (i % 8);
    const auto read = [&](const void* from, std::int64_t at) {
      return from == nullptr ? F(0) : widen(static_cast<const T*>(from)[at]);
    };
    const F x = read(work.x, i), bias = read(work.bias, i % work.bias_period),
            residual = read(work.residual, i);
    static_cast<T*>(work.y)[i] =
        narrow<T>(dropped_out<F>(kept, x, static_cast<F>(work.scale),
                                 {work.bias != nullptr, work.residual != nullptr, bias, residual}));
    if (work.sink == Sink::bytes) static_cast<std::uint8_t*>(work.mask_out)[i] = kept;
  }
  if (work.sink == Sink::bits)
    static_cast<std::uint8_t*>(work.mask_out)[unit] = static_cast<std::uint8_t>(bits);
}

// pack mod row; packs are fewer than 2^32 on most calls.
__device__ inline std::int64_t column_of(std::int64_t pack, std::int64_t row) {
  if ((pack | row) >> 32 == 0)
    return static_cast<std::uint32_t>(pack) % static_cast<std::uint32_t>(row);
  return pack % row;
}

// What a launch of the fast path is compiled for.
enum class PackSource { same, draw, mask };

// A launch of the fast path. The round keys travel with it, so that they are operands in constant
// memory; with a seed on the device each thread computes them once.
struct DropoutLaunch {
  DropoutWork work;
  PhiloxKeys keys;
  std::int64_t units;  // bytes of mask, with its padding
};

template <bool kSeedTensor>
__device__ PhiloxKeys round_keys(const DropoutLaunch& launch, const Sequence& sequence) {
  if constexpr (!kSeedTensor) return launch.keys;
  PhiloxKeys keys = philox_keys(sequence.seed);
#pragma unroll
  for (int round = 1; round < 10; ++round)  // kept in registers, not computed again for each block
    asm volatile("" : "+r"(keys.k0[round]), "+r"(keys.k1[round]));
  return keys;
}

template <class T, PackSource kSource, bool kSeedTensor, bool kSink, bool kSums, int kUnroll>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_pack_kernel(const __grid_constant__ DropoutLaunch launch) {
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  using F = compute_t<T>;
  using Pack = DropoutPack<T>;
  constexpr int kElements = Pack::kElements, kPacksOfUnit = 8 / kElements;
  const DropoutWork& work = launch.work;
  const Sequence sequence = work.random.sequence();
  const std::uint64_t block = sequence.block + work.random.first / 4;
  const std::uint64_t last_block = block + static_cast<std::uint64_t>(work.elements) / 4;
  // Where the upper half of the block number changes within a launch, all goes one by one.
  const bool one_high = kSource != PackSource::draw || (block ^ last_block) >> 32 == 0;
  const std::int64_t whole_packs = one_high ? work.elements / 8 * kPacksOfUnit : 0;
  const std::int64_t first = std::int64_t{blockIdx.x} * (kDropoutThreads * kUnroll) + threadIdx.x;
  const auto left = static_cast<int>(min(whole_packs - first, std::int64_t{1} << 30));
  const auto is_whole = [&](int k) { return k * kDropoutThreads < left; };
  const F scale = static_cast<F>(work.scale);

  Pack x[kUnroll], bias[kSums ? kUnroll : 1], residual[kSums ? kUnroll : 1];
  std::uint32_t bits[kUnroll];
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    const std::int64_t pack = first + k * kDropoutThreads;
    bits[k] = work.source == Source::all ? 0xffu : 0u;
    if (!is_whole(k)) continue;
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
  const PhiloxKeys keys = round_keys<kSeedTensor>(launch, sequence);
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    const std::int64_t pack = first + k * kDropoutThreads;
    if (is_whole(k)) {
      PhiloxBlock<std::uint32_t> words[kElements / 4];
      if constexpr (kSource == PackSource::draw) {
        bits[k] = 0;
#pragma unroll
        for (int b = 0; b < kElements / 4; ++b)
          words[b] = philox_rounds<std::uint32_t>(
              {{static_cast<std::uint32_t>(block + pack * (kElements / 4)) + b,
                static_cast<std::uint32_t>(block >> 32),
                static_cast<std::uint32_t>(sequence.subsequence),
                static_cast<std::uint32_t>(sequence.subsequence >> 32)}},
              keys);
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
        if constexpr (kSource == PackSource::draw && kSink) bits[k] |= kept ? 1u << j : 0u;
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
    if constexpr (kSink)
      store_pack_mask<kElements>(work.mask_out, work.sink == Sink::bytes, pack, is_whole(k),
                                 bits[k]);
  }
#pragma unroll 1
  for (int k = 0; k < kUnroll; ++k) {  // the last elements, and the padding of the mask
    const std::int64_t pack = first + k * kDropoutThreads;
    if (!is_whole(k) && pack % kPacksOfUnit == 0 && pack / kPacksOfUnit < launch.units)
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

template <class T, PackSource kSource, bool kSink, bool kSums>
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
  const bool sink = work.sink != DropoutWork::Sink::nothing;
  const std::int64_t units = work.sink == DropoutWork::Sink::bits ? (work.elements + 31) / 32 * 4
                                                                  : (work.elements + 7) / 8;
  if (!goes_by_packs<T>(work)) {
    const std::int64_t blocks = (units + kDropoutThreads - 1) / kDropoutThreads;
    dropout_walk_kernel<T><<<static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)),
                             kDropoutThreads, 0, stream>>>(work, units);
    return;
  }
  const auto by_source = [&]<PackSource kSource>() {
    if constexpr (kForward) {
      if (sink) return launch_packs<T, kSource, true, kSums>(work, units, stream);
    }
    launch_packs<T, kSource, false, kSums>(work, units, stream);
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
