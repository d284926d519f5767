// The kernels of softmax and log_softmax. All take a row in the same order (docs/softmax.md):
//   short rows   up to a chunk: 2^k lanes a row, several rows a warp (short_rows.cuh)
//   staged rows  up to half a chunk, that begin anywhere, side by side (softmax_staged_kernel.cuh)
//   two chunks   simple rows of 16 bits, a warp a row (softmax_two_chunk_kernel.cuh)
//   rows         a chunk a warp, everything in the registers of a block or of a cluster of blocks;
//                what is left after whole chunks may go along with the last (row_tail.cuh)
//   pairs        two chunks a warp of a block, a cluster or a team (softmax_pair_kernel.cuh)
//   dealt rows   a chunk a warp, of 16 bits, round all blocks (softmax_dealt_kernel.cuh)
//   long rows    a cluster of blocks a row (softmax_long_kernel.cuh)
// For 16-bit types instructions are near the limit: a warp's chunk takes 690 of them (760 where it
// is ragged), and 1000 would be all that a multiprocessor issues while the chunk travels. So
// pointers are made once a chunk, what rows have in common once a row, and packs lie at offsets
// that instructions hold. Tried and left: joining chunks through a maximum of the whole row first,
// which costs a second barrier; a warp for 64 columns, which leaves most lanes idle; blocks that
// stay, with or without the next row on its way, where one block holds a row (0.86 and 0.92 of the
// copy rate in place of 0.97), and until 2026-11-26 where a cluster did (softmax_pair_kernel.cuh);
// one warp that joins a block's parts for all, where one block holds a row (0.80 in place of 0.83
// at 16384); a barrier of the cluster in place of sent parts (0.45 in place of 0.67 at 65536); the
// next row's weights before this row's parts are there (no gain from 32768 to 524288); warps that
// each go their own way, a chunk's weights in shared memory while its row is joined elsewhere, by
// letters from block to block (0.80 to 0.73 at 65536) or through global memory (0.46); warps
// without a chunk that skip more of the work than the weights (no gain; log_softmax 0.78 to 0.67 at
// 65536); 48 or 56 registers, for more warps (0.64 to 0.50 and 0.59 at 50257); a way of its own to
// store a ragged chunk that is full (0.86 to 0.74 in float32 at 50257, by the instructions' cache);
// a row that is out of
// reach taken again apart from the loop (bfloat16's logarithm 0.90 to 0.87 at 16384, spills in
// float32); short rows in blocks of 256 threads (no gain); loads that say they are read once
// (ld.cs, L1::no_allocate, a policy of L2::evict_first; 0.01 to 0.04 lost at every length of
// float32 but teams'), that fetch 128 or 256 bytes (no gain), stores that say so (st.cs, st.wt; no
// gain).
#pragma once

#include "kernels_cuda/rows/async_copy.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/rows/warp_scope.cuh"
#include "kernels_cuda/softmax/softmax_remainder.cuh"

