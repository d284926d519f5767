// bias_dropout_residual_grad: dx by dropout's kernel, then dbias from the stored dx.
//
// Memory: dx is read once more for dbias, a vector of columns at a time. Order: numerics/fold.hpp
// over the rows, lane by lane, in chunks of 1024 rows.
#include "operators/bias_dropout_residual_grad.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/runtime/parallel.hpp"
#include "kernels_cpu/simd/vec.hpp"
#include "numerics/fold.hpp"
#include "operators/dropout.hpp"

namespace twinops {
namespace {

// Writes the sums of columns [column, column + n), n <= lanes. chunk: a buffer for one of rows.
template <class Isa, class T>
void sum_columns(const ColumnSums& s, std::int64_t column, int n, compute_vec<T, Isa>* chunk) {
  using V = compute_vec<T, Isa>;
  const T* x = static_cast<const T*>(s.x);  // NULL where there are no rows
  T buffer[V::kLanes] = {};
  std::int64_t starts[V::kLanes];
  for (int l = 0; l < n; ++l) starts[l] = s.column_start(column + l);
  const bool adjacent = starts[n - 1] - starts[0] == n - 1;
  ChunkTree<V> tree;
  for (std::int64_t first = 0; first < s.rows; first += kFoldChunk) {
    for (int j = 0; j < kFoldChunk; ++j) {
      if (first + j >= s.rows) {
        chunk[j] = V(compute_t<T>(0));
        continue;
      }
      const T* row = x + s.row_start(first + j);
      if (adjacent && n == V::kLanes) {
        chunk[j] = load<Isa>(row + starts[0]);
      } else {
        for (int l = 0; l < n; ++l) buffer[l] = row[starts[l]];
        chunk[j] = load<Isa>(static_cast<const T*>(buffer));
      }
    }
    tree.add(fold(chunk, kFoldChunk));
  }
  store<Isa>(buffer, tree.total());
  __builtin_memcpy(static_cast<T*>(s.sums) + column, buffer,
                   static_cast<std::size_t>(n) * sizeof(T));
}

template <class Isa>
void column_sums(const ColumnSums& s, const Execution& execution) {
  if (s.sums == nullptr) return;
  const std::int64_t grain = (1 << 14) / (s.rows + 1) + 1;
  with_floating_type(s.type, [&]<class T>(TypeTag<T>) {
    using V = compute_vec<T, Isa>;
    const auto sum = [&](std::int64_t begin, std::int64_t end, V* chunk) {
      for (; begin < end; begin += V::kLanes)
        sum_columns<Isa, T>(
            s, begin, static_cast<int>(end - begin < V::kLanes ? end - begin : V::kLanes), chunk);
    };
    parallel_ranges_with<V>(execution, s.columns, grain, 64, kFoldChunk, sum);
  });
}

}  // namespace

template <>
void run_cpu<BiasDropoutResidualGrad, isa::TWINOPS_ISA>(
    const BiasDropoutResidualGrad::Arguments& arguments, Execution& execution) {
  run_cpu<Dropout, isa::TWINOPS_ISA>(arguments.dropout, execution);
  column_sums<isa::TWINOPS_ISA>(arguments.dbias, execution);
}

}  // namespace twinops
