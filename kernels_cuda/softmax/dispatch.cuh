// Chooses the kernel of softmax and log_softmax for a call, by the length of its rows and where
// they lie. The limits were measured: docs/lab/softmax-warp-kernel.md,
// docs/lab/softmax-block-kernel.md.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/block_kernel.cuh"
#include "kernels_cuda/softmax/grid_kernel.cuh"
#include "kernels_cuda/softmax/pair_kernel.cuh"
#include "kernels_cuda/softmax/staged_kernel.cuh"
#include "kernels_cuda/softmax/two_chunk_kernel.cuh"
#include "kernels_cuda/softmax/two_pass_kernel.cuh"
#include "kernels_cuda/softmax/warp_kernel.cuh"

namespace twinops {

// Calls launch(params), or launch(params.simple()) where the rows are simple (softmax/params.cuh)
// and (kKernels) there are kernels for that.
template <bool kKernels, class Params, class Launch>
auto with_simple(const Params& params, Launch&& launch) {
  if constexpr (kKernels)
    if (params.is_simple()) return launch(params.simple());
  return launch(params);
}

template <bool kLog, int V, bool kUnaligned, class Params>
void launch_warp_rows(const Params& params, Execution& execution) {
  constexpr bool kSameType = std::is_same_v<typename Params::In, typename Params::Out>;
  constexpr Shapes kShapes = Params::kSimple ? Shapes::forward
                             : kSameType     ? Shapes::masked
                                             : Shapes::coarse;
  with_lane_shape<kShapes, V, kUnaligned || (!kSameType && V > 1)>(
      params.rows.length, [&]<class S>(TypeTag<S>) {
        constexpr int kThreads = short_threads<Params, S>();
        constexpr std::int64_t kRows = kThreads / S::kLanes;
        launch_rows(execution, softmax_warp_kernel<kLog, Params, S>,
                    grid_of((params.rows.rows + kRows - 1) / kRows), kThreads, 0, 1, params);
      });
}

// Short unaligned rows by way of shared memory; false if they are too long for that, or do not lie
// side by side. What is read and written is aligned alike.
template <bool kLog, class Params>
bool launch_staged(const Params& params, Execution& execution) {
  using In = typename Params::In;
  constexpr Shapes kShapes = Params::kSimple ? Shapes::forward : Shapes::masked;
  if (params.rows.length > most_staged_elements<kShapes, In>() || !can_be_staged<In>(params.rows))
    return false;
  const auto length = static_cast<int>(params.rows.length);
  const int bytes = (length < 288 ? 15 : 12) * 1024;  // of a block
  with_staged_shape<kShapes, In>(length, [&]<class S>(TypeTag<S>) {
    launch_staged_rows<S>(softmax_staged_kernel<kLog, Params, S>, params, 1, bytes, execution);
  });
  return true;
}

// Rows of two chunks, a warp a row; false if the second chunk is too long for that, or in float32
// for a gain. The rows are simple, of one type.
template <bool kLog, int V, bool kUnaligned, class Params>
bool launch_two_chunks(const Params& params, Execution& execution) {
  using S = ChunkFragment<V, kUnaligned>;
  const auto left = static_cast<int>(params.rows.length - kFoldChunk);
  const auto launch = [&]<class RemainderFragment>(TypeTag<RemainderFragment>) {
    constexpr std::int64_t kRows = kTwoChunkThreads / kWarp;
    launch_rows(execution, softmax_two_chunk_kernel<kLog, Params, S, RemainderFragment>,
                grid_of((params.rows.rows + kRows - 1) / kRows), kTwoChunkThreads, 0, 1, params);
    return true;
  };
  const auto in_vectors = [&]<int kOfLane>() {
    return left <= kOfLane * kWarp * V - (kUnaligned ? V - 1 : 0) &&
           launch(TypeTag<LaneFragment<kWarp, kOfLane, V, kUnaligned>>());
  };
  if constexpr (V == 8 && kUnaligned)
    return with_elements<4, 12, 20, 32>(left, launch);
  else if constexpr (V == 8)
    return with_elements<4, 12>(left, launch) || in_vectors.template operator()<3>();
  else
    return in_vectors.template operator() < kUnaligned ? 2 : 1 > ();
}

// Chunks up to which a row without scale and mask has one block, a chunk a warp. Blocks of float64
// with more than eight warps are alone on a multiprocessor
// (docs/lab/softmax-block-kernel.md#a-chunk-a-warp).
template <class In>
inline constexpr int kBlockChunks = sizeof(In) == 4 ? 16 : 8;

// One block a row, a chunk a warp. LastFragment: the fragment of the remainder, if it has a warp of
// its own, else void.
template <bool kLog, class S, class LastFragment = void, class Params>
void launch_block(const Params& params, Execution& execution) {
  const auto chunks = (params.rows.length + kFoldChunk - 1) / kFoldChunk;
  launch_rows(execution, softmax_block_kernel<kLog, Params, S, LastFragment>,
              grid_of(params.rows.rows), static_cast<unsigned>(chunks * kWarp), 0, 1, params);
}

// The same with a warp of its own for the remainder (rows/remainder.cuh); false if that is no gain.
// The rows are simple, of 16 bits, in vectors. With more than kMost whole chunks two chunks a warp
// do better, and a remainder of nearly a chunk gains less
// (docs/lab/softmax-block-kernel.md#remainders).
template <bool kLog, class S, class Params>
bool launch_remainder(const Params& params, Execution& execution) {
  constexpr int kMost = S::kUnaligned ? 8 : 9;  // whole chunks before it
  const auto whole = static_cast<int>((params.rows.length - 1) / kFoldChunk);
  const auto left = static_cast<int>(params.rows.length - whole * kFoldChunk);
  if (whole > kMost || (left == kFoldChunk && whole < 8)) return false;
  if (left <= kFoldChunk / 2) {
    launch_block<kLog, S, LaneFragment<kWarp, 2, S::kVector, S::kUnaligned>>(params, execution);
    return true;
  }
  if constexpr (!S::kUnaligned)
    launch_block<kLog, S, LaneFragment<kWarp, 4, S::kVector, false>>(params, execution);
  return !S::kUnaligned;
}

// One cluster a row, a chunk a warp; false if the device does not hold one.
template <bool kLog, class S, class Params>
bool launch_cluster(const Params& params, const ChunkPlan& plan, Execution& execution) {
  return launch_clusters(softmax_cluster_kernel<kLog, Params, S>, params, plan,
                         ClusterOfRow<typename Params::F>::bytes(plan.chunks), execution);
}

// Shared memory of a block with two chunks a warp.
template <template <class> class OfRow, class Params, class S>
std::size_t pair_bytes(const ChunkPlan& plan) {
  return OfRow<typename Params::F>::bytes(plan.chunks) +
         PairSmemLayout<Params, S>::bytes(static_cast<std::size_t>(plan.warps));
}

// One block a row, two chunks a warp; false if the row is too long, or a block has not got the
// shared memory. The rows have no scale and mask, are of 16 bits, and in vectors. From 17 chunks on
// two blocks are as good (docs/lab/softmax-block-kernel.md#two-chunks-a-warp).
template <bool kLog, class S, class Params>
bool launch_block_pairs(const Params& params, Execution& execution) {
  constexpr int kMost = 16;
  static_assert(kMost <= BlockOfRow<typename Params::F>::kMostChunks);
  const int device = execution.device.index;
  ChunkPlan plan{};
  if (!has_clusters(device) || !plan_block(params.rows.length, kMost, plan)) return false;
  plan.warps = (plan.chunks + 1) / 2;
  const std::size_t shared = pair_bytes<BlockOfRow, Params, S>(plan);
  if (!fits_shared_memory(shared, device)) return false;
  launch_rows(execution, softmax_pair_kernel<kLog, Params, S, BlockOfRow>,
              grid_of(params.rows.rows), static_cast<unsigned>(plan.warps * kWarp), shared, 1,
              params, plan);
  return true;
}

// The same with a cluster a row; false if the device does not hold one. The rows have no scale and
// mask, in vectors.
template <bool kLog, class S, class Params>
bool launch_cluster_pairs(const Params& params, const ChunkPlan& plan, Execution& execution) {
  return launch_clusters(softmax_pair_kernel<kLog, Params, S, ClusterOfRow>, params, plan,
                         pair_bytes<ClusterOfRow, Params, S>(plan), execution);
}

// The grid kernel; false if it cannot take the rows. They have no scale and mask, in vectors.
template <bool kLog, class S, class Params>
bool launch_grid_rows(const Params& params, Execution& execution) {
  return launch_round_robin<GridSmemLayout<Params, S>>(params, softmax_grid_kernel<kLog, Params, S>,
                                                       execution);
}

template <bool kLog, class S, class Params>
void launch_two_pass(const Params& params, Execution& execution) {
  using F = typename Params::F;
  constexpr std::size_t kChunk = sizeof(F) * kFoldChunk;
  constexpr std::size_t kFixed = sizeof(TwoPassSmem<F>);
  launch_two_pass_rows(softmax_two_pass_kernel<kLog, Params, S>, params, kFixed, kChunk, execution);
}

// Launches the kernels for vectors of V elements; V = 1: element by element.
template <bool kLog, int V, bool kUnaligned, class Params>
void launch_softmax(const Params& params, Execution& execution) {
  using S = ChunkFragment<V, kUnaligned>;
  using In = typename Params::In;
  constexpr int kWarps = Params::kMostWarps;
  constexpr std::size_t kSize = sizeof(In);
  const std::int64_t length = params.rows.length;
  const int device = execution.device.index;
  ChunkPlan plan{};
  // Simple rows have kernels of their own where instructions are the limit, which is in 16 bits.
  // Not where a maximum of unaligned rows may be out of range: counting along one axis then spills
  // registers (docs/lab/softmax-warp-kernel.md#rows-without-scale-and-mask).
  constexpr bool kSameType = std::is_same_v<In, typename Params::Out>;
  constexpr bool kSimple = V > 1 && kSize == 2 && kSameType;
  constexpr bool kNeverOutOfRange = kSimple && !kHasOutOfRange<In>;
  if constexpr (V >= 4 && kUnaligned && kSameType) {
    const bool simple = params.is_simple();
    if constexpr (kSize == 2)
      if (simple && launch_staged<kLog>(params.simple(), execution)) return;
    if ((kSize == 2 ? !params.plain : simple || !params.plain) &&
        launch_staged<kLog>(params, execution))
      return;
  }
  if (length <= kFoldChunk)
    return with_simple < V >= 4 && !kUnaligned &&
           kSameType > (params, [&](const auto& it) {
             launch_warp_rows<kLog, V, kUnaligned>(it, execution);
           });
  if constexpr (V == 1) return launch_two_pass<kLog, S>(params, execution);  // slow anyway
  if constexpr (V >= 4 && kSameType)
    if (params.is_simple() && length <= 2 * kFoldChunk &&
        launch_two_chunks<kLog, V, kUnaligned>(params.simple(), execution))
      return;
  if constexpr (V == 8 && kSameType)
    if (params.is_simple() && launch_remainder<kLog, S>(params.simple(), execution)) return;
  const auto launch_alone = [&] {
    with_simple<kSimple && !kUnaligned>(
        params, [&](const auto& it) { launch_block<kLog, S>(it, execution); });
  };
  if constexpr (kSameType)  // other types go to clusters at once
    if (plan_block(length, params.plain || kSize == 8 ? kBlockChunks<In> : 16, plan))
      return launch_alone();
  if constexpr (V > 1 && kSameType) {
    const auto in_pairs = [&](auto&& launch) {
      return with_simple<kNeverOutOfRange>(params, launch);
    };
    if constexpr (kSize == 2) {
      if (params.plain &&
          in_pairs([&](const auto& it) { return launch_block_pairs<kLog, S>(it, execution); }))
        return;
      // Clusters of more than eight blocks leave some multiprocessors idle
      // (docs/lab/softmax-block-kernel.md#warps-of-a-clusters-blocks).
      constexpr std::int64_t kMostOfClusters = 128 * kFoldChunk;
      if (params.plain && length > kMostOfClusters && launch_grid_rows<kLog, S>(params, execution))
        return;
    }
    constexpr ClusterWarps kOfBlock = kSize == 2   ? ClusterWarps{4, 6, true}
                                      : kSize == 4 ? ClusterWarps{3, 3}
                                                   : ClusterWarps{2, 2};
    if (params.plain && plan_cluster(length, 2, kOfBlock, kWarps, device, plan) &&
        in_pairs(
            [&](const auto& it) { return launch_cluster_pairs<kLog, S>(it, plan, execution); }))
      return;
  }
  if constexpr (V > 1) {
    constexpr ClusterWarps kOfBlock{4, kSize == 2 ? 6 : 4};
    if (plan_cluster(length, 1, kOfBlock, kWarps, device, plan) &&
        launch_cluster<kLog, S>(params, plan, execution))
      return;
    if constexpr (kSameType) {
      if (plan_block(length, kWarps, plan)) return launch_alone();
      launch_two_pass<kLog, ChunkFragment<V, true>>(params, execution);
    } else {
      launch_two_pass<kLog, ChunkFragment<1, false>>(params, execution);
    }
  }
}

// The parameters of rows along up to kSoftmaxAxes axes.
template <class In, class Out>
SoftmaxParams<In, Out> softmax_params(const SoftmaxArguments& a) {
  return {static_cast<const In*>(a.x),
          end_of_rows<In>(a.rows, kX, a.x),
          static_cast<Out*>(a.out),
          {a.rows.rows,
           a.rows.length,
           {a.rows.step[kOut], a.rows.step[kX]},
           {a.rows.outer, a.mask_outer}},
          a.mask,
          static_cast<compute_t<In>>(a.scale),
          a.is_plain(),
          a.masked_is_zero};
}

template <bool kLog>
void run_part_of_softmax(const SoftmaxArguments& a, Execution& execution) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    constexpr int V = 16 / sizeof(In);
    const SoftmaxParams<In, Out> params = softmax_params<In, Out>(a);
    const Alignment alignment = alignment_of(a.rows, {{a.out, sizeof(Out)}, {a.x, sizeof(In)}}, kX);
    if (alignment == Alignment::none || !scale_allows_vectors(a))
      return launch_softmax<kLog, 1, false>(params, execution);
    if constexpr (sizeof(In) < 8 && sizeof(In) <= sizeof(Out))  // others: one set for both
      if (alignment == Alignment::aligned && mask_is_aligned(a))
        return launch_softmax<kLog, V, false>(params, execution);
    launch_softmax<kLog, V, true>(params, execution);
  });
}

template <bool kLog>
void run_softmax(const SoftmaxArguments& a, Execution& execution) {
  if (a.rows.rows == 0 || a.rows.length == 0) return;
  const CurrentDevice current(execution.device.index);
  split_axes<kSoftmaxAxes>(a, [&](const SoftmaxArguments& of_axes) {
    split_rows(of_axes,
               [&](const SoftmaxArguments& part) { run_part_of_softmax<kLog>(part, execution); });
  });
}

}  // namespace twinops
