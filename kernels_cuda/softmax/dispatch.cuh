// Launches the kernel of softmax and log_softmax that softmax/choice.hpp names for a call's rows.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/block_kernel.cuh"
#include "kernels_cuda/softmax/choice.hpp"
#include "kernels_cuda/softmax/grid_kernel.cuh"
#include "kernels_cuda/softmax/pair_kernel.cuh"
#include "kernels_cuda/softmax/staged_kernel.cuh"
#include "kernels_cuda/softmax/two_chunk_kernel.cuh"
#include "kernels_cuda/softmax/two_pass_kernel.cuh"
#include "kernels_cuda/softmax/warp_kernel.cuh"

namespace twinops {

template <bool kLog, Shapes kShapes, int V, bool kUnaligned, class Params>
void launch_warp_rows(const Params& params, Execution& execution) {
  with_lane_shape<kShapes, V, kUnaligned || (kShapes == Shapes::coarse && V > 1)>(
      params.rows.length, [&]<class S>(TypeTag<S>) {
        constexpr int kThreads = short_threads<Params, S>();
        constexpr std::int64_t kRows = kThreads / S::kLanes;
        launch_rows(execution, softmax_warp_kernel<kLog, Params, S>,
                    grid_of((params.rows.rows + kRows - 1) / kRows), kThreads, 0, 1, params);
      });
}

// Short unaligned rows by way of shared memory; false if they do not lie side by side. What is read
// and written is aligned alike.
template <bool kLog, Shapes kShapes, class Params>
bool launch_staged(const Params& params, Execution& execution) {
  using In = typename Params::In;
  if (!can_be_staged<In>(params.rows)) return false;
  const auto length = static_cast<int>(params.rows.length);
  const int bytes = (length < 288 ? 15 : 12) * 1024;  // of a block
  with_staged_shape<kShapes, In>(length, [&]<class S>(TypeTag<S>) {
    launch_staged_rows<S>(softmax_staged_kernel<kLog, Params, S>, params, 1, bytes, execution);
  });
  return true;
}

// Rows of two chunks, a warp a row. They are simple, of one type.
template <bool kLog, int V, bool kUnaligned, class Params>
void launch_two_chunks(const Params& params, Execution& execution) {
  using S = ChunkFragment<V, kUnaligned>;
  const auto left = static_cast<int>(params.rows.length - kFoldChunk);
  const auto launch = [&]<class RemainderFragment>(TypeTag<RemainderFragment>) {
    constexpr std::int64_t kRows = kTwoChunkThreads / kWarp;
    launch_rows(execution, softmax_two_chunk_kernel<kLog, Params, S, RemainderFragment>,
                grid_of((params.rows.rows + kRows - 1) / kRows), kTwoChunkThreads, 0, 1, params);
  };
  if constexpr (V == 8 && kUnaligned) {
    with_elements<4, 12, 20, 32>(left, launch);
  } else {
    constexpr int kVectors = V == 8 ? 3 : kUnaligned ? 2 : 1;  // of a lane
    static_assert(most_elements({kWarp, kVectors}, V, kUnaligned) >=
                  most_left_of_two(V, kUnaligned));
    if constexpr (V == 8)
      if (with_elements<4, 12>(left, launch)) return;
    launch(TypeTag<LaneFragment<kWarp, kVectors, V, kUnaligned>>());
  }
}

// One block a row, a chunk a warp. LastFragment: the fragment of the remainder, if it has a warp of
// its own, else void.
template <bool kLog, class S, class LastFragment = void, class Params>
void launch_block(const Params& params, Execution& execution) {
  const auto chunks = (params.rows.length + kFoldChunk - 1) / kFoldChunk;
  launch_rows(execution, softmax_block_kernel<kLog, Params, S, LastFragment>,
              grid_of(params.rows.rows), static_cast<unsigned>(chunks * kWarp), 0, 1, params);
}

// The same with a warp of its own for the remainder (rows/remainder.cuh). The rows are simple, of
// 16 bits, in vectors.
template <bool kLog, class S, class Params>
void launch_remainder(const Params& params, Execution& execution) {
  if ((params.rows.length - 1) % kFoldChunk < kFoldChunk / 2)
    return launch_block<kLog, S, LaneFragment<kWarp, 2, S::kVector, S::kUnaligned>>(params,
                                                                                    execution);
  if constexpr (!S::kUnaligned)
    launch_block<kLog, S, LaneFragment<kWarp, 4, S::kVector, false>>(params, execution);
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

// One block a row, two chunks a warp; false if a block has not got the shared memory. The rows have
// no scale and mask, are of 16 bits, and in vectors.
template <bool kLog, class S, class Params>
bool launch_block_pairs(const Params& params, Execution& execution) {
  const int device = execution.device.index;
  ChunkPlan plan{};
  if (!has_clusters(device) ||
      !plan_block(params.rows.length, BlockOfRow<typename Params::F>::kMostChunks, plan))
    return false;
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

// Launches the kernel of a line of softmax_paths() for vectors of V elements (V = 1: element by
// element); false if the device has no room for it, or the rows do not lie as it needs them.
template <bool kLog, int V, bool kUnaligned, Path kPath, Shapes kShapes, class Params>
bool launch_path(const Params& params, Execution& execution) {
  using In = typename Params::In;
  using S = ChunkFragment<V, kUnaligned>;
  constexpr bool kSameType = std::is_same_v<In, typename Params::Out>;
  constexpr std::size_t kSize = sizeof(In);
  constexpr int kWarps = row_warps(kSize);
  static_assert(kWarps == Params::kMostWarps);
  const std::int64_t length = params.rows.length;
  const int device = execution.device.index;
  ChunkPlan plan{};
  if constexpr (kPath == Path::staged) {
    return launch_staged<kLog, kShapes>(params, execution);
  } else if constexpr (kPath == Path::block_pairs) {
    return launch_block_pairs<kLog, S>(params, execution);
  } else if constexpr (kPath == Path::cluster_pairs) {
    constexpr ClusterWarps kOfBlock = kSize == 2   ? ClusterWarps{4, 6, true}
                                      : kSize == 4 ? ClusterWarps{3, 3}
                                                   : ClusterWarps{2, 2};
    return plan_cluster(length, 2, kOfBlock, kWarps, device, plan) &&
           launch_cluster_pairs<kLog, S>(params, plan, execution);
  } else if constexpr (kPath == Path::cluster) {
    constexpr ClusterWarps kOfBlock{4, kSize == 2 ? 6 : 4};
    return plan_cluster(length, 1, kOfBlock, kWarps, device, plan) &&
           launch_cluster<kLog, S>(params, plan, execution);
  } else if constexpr (kPath == Path::grid) {
    return launch_grid_rows<kLog, S>(params, execution);
  } else {
    if constexpr (kPath == Path::warp)
      launch_warp_rows<kLog, kShapes, V, kUnaligned>(params, execution);
    else if constexpr (kPath == Path::two_chunks)
      launch_two_chunks<kLog, V, kUnaligned>(params, execution);
    else if constexpr (kPath == Path::remainder)
      launch_remainder<kLog, S>(params, execution);
    else if constexpr (kPath == Path::block)
      launch_block<kLog, S>(params, execution);
    else
      launch_two_pass<kLog, std::conditional_t<kSameType && V != 1, ChunkFragment<V, true>,
                                               ChunkFragment<1, false>>>(params, execution);
    return true;
  }
}

// Launches the first line that takes the rows.
template <bool kLog, Alignment kAlignment, class In, class Out>
void launch_softmax(const SoftmaxParams<In, Out>& params, Execution& execution) {
  static constexpr RowTypes kTypes{kTypeOf<In>, kTypeOf<Out>, kAlignment};
  static constexpr PathTable kTable = softmax_paths(kTypes);
  static_assert(kHasOutOfRange<In> == (kTypeOf<In> != Type::float16));
  const unsigned rows = !params.plain ? kMaskedRows : params.is_simple() ? kSimpleRows : kAxesRows;
  take_path<kTable.size()>([&]<int kLine>() {
    constexpr PathLine kIt = kTable[kLine];
    constexpr int V = kTypes.vector();
    constexpr bool kUnaligned = kTypes.unaligned();
    if (!kIt.takes(params.rows.length, rows)) return false;
    if constexpr (kIt.rows == kSimpleRows)
      return launch_path<kLog, V, kUnaligned, kIt.path, kIt.shapes>(params.simple(), execution);
    else
      return launch_path<kLog, V, kUnaligned, kIt.path, kIt.shapes>(params, execution);
  });
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

template <bool kLog, class In>
void run_part_of_softmax(const SoftmaxArguments& a, Execution& execution) {
  with_out_type<In>(a.types, [&]<class Out>(TypeTag<Out>) {
    const SoftmaxParams<In, Out> params = softmax_params<In, Out>(a);
    const Alignment alignment = alignment_of(a.rows, {{a.out, sizeof(Out)}, {a.x, sizeof(In)}}, kX);
    if (alignment == Alignment::none || !scale_allows_vectors(a))
      return launch_softmax<kLog, Alignment::none>(params, execution);
    if constexpr (has_aligned_kernels(kTypeOf<In>, kTypeOf<Out>))
      if (alignment == Alignment::aligned && mask_is_aligned(a))
        return launch_softmax<kLog, Alignment::aligned>(params, execution);
    launch_softmax<kLog, Alignment::unaligned>(params, execution);
  });
}

template <bool kLog, class In>
void run_softmax(const SoftmaxArguments& a, Execution& execution) {
  if (a.rows.rows == 0 || a.rows.length == 0) return;
  const CurrentDevice current(execution.device.index);
  split_axes<kSoftmaxAxes>(a, [&](const SoftmaxArguments& of_axes) {
    split_rows(of_axes, [&](const SoftmaxArguments& part) {
      run_part_of_softmax<kLog, In>(part, execution);
    });
  });
}

}  // namespace twinops
