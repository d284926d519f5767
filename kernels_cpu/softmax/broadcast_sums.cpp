// Memory: every value is read once, columns that lie side by side as they lie. Order:
// numerics/fold.hpp over the values of a sum, kTogether sums at once.
#include "kernels_cpu/softmax/broadcast_sums.hpp"

#include <algorithm>

#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/runtime/parallel.hpp"
#include "numerics/fold.hpp"

namespace twinops {
namespace {

constexpr int kTogether = 16;

template <class F>
struct Together {
  F of[kTogether] = {};
  friend Together operator+(const Together& a, const Together& b) {
    Together sum;
    for (int i = 0; i < kTogether; ++i) sum.of[i] = a.of[i] + b.of[i];
    return sum;
  }
};

// Writes sums [begin, begin + n), n <= kTogether. chunk: a buffer.
template <class F, class T>
void sum_up(const BroadcastSums& s, const F* values, int place, std::int64_t begin, int n,
            Together<F>* chunk) {
  std::int64_t column[kTogether];
  for (int i = 0; i < n; ++i) column[i] = row_offsets(s.column_axes, begin + i).of[place];
  bool adjacent = n == kTogether;
  for (int i = 1; i < n; ++i) adjacent = adjacent && column[i] == column[0] + i;
  ChunkTree<Together<F>> tree;
  for (std::int64_t first = 0; first < s.rows; first += kFoldChunk) {
    const int rows = static_cast<int>(std::min<std::int64_t>(s.rows - first, kFoldChunk));
    int padded = 1;
    while (padded < rows) padded *= 2;
    for (int j = 0; j < rows; ++j) {
      const F* const row = values + row_offsets(s.row_axes, first + j).of[place];
      if (adjacent)
        std::copy_n(row + column[0], kTogether, chunk[j].of);
      else
        for (int i = 0; i < n; ++i) chunk[j].of[i] = row[column[i]];
    }
    std::fill(chunk + rows, chunk + padded, Together<F>{});
    tree.add(fold(chunk, padded));
  }
  const Together<F> sum = tree.total();
  for (int i = 0; i < n; ++i) static_cast<T*>(s.out)[begin + i] = narrow<T>(sum.of[i]);
}

template <class F>
void sum_all(const BroadcastSums& s, const F* values, int place, Execution& execution) {
  const std::int64_t grain = (1 << 14) / (s.rows + 1) + 1;
  const auto range = [&](std::int64_t begin, std::int64_t end, Together<F>* chunk) {
    for (; begin < end; begin += kTogether) {
      const int n = static_cast<int>(std::min<std::int64_t>(end - begin, kTogether));
      if (s.type == Type::float16) sum_up<F, float16>(s, values, place, begin, n, chunk);
      if (s.type == Type::bfloat16) sum_up<F, bfloat16>(s, values, place, begin, n, chunk);
      if (s.type == Type::float32 || s.type == Type::float64)
        sum_up<F, F>(s, values, place, begin, n, chunk);
    }
  };
  parallel_ranges_with<Together<F>>(execution, s.columns, grain, kTogether, kFoldChunk, range);
}

}  // namespace

void broadcast_sums_on_cpu(const BroadcastSums& s, const void* values, BroadcastSums::Place place,
                           Execution& execution) {
  if (s.columns == 0) return;
  if (s.type == Type::float64)
    sum_all(s, static_cast<const double*>(values), place, execution);
  else
    sum_all(s, static_cast<const float*>(values), place, execution);
}

}  // namespace twinops