namespace twinops {

// Threads of a block of simple short rows whose lanes have two packs or more: so many that a block
// takes about 4 kB. With 64 in place of 128 float16 has 0.98 in place of 0.97 of the copy rate at
// 64, 256, 512 and 1024 columns, float32 0.99 in place of 0.97 at 512; with 32 in place of 64
// float32 in whole packs has 1.00 in place of 0.98 at 1024, but begun anywhere 0.96 in place of
// 0.99 at 257 and its log_softmax 0.85. Gradients and staged rows, and those of one pack, lose up
// to a quarter.
template <class Job, class S>
constexpr int short_threads() {
  if (!Job::kSimple || S::kElements < 2 * S::kPack) return kShortThreads;
  const bool alone = S::kPack == 4 && S::kElements > 16 && !S::kRagged;  // of its warp
  return alone ? kWarp : kShortThreads / 2;
}

// Blocks of kShortThreads on a multiprocessor, with as many registers a thread as that leaves: 56
// for up to 32 elements a lane, which simple kernels exceed if left alone (16 bits 0.97 to 0.95 of
// the copy rate, bfloat16's logarithms to 0.89); 48 would spill (0.82). For more elements 64 and
// 80, found by trying one block more and one less (float16's log_softmax of 513 columns, 40
// elements a lane: 0.73 with six blocks, 0.76 with seven, 0.85 with eight). sm_75 holds 1024
// threads, sm_86 and sm_87 16 blocks. Up to 16 elements of float32 do with 40 registers
// (log_softmax at 64 0.95 to 0.98, at 128 0.96 to 1.00, at 256 0.98 to 0.99), begun anywhere up to
// 12 (16 would spill: 200 columns 0.98 to 0.89); more of them in blocks of a warp, of which every
// GPU has room for 16, with as many as they like. Other kernels are left alone, by a 0: a 1 gives
// them up to 128 registers (log_softmax of float32 at 64 0.97 to 0.93). But for masks that are read
// in packs of 16 bits: with the 70 registers that kernels would have there are too few warps to
// wait for x and for them (bfloat16 under bytes at 128 to 512 columns 0.98 and 0.80 on an H100,
// under float32 numbers 0.80 and 0.74; with 64 registers 0.85 and 0.90). Begun anywhere, eight
// blocks (1001 columns under numbers, log_softmax 0.74 and 0.82).
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800 || __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870)
inline constexpr int kMostShortBlocks = 8;
#else
inline constexpr int kMostShortBlocks = 9;
#endif
template <class Job, class S>
constexpr int short_blocks() {
  constexpr int kBlocks = kShortThreads / short_threads<Job, S>();
  if (!Job::kSimple) return S::kPack == 8 ? (S::kRagged ? 8 : kMostShortBlocks) : 0;
  if (short_threads<Job, S>() == kWarp) return 16;
  if (S::kPack == 4 && S::kElements <= (S::kRagged ? 12 : 16) && kMostShortBlocks > 8)
    return kBlocks * 12;
  if (S::kElements <= 32) return kBlocks * kMostShortBlocks;
  if (S::kElements <= 40) return kBlocks * 8;
  return kBlocks * (S::kElements > 48 && S::kRagged && S::kEdges > 2 ? 5 : 6);
}

// S: how a row lies in G lanes.
template <bool kLog, class Job, class S>
__global__ void __launch_bounds__((short_threads<Job, S>()), (short_blocks<Job, S>()))
    softmax_short_kernel(const __grid_constant__ Job job) {
  using F = typename Job::F;
  constexpr int V = S::kPack, G = S::kLanes;
  constexpr int kRows = short_threads<Job, S>() / G;    // of a block
  const int first = threadIdx.x / kWarp * (kWarp / G);  // of the warp, whose lanes stay together
  for (std::int64_t base = std::int64_t{blockIdx.x} * kRows + first; base < job.rows.rows;
       base += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t r = base + threadIdx.x % kWarp / G;
    const int left = r < job.rows.rows ? static_cast<int>(job.rows.length) : 0;
    // Lanes beyond the last row have a part of it that is empty.
    const std::int64_t inside = Job::kSimple ? r : min(r, job.rows.rows - 1);
    const auto starts = row_starts(job.rows.outer, inside);
    const auto* const from = job.x + starts.of[1];
    const S share(from, left, threadIdx.x % G);
    F x[S::kElements];
    LaneRange<F> range = load_share(job, share, inside, from, V == 1 ? job.rows.step[1] : 1, 0, x);
    F max = greatest_of_lanes<G>(range.max);
    if (kMeetsFar<Job> && kind_of_row(max) == RowKind::far) {
      range = moved<S>(range, max, x);
      max = F(0);
    }
    const F sum = weigh<kLog, S, typename Job::In>(x, max, range.min);
    const auto row = finish_row<kLog, typename Job::In>(SoftmaxPart<F>{max, sum});
    store_share<kLog>(job, share, starts.of[0], job.rows.step[0], x, row.max, row.last);
    // No grid has fewer lanes than rows need. The loop is for the compiler: without it simple
    // kernels spill (bfloat16's softmax of 1001 columns 1.01 to 0.99 of the copy rate on an H100),
    // and with it those of scales and masks (512 keys 0.99 to 0.94).
    if constexpr (!Job::kSimple) return;
  }
}

