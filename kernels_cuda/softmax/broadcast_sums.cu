// Sums over the axes that a tensor was broadcast over: the gradient of a mask of numbers.
//
// Memory: every value is read once; neighbouring threads read neighbouring values, of one sum or of
// neighbouring ones. Sums of chunks of 1024 values go through scratch memory where there is more
// than one. Order: numerics/fold.hpp. A thread has up to 32 values of a sum, `parts` apart, and
// folds the top bits of their index in registers; the parts fold the rest in shared memory.
#include "kernels_cuda/dropout/column_sums.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/softmax/broadcast_sums.hpp"

namespace twinops {
namespace {

constexpr int kThreads = 256, kOfThread = 32;  // threads of a block, values of a thread

template <class F, class T>
struct BroadcastSumsParams {
  const F* values;
  T* sums;
  F* partial;  // the sums of chunks, where there is more than one
  std::int64_t chunks, rows, columns;
  int parts;            // threads of a sum: a power of two up to 32
  bool parts_adjacent;  // neighbouring threads have neighbouring values of one sum
  Layout<1> row_axes, column_axes;
};

template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    broadcast_sums_kernel(const __grid_constant__ BroadcastSumsParams<F, T> params) {
  __shared__ F shared[kThreads];
  const int parts = params.parts, sums = kThreads / parts, t = static_cast<int>(threadIdx.x);
  const int part = params.parts_adjacent ? t % parts : t / sums;
  const int sum = params.parts_adjacent ? t / parts : t % sums;
  const std::int64_t column = std::int64_t{blockIdx.x} * sums + sum;
  const bool is_there = column < params.columns;
  const F* const mine =
      params.values + (is_there ? row_starts(params.column_axes, column).of[0] : 0);
  for (std::int64_t chunk = blockIdx.y; chunk < params.chunks; chunk += gridDim.y) {
    F v[kOfThread];
#pragma unroll
    for (int k = 0; k < kOfThread; ++k) {
      const std::int64_t row = chunk * kFoldChunk + k * parts + part;
      v[k] = F(0);
      if (is_there && row < params.rows) v[k] = mine[row_starts(params.row_axes, row).of[0]];
    }
#pragma unroll
    for (int half = kOfThread / 2; half > 0; half /= 2)
#pragma unroll
      for (int k = 0; k < half; ++k) v[k] = v[k] + v[k + half];
    shared[part * sums + sum] = v[0];
    for (int half = parts / 2; half > 0; half /= 2) {
      __syncthreads();
      if (part < half)
        shared[part * sums + sum] = shared[part * sums + sum] + shared[(part + half) * sums + sum];
    }
    if (part == 0 && is_there) {
      if (params.chunks > 1) {
        params.partial[chunk * params.columns + column] = shared[sum];
      } else {
        ChunkTree<F> tree;
        tree.add(shared[sum]);
        params.sums[column] = narrow<T>(tree.total());
      }
    }
    __syncthreads();  // the next chunk writes to shared memory
  }
}

Layout<1> at_place(const Layout<2>& layout, int place) {
  return place == BroadcastSums::kPacked ? operands_of<0, 1>(layout) : operands_of<1, 1>(layout);
}
std::int64_t chunks_of(const BroadcastSums& s) { return (s.rows + kFoldChunk - 1) / kFoldChunk; }

template <class F, class T>
void launch(const BroadcastSums& s, const void* values, BroadcastSums::Place place, void* scratch,
            Execution& execution) {
  const Layout<1> row_axes = at_place(s.row_axes, place);
  const auto is_adjacent = [](const Layout<1>& axes) {
    return axes.rank > 0 && axes.stride[0][axes.rank - 1] == 1;
  };
  int parts = 1;
  while (parts < 32 && parts * kOfThread < s.rows) parts *= 2;
  BroadcastSumsParams<F, T> params{static_cast<const F*>(values),
                                   static_cast<T*>(s.out),
                                   static_cast<F*>(scratch),
                                   std::max<std::int64_t>(chunks_of(s), 1),
                                   s.rows,
                                   s.columns,
                                   parts,
                                   is_adjacent(row_axes),
                                   row_axes,
                                   at_place(s.column_axes, place)};
  const std::int64_t sums = kThreads / parts;
  const dim3 blocks(static_cast<unsigned>((s.columns + sums - 1) / sums),
                    static_cast<unsigned>(std::min<std::int64_t>(params.chunks, 65535)));
  launch_grid("launch of broadcast sums", broadcast_sums_kernel<F, T>, blocks, dim3(kThreads), 0,
              execution.stream, params);
  ++execution.launches;
  if (params.chunks > 1)
    launch_tree_sums<T>({s.type, nullptr, s.out, s.rows, s.columns, {}, {}}, params.chunks, scratch,
                        execution);
}

}  // namespace

std::size_t scratch_of_broadcast_sums(const BroadcastSums& s) {
  if (chunks_of(s) <= 1) return 0;
  return static_cast<std::size_t>(chunks_of(s) * s.columns) *
         (s.type == Type::float64 ? sizeof(double) : sizeof(float));
}

void broadcast_sums_on_cuda(const BroadcastSums& s, const void* values, BroadcastSums::Place place,
                            void* scratch, Execution& execution) {
  if (s.columns == 0) return;
  const CurrentDevice current(execution.device.index);
  with_floating_type(s.type, [&]<class T>(TypeTag<T>) {
    launch<compute_t<T>, T>(s, values, place, scratch, execution);
  });
}

}  // namespace twinops
