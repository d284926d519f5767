// Which of the softmax kernels a call takes, by the length of its rows and where they lie.
#pragma once

#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/block_kernel.cuh"
#include "kernels_cuda/softmax/grid_kernel.cuh"
#include "kernels_cuda/softmax/pair_kernel.cuh"
#include "kernels_cuda/softmax/staged_kernel.cuh"
#include "kernels_cuda/softmax/two_chunk_kernel.cuh"
#include "kernels_cuda/softmax/two_pass_kernel.cuh"

namespace twinops {

// Calls launch(job), or, where the job is simple and (kKernels) there are kernels for that, launch
// of it as a SimpleSoftmaxJob.
template <bool kKernels, class Job, class Launch>
auto with_simple(const Job& job, Launch&& launch) {
  if constexpr (kKernels)
    if (job.is_simple()) return launch(job.simple());
  return launch(job);
}

template <bool kLog, int V, bool kRagged, class Job>
void launch_short(const Job& job, Execution& execution) {
  constexpr bool kSameType = std::is_same_v<typename Job::In, typename Job::Out>;
  constexpr Shapes kShapes = Job::kSimple ? Shapes::forward
                             : kSameType  ? Shapes::masked
                                          : Shapes::few;
  const auto launch = [&]<class S>(TypeTag<S>) {
    constexpr int kThreads = short_threads<Job, S>();
    constexpr std::int64_t kRows = kThreads / S::kLanes;
    launch_rows(execution, softmax_short_kernel<kLog, Job, S>,
                grid_of((job.rows.rows + kRows - 1) / kRows), kThreads, 0, 1, job);
  };
  with_short_share<V, kRagged, kShapes>(job.rows.length, execution.device.index, launch);
}

// Rows that go through shared memory; false if they are too long for that, or lie apart. What the
// job reads and writes is aligned alike.
template <bool kLog, class Job>
bool launch_staged(const Job& job, Execution& execution) {
  using In = typename Job::In;
  constexpr bool kHalf = sizeof(In) == 2;
  constexpr bool kMasked = kHalf && !Job::kSimple;
  constexpr WordSteps kSteps = !kHalf    ? WordSteps::few
                               : kMasked ? WordSteps::second
                                         : WordSteps::every;
  constexpr int kMost = kHalf ? 575 : 127;
  if (job.rows.length > kMost || !can_be_staged<In>(job.rows)) return false;
  const auto length = static_cast<int>(job.rows.length);
  const int bytes = (length < 288 ? 15 : 12) * 1024;  // of a block
  const auto launch = [&]<class S>(TypeTag<S>) {
    launch_staged_rows<S>(softmax_staged_kernel<kLog, Job, S>, job, 1, bytes, execution);
  };
  if constexpr (kMasked)
    if (job.mask.kind == RowMask::Kind::added || job.mask.kind == RowMask::Kind::added_float32) {
      with_staged_share<In, kSteps, 20, kMost>(length, launch);  // numbers take registers, too
      return true;
    }
  with_staged_share<In, kSteps, kHalf ? 26 : 20, kMost>(length, launch);
  return true;
}

// A warp a row of two chunks; false if the second one is too long for that, or in float32 for any
// gain. The job is simple.
template <bool kLog, int V, bool kRagged, class Job>
bool launch_two_chunks(const Job& job, Execution& execution) {
  using S = ChunkShare<V, kRagged>;
  const auto left = static_cast<int>(job.rows.length - kFoldChunk);
  const auto launch = [&]<class Tail>(TypeTag<Tail>) {
    constexpr std::int64_t kRows = kTwoChunkThreads / kWarp;
    launch_rows(execution, softmax_two_chunk_kernel<kLog, Job, S, Tail>,
                grid_of((job.rows.rows + kRows - 1) / kRows), kTwoChunkThreads, 0, 1, job);
  };
  if constexpr (V == 8 && kRagged) {
    return with_elements<1, 32>(left, launch);
  } else {
    constexpr int kOfLane = V == 8 ? 12 : 0;
    if constexpr (kOfLane > 0)
      if (with_elements<1, kOfLane>(left, launch)) return true;
    constexpr int kLeast = kOfLane / V + 1, kMost = V == 8 ? 3 : kRagged ? 2 : 1;  // packs
    const int packs = packs_of_lane<V, kRagged, Shapes::forward>(left, kWarp);
    if (packs > kMost) return false;
    with_packs<kWarp, V, kRagged, Shapes::forward, kLeast>(
        packs, [&]<class Tail>(TypeTag<Tail> tail) {
          if constexpr (Tail::kElements / V <= kMost) launch(tail);
        });
    return true;
  }
}

// Chunks of a plain row up to which a block is alone with it, a chunk a warp. Of float64 blocks of
// more than eight warps are alone on a multiprocessor (10 305 columns 0.90 and 0.98 of the copy
// rate, log_softmax 0.84 and 0.98).
template <class In>
inline constexpr int kAloneChunks = sizeof(In) == 4 ? 16 : 8;

// A block a row.
template <bool kLog, class S, LastChunk kLast = LastChunk::alike, class Last = S, class Job>
void launch_block(const Job& job, Execution& execution) {
  constexpr int kAdded = kLast == LastChunk::along ? 0 : kFoldChunk - 1;
  const auto threads = static_cast<unsigned>((job.rows.length + kAdded) / kFoldChunk * kWarp);
  launch_rows(execution, softmax_row_kernel<kLog, Job, S, kLast, Last>, grid_of(job.rows.rows),
              threads, 0, 1, job);
}

// The same of rows whose last chunk is better taken otherwise than the others (row_tail.cuh); false
// if it is not. The job is simple and of 16 bits, in packs. Share of the copy rate on an H200: of
// more whole chunks two a warp do better, begun anywhere (bfloat16 at 9217 columns 0.96 and 0.96,
// log_softmax 0.92 and 0.96), and in whole packs at 11 chunks (10 400 columns 0.96 and 0.98, 0.92
// and 0.97; 9800 1.00 and 0.96, 0.97 and 0.96). A last chunk that is whole, or nearly, gains less
// (float16 at 2900 0.96 and alike 0.96, 0.92 and 0.93, 4800 0.98 and 0.96, 0.94 and 0.92).
template <bool kLog, class S, class Job>
bool launch_last_chunk(const Job& job, Execution& execution) {
  constexpr int kMost = S::kRagged ? 8 : 9;  // whole chunks before it
  const auto whole = static_cast<int>((job.rows.length - 1) / kFoldChunk);
  const auto left = static_cast<int>(job.rows.length - whole * kFoldChunk);
  if (whole > kMost || (left == kFoldChunk && whole < 8)) return false;
  const auto along = [&]<class Last>(TypeTag<Last>) {
    launch_block<kLog, S, LastChunk::along, Last>(job, execution);
  };
  const auto apart = [&]<class Last>(TypeTag<Last>) {
    launch_block<kLog, S, LastChunk::apart, Last>(job, execution);
    return true;
  };
  const auto in_packs = [&]<int R>() {
    return apart(TypeTag<Share<kWarp, R, S::kPack, S::kRagged>>());
  };
  if constexpr (S::kRagged) {
    if (whole == 2 && with_elements<2, 4>(left, along)) return true;
    if (with_elements<4, 12>(left, apart)) return true;
    if (left <= kFoldChunk / 2) return in_packs.template operator()<2>();
    if (with_elements<20, 20>(left, apart)) return true;
    return (kHasFar<typename Job::In> || whole >= 4) && in_packs.template operator()<4>();
  } else {
    if (with_elements<4, 4>(left, apart)) return true;
    if (left <= kFoldChunk / 4) return in_packs.template operator()<1>();
    if (left <= kFoldChunk / 2) return in_packs.template operator()<2>();
    return in_packs.template operator()<4>();
  }
}

// A chunk a warp of a cluster; false if it has no room.
template <bool kLog, class S, class Job>
bool launch_chunks(const Job& job, const ChunkRows& plan, Execution& execution) {
  return launch_clusters(softmax_cluster_kernel<kLog, Job, S>, job, plan,
                         ClusterOfRow<typename Job::F>::bytes(plan.chunks), execution);
}

// Shared memory of a block with two chunks a warp.
template <template <class> class OfRow, class Job, class S>
std::size_t pair_bytes(const ChunkRows& plan) {
  return OfRow<typename Job::F>::bytes(plan.chunks) +
         PairRoom<Job, S>::bytes(static_cast<std::size_t>(plan.warps));
}

// Two chunks a warp of a block that is alone with its row; false if the row is too long, or blocks
// have no room. The job is plain, of 16 bits, in packs. Of up to 16 chunks, from which on two
// blocks are as good; share of the copy rate of bfloat16 that begins anywhere on an H200, a chunk a
// warp (from 10 241 columns on two a warp of two blocks) and so: 9217 columns 0.88 and 0.95, 10 305
// 0.84 and 0.90, 12 289 0.85 and 0.92, 14 001 0.93 and 0.95, log_softmax 0.87 and 0.95, 0.81 and
// 0.90, 0.83 and 0.90, 0.92 and 0.95; of fewer than nine chunks float16 has no gain.
template <bool kLog, class S, class Job>
bool launch_pairs_alone(const Job& job, Execution& execution) {
  constexpr int kMost = 16;
  static_assert(kMost <= BlockOfRow<typename Job::F>::kMostChunks);
  const int device = execution.device.index;
  ChunkRows plan{};
  if (!has_clusters(device) || !plan_alone(job.rows.length, kMost, plan)) return false;
  plan.warps = (plan.chunks + 1) / 2;
  const std::size_t shared = pair_bytes<BlockOfRow, Job, S>(plan);
  if (!has_room(shared, device)) return false;
  launch_rows(execution, softmax_pair_kernel<kLog, Job, S, BlockOfRow>, grid_of(job.rows.rows),
              static_cast<unsigned>(plan.warps * kWarp), shared, 1, job, plan);
  return true;
}

// The same of a cluster; false if they have no room. The job is plain, in packs.
template <bool kLog, class S, class Job>
bool launch_pairs(const Job& job, const ChunkRows& plan, Execution& execution) {
  return launch_clusters(softmax_pair_kernel<kLog, Job, S, ClusterOfRow>, job, plan,
                         pair_bytes<ClusterOfRow, Job, S>(plan), execution);
}

// The same in teams.
template <bool kLog, class S, class Job>
bool launch_pairs_of_teams(const Job& job, Execution& execution) {
  using Room = PairsOfTeam<TeamOfRow<typename Job::F>, &PairRoom<Job, S>::bytes>;
  return launch_teams<Room>(job, softmax_pair_kernel<kLog, Job, S, TeamOfRow>, {16, 8}, execution);
}

// A chunk a warp, dealt round the device's blocks; false if that has no room. The job is plain, in
// packs.
template <bool kLog, class S, class Job>
bool launch_dealt(const Job& job, Execution& execution) {
  return launch_dealt_rows<DealtRoom<Job, S>>(job, softmax_dealt_kernel<kLog, Job, S>, execution);
}

template <bool kLog, class S, class Job>
void launch_long(const Job& job, Execution& execution) {
  using F = typename Job::F;
  constexpr std::size_t kChunk = sizeof(F) * kFoldChunk;
  constexpr std::size_t kFixed = sizeof(LongShared<F>);
  launch_long_rows(softmax_long_kernel<kLog, Job, S>, job, kFixed, kChunk, execution);
}

// In packs of V elements; one by one if V is 1.
template <bool kLog, int V, bool kRagged, class Job>
void launch_softmax(const Job& job, Execution& execution) {
  using S = ChunkShare<V, kRagged>;
  using In = typename Job::In;
  constexpr int kWarps = Job::kMostWarps;
  constexpr std::size_t kSize = sizeof(In);
  const std::int64_t length = job.rows.length;
  const int device = execution.device.index;
  ChunkRows plan{};
  // Simple jobs of 16 bits, where instructions are the limit, have kernels of their own (float16
  // softmax at 64 to 1000 columns 0.95 to 0.97 of the copy rate, log_softmax 0.94 to 0.97, at 1001
  // 0.84 to 0.91, both at 16384 0.88 to 0.90). In float32 they gain where more of their warps have
  // room (short_blocks()), and 0.1 to 0.3 us of fewer parameters where a block has a row. They do
  // not where ragged rows of a block each of 16 bits may be out of reach (bfloat16 at 4100 0.80 to
  // 0.77), nor pairs of such (at 32768 0.84 to 0.82: one axis to count along spills registers).
  constexpr bool kSimple = V > 1 && kSize == 2;
  constexpr bool kNoFar = kSimple && !kHasFar<In>;
  constexpr bool kSameType = std::is_same_v<In, typename Job::Out>;
  if constexpr (V >= 4 && kRagged && kSameType)
    if (job.is_simple() ? launch_staged<kLog>(job.simple(), execution)
                        : !job.plain && launch_staged<kLog>(job, execution))
      return;
  constexpr bool kShortSimple = kSimple || V == 4;
  if (length <= kFoldChunk)
    return with_simple<kShortSimple>(
        job, [&](const auto& it) { launch_short<kLog, V, kRagged>(it, execution); });
  if constexpr (V >= 4)
    if (job.is_simple() && length <= 2 * kFoldChunk &&
        launch_two_chunks<kLog, V, kRagged>(job.simple(), execution))
      return;
  if constexpr (V == 8 && kSameType)
    if (job.is_simple() && launch_last_chunk<kLog, S>(job.simple(), execution)) return;
  const auto launch_alone = [&] {
    with_simple<(kRagged ? kNoFar : kSimple) || (V == 4 && kSameType)>(
        job, [&](const auto& it) { launch_block<kLog, S>(it, execution); });
  };
  const bool few = V > 1 && kSameType && job.plain;  // of their own, or pairs beyond
  if (plan_alone(length, few || kSize == 8 ? kAloneChunks<In> : 16, plan)) return launch_alone();
  if constexpr (V > 1 && kSameType) {
    const auto in_pairs = [&](auto&& launch) { return with_simple<kNoFar>(job, launch); };
    if constexpr (kSize == 2) {
      if (job.plain &&
          in_pairs([&](const auto& it) { return launch_pairs_alone<kLog, S>(it, execution); }))
        return;
      // Clusters of more than eight blocks leave some multiprocessors idle: on an H200 bfloat16 of
      // 131 072 columns has 0.94 of the copy rate in clusters and 0.88 dealt, of 150 001 0.81 and
      // 0.87, of 200 001 0.73 and 0.88, of 262 144 0.84 and 0.89.
      constexpr std::int64_t kMostOfClusters = 128 * kFoldChunk;
      if (job.plain && length > kMostOfClusters && launch_dealt<kLog, S>(job, execution)) return;
    }
    // Rows that clusters have no room for, or in 16 bits for half of that, go to teams.
    constexpr std::int64_t kMost = kPortableBlocksOfRow * kWarps * kFoldChunk * (kSize / 2);
    if constexpr (kSize < 8)
      if (job.plain && length > kMost && launch_pairs_of_teams<kLog, S>(job, execution)) return;
    constexpr ClusterWarps kOfBlock = kSize == 2   ? ClusterWarps{4, 6, true}
                                      : kSize == 4 ? ClusterWarps{3, 3}
                                                   : ClusterWarps{2, 2};
    if (job.plain && plan_cluster(length, 2, kOfBlock, kWarps, device, plan) &&
        in_pairs([&](const auto& it) { return launch_pairs<kLog, S>(it, plan, execution); }))
      return;
  }
  constexpr ClusterWarps kOfBlock{4, kSize == 2 ? 6 : 4};
  if (plan_cluster(length, 1, kOfBlock, kWarps, device, plan) &&
      launch_chunks<kLog, S>(job, plan, execution))
    return;
  if (plan_alone(length, kWarps, plan)) return launch_alone();
  launch_long<kLog, S>(job, execution);
}

// Of rows along up to kSoftmaxAxes axes.
template <class In, class Out>
SoftmaxJob<In, Out> softmax_job(const SoftmaxArguments& a) {
  return {
      static_cast<const In*>(a.x),
      end_of_rows<In>(a.rows, 1, a.x),
      static_cast<Out*>(a.out),
      {a.rows.rows, a.rows.length, {a.rows.step[0], a.rows.step[1]}, {a.rows.outer, a.mask_outer}},
      a.mask,
      static_cast<compute_t<In>>(a.scale),
      a.is_plain(),
      a.masked_is_zero};
}

template <bool kLog>
void run_part_of_softmax(const SoftmaxArguments& a, Execution& execution) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    constexpr int V = 16 / sizeof(In);
    const SoftmaxJob<In, Out> job = softmax_job<In, Out>(a);
    const Packs packs = packs_of(a.rows, {{a.out, sizeof(Out)}, {a.x, sizeof(In)}}, 1);
    if (packs == Packs::none || !scale_goes_in_packs(a))
      return launch_softmax<kLog, 1, false>(job, execution);
    if (packs == Packs::whole && mask_lies_in_packs(a))
      return launch_softmax<kLog, V, false>(job, execution);
    launch_softmax<kLog, V, true>(job, execution);
  });
}

template <bool kLog>
void run_softmax(const SoftmaxArguments& a, Execution& execution) {
  if (a.rows.rows == 0 || a.rows.length == 0) return;
  const CurrentDevice current(execution.device.index);
  for_few_axes<kSoftmaxAxes>(a, [&](const SoftmaxArguments& few) {
    for_few_rows(few,
                 [&](const SoftmaxArguments& part) { run_part_of_softmax<kLog>(part, execution); });
  });
}

}  // namespace twinops