// What a warp does whose block is alone with its row. S: how its chunk lies in lanes; kWhole: all
// of it is the row's, and the compiler knows; Tail: of what is taken along.
template <bool kLog, class S, LastChunk kLast, bool kWhole, class Tail, class Job>
__device__ __forceinline__ void take_row(const Job& job, int chunk,
                                         SoftmaxPart<typename Job::F>* parts) {
  using F = typename Job::F;
  using In = typename Job::In;
  constexpr int V = S::kPack;
  constexpr bool kTail = kLast == LastChunk::along;
  const int lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp, begin = chunk * kFoldChunk;
  const int rest = static_cast<int>(job.rows.length) - begin, left = kWhole ? kFoldChunk : rest;
  const std::int64_t step_in = V == 1 ? job.rows.step[1] : 1;
  const std::int64_t step_out = V == 1 ? job.rows.step[0] : 1;
  TailIf<kTail, SoftmaxTail<In, Tail>> tail(rest - kFoldChunk, lane, chunk == warps - 1);
  F x[S::kElements], max;
  const auto at = [&] {  // the row's chunk, of out and of x: found anew, which takes no registers
    auto starts = row_starts(job.rows.outer, block_anew());
    starts.of[0] += begin * step_out;
    starts.of[1] += begin * step_in;
    return starts;
  };
  const auto share_of = [&](const In* from) { return S(from, left, lane); };
  bool again = false;
  const auto load = [&](F(&x)[S::kElements]) {
    const In* const from = job.x + at().of[1];
    if (kMeetsFar<Job> && again) sync_row<kLast>();  // before other parts come
    again = true;
    if constexpr (Job::kSimple) {
      tail.load(from + kFoldChunk);
      const S share = share_of(from);
      Pack<In, S::kPack> packs[S::kElements / S::kPack];
      share.load(from, 1, kPad<In>, packs);
      constexpr bool kAfter = !kLog || !kMeetsFar<Job>;
      return widen_share<S, kAfter>(packs, kAfter || share.full(), x);
    } else {
      return load_share(job, share_of(from), blockIdx.x, from, step_in, begin, x);
    }
  };
  const auto join = [&](SoftmaxPart<F> part, F shift) {
    if (lane == 0) parts[chunk] = part;
    tail.template bring<kLog>(shift, parts + warps);
    sync_row<kLast>();
    return finish_row<kLog, In>(join_parts(parts, warps + kTail));
  };
  const SoftmaxRow<F> row = settle<kLog, S, Job>(x, max, false, load, join);
  const auto starts = at();
  store_share<kLog>(job, share_of(job.x + starts.of[1]), starts.of[0], step_out, x, row.max,
                    last_of_chunk<kLog>(row, max));
  tail.template store<kLog>(job, starts.of[0] + kFoldChunk, row);
}

// What the compiler is told of a kernel's blocks, of a last chunk that is not as the others are:
// the most warps that they have and how many of them a multiprocessor is to hold, by which a thread
// has 64 registers along, and apart 48, or 56 where those spill. Apart, of softmax and log_softmax
// on an H200 with as many as it takes and so: bfloat16 at 2113 columns 0.86 and 0.94 of the copy
// rate, 0.88 and 0.90, at 4161 0.91 and 0.98, 0.92 and 0.94, at 7233 0.93 and 0.98, 0.90 and 0.95,
// in whole packs at 2304 0.94 and 1.01, 0.90 and 0.97, at 7208 0.96 and 1.01, 0.93 and 0.97; with
// 48 and 56 log_softmax of bfloat16 at 2305 0.85 and 0.88. Along, with no more than 8 warps in
// place of 32 and as many registers, log_softmax of float16 at 2049 0.89 and 0.92; with 56 bfloat16
// 0.94 and 0.92.
template <bool kLog, class Job, LastChunk kLast, class Last>
struct RowBlocks {
  static constexpr bool kSpills = kLog && kHasFar<typename Job::In> && Last::kElements > 8;
  static constexpr int kApartWarps = kSpills ? 12 : 13;
  static constexpr int kMostWarps = kLast == LastChunk::apart   ? kApartWarps
                                    : kLast == LastChunk::along ? 8
                                                                : Job::kMostWarps;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  static constexpr int kApartAtOnce = 3;
#else
  static constexpr int kApartAtOnce = 2;  // a multiprocessor holds 32 warps
#endif
  static constexpr int kAtOnce = kLast == LastChunk::apart   ? kApartAtOnce
                                 : kLast == LastChunk::along ? 4
                                                             : 0;
};

