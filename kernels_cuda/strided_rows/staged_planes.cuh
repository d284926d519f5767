// Strided rows that do not move in vectors (strided_rows/lanes.cuh), by way of a block's shared
// memory. A plane is what the rows that lie side by side hold: one span of memory from [n, 0, 0] to
// [n, length, inner]. A block has one or more planes. They are copied 16 bytes at a time whatever
// the inner size (rows/staged_rows.cuh), and a warp has rows to itself. What that is worth, and how
// large planes may be: docs/lab/softmax-strided-kernels.md#planes-in-shared-memory.
#pragma once

#include "kernels_cuda/rows/staged_rows.cuh"
#include "kernels_cuda/strided_rows/lanes.cuh"

namespace twinops {

// The planes of one block.
struct StagedPlanes {
  template <int N, int kAxes>
  __device__ __forceinline__ StagedPlanes(const Rows<N, kAxes>& all, int planes)
      : inner(static_cast<int>(all.outer.size[all.outer.rank - 1])),
        plane(static_cast<int>(all.length) * inner) {
    const std::int64_t first = std::int64_t{blockIdx.x} * planes;
    const std::int64_t left = all.rows - first * inner;
    rows = static_cast<int>(min(left, std::int64_t{planes} * inner));
    begin = first * plane;
    count = rows * static_cast<int>(all.length);
  }
  // Calls f(place, start) for each tile of rows, one after the other for a warp. start: where this
  // lane's row begins, counted from `begin`.
  template <class F>
  __device__ __forceinline__ void for_each_tile(const StridedPlan& plan, F&& f) const {
#pragma unroll 1
    for (int tile = threadIdx.x / kWarp; tile << plan.lanes_log < rows;
         tile += kShortThreads / kWarp) {
      const StridedPlace<1> of(plan, tile, rows);
      const auto n = static_cast<int>(plan.by_inner.quotient(of.row));
      f(of, n * (plane - inner) + static_cast<int>(of.row));
    }
  }

  int inner, plane;    // elements side by side, and of a plane
  int rows;            // of the block
  std::int64_t begin;  // its first element
  int count;           // elements
};

// Whether rows of every operand fill planes of up to `bytes`, one after the other, and all operands
// have the same offset within 16 bytes.
template <class T, int N, int kAxes>
bool are_planes(const Rows<N, kAxes>& rows, std::int64_t bytes, const void* const (&operands)[N]) {
  const int last = rows.outer.rank - 1;
  const std::int64_t inner = rows.outer.size[last], plane = rows.length * inner;
  if (last > 1 || plane > bytes / static_cast<std::int64_t>(sizeof(T))) return false;
  const auto place = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16; };
  for (int k = 0; k < N; ++k)
    if (rows.step[k] != inner || rows.outer.stride[k][last] != 1 ||
        (last == 1 && rows.outer.stride[k][0] != plane) || place(operands[k]) != place(operands[0]))
      return false;
  return true;
}

// The plan for threads that hold K elements of a row, which one warp holds.
template <int N, int kAxes>
StridedPlan plan_planes(const Rows<N, kAxes>& rows, int K) {
  StridedPlan plan{};
  plan.by_inner = FastDivide(rows.outer.size[rows.outer.rank - 1]);
  plan.chunks = plan.at_once = plan.blocks = plan.tiles = 1;
  plan.lanes_log = 5;
  while (rows.length > std::int64_t{K} * plan.places()) --plan.lanes_log;
  return plan;
}

// How many planes a block takes: as near to `bytes` of an operand as they come, but fewer where a
// multiprocessor would not have two blocks.
template <class T, int N, int kAxes>
int planes_of_block(const Rows<N, kAxes>& rows, std::int64_t bytes, int device) {
  const std::int64_t inner = rows.outer.size[rows.outer.rank - 1];
  const std::int64_t plane = rows.length * inner * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t blocks = 2 * device_attribute(cudaDevAttrMultiProcessorCount, device);
  const std::int64_t most = rows.rows / inner / blocks;
  return static_cast<int>(std::max<std::int64_t>(1, std::min(most, (bytes + plane / 2) / plane)));
}

// Launches kernel(params, planes), which has `operands` operands in shared memory; false, and
// nothing is done, where a block has not got it.
template <class Params>
bool launch_planes_of(void (*kernel)(Params, int), const Params& params, int planes, int operands,
                      Execution& execution) {
  const std::int64_t rows = planes * params.rows.outer.size[params.rows.outer.rank - 1];
  const std::size_t shared =
      static_cast<std::size_t>(operands) *
      StagedRows<typename Params::In>::bytes(static_cast<std::size_t>(rows * params.rows.length));
  if (!fits_shared_memory(shared, execution.device.index)) return false;
  launch_rows(execution, kernel, grid_of((params.rows.rows + rows - 1) / rows), kShortThreads,
              shared, 1, params, planes);
  return true;
}

}  // namespace twinops