// A chunk a warp, the row in the registers of a block. Many small blocks hide what each waits for.
// S: a ChunkShare. Last: how the last chunk of a simple row lies, where that is taken otherwise.
template <bool kLog, class Job, class S, LastChunk kLast = LastChunk::alike, class Last = S>
__global__ void __launch_bounds__(RowBlocks<kLog, Job, kLast, Last>::kMostWarps* kWarp,
                                  RowBlocks<kLog, Job, kLast, Last>::kAtOnce)
    softmax_row_kernel(const __grid_constant__ Job job) {
  constexpr bool kTail = kLast == LastChunk::along;
  static_assert(Job::kSimple || kLast == LastChunk::alike);
  __shared__ SoftmaxPart<typename Job::F> parts[Job::kMostWarps + kTail];
  if constexpr (kLast != LastChunk::apart) {
    take_row<kLog, S, kLast, false, Last>(job, threadIdx.x / kWarp, parts);
  } else {
    const int chunk = warp_of_all_lanes();
    if (is_last_warp(chunk))
      take_row<kLog, Last, kLast, false, Last>(job, chunk, parts);
    else
      take_row<kLog, S, kLast, true, Last>(job, chunk, parts);
  }
}

// The same with the blocks of a cluster.
template <bool kLog, class Job, class S>
__global__ void __launch_bounds__(Job::kMostWarps* kWarp)
    softmax_cluster_kernel(const __grid_constant__ Job job, const ChunkRows plan) {
  using F = typename Job::F;
  using Parts = RowParts<SoftmaxPart<F>, SoftmaxRow<F>>;
  constexpr int V = S::kPack;
  TWINOPS_DYNAMIC_SHARED(memory);
  Parts parts(memory, plan);
  const int chunk = Parts::block_of_row() * plan.warps + warp_of_all_lanes();
  const int r = Parts::first_row(), begin = chunk * kFoldChunk;
  const int left = static_cast<int>(job.rows.length) - begin;
  const std::int64_t step_in = V == 1 ? job.rows.step[1] : 1;
  const std::int64_t step_out = V == 1 ? job.rows.step[0] : 1;
  const auto starts = row_starts(job.rows.outer, r);
  const auto* const from = job.x + starts.of[1] + begin * step_in;
  const auto share_of_row = [&] {
    return S(from, left, S::kRagged ? lane_anew() : threadIdx.x % kWarp);
  };
  F x[S::kElements], max;
  int turn = 0;
  const auto load = [&](F(&x)[S::kElements]) {
    return load_share(job, share_of_row(), r, from, step_in, begin, x);
  };
  const auto join = [&](SoftmaxPart<F> part, F) {
    if (turn == 0) parts.begin();
    parts.bring(turn, chunk, part);
    return parts.joined(turn++, join_pairs<F>, finish_row<kLog, typename Job::In, F>);
  };
  const SoftmaxRow<F> row =
      settle<kLog, S, Job>(x, max, sizeof(typename Job::In) == 2 && left <= 0, load, join);
  store_share<kLog>(job, share_of_row(), starts.of[0] + begin * step_out, step_out, x, row.max,
                    last_of_chunk<kLog>(row, max));
  parts.leave();
}

}  // namespace twinops
