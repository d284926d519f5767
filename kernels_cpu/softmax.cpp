// softmax and log_softmax. Memory: a row of up to kKept chunks is read once and written once; its
// weights wait in a buffer of the thread. A longer one is read twice. Order: docs/softmax.md. Tried
// and left: weights of long rows in `out`, which is one more trip to memory than a second exp
// costs.
#include "operators/softmax.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/row_chunks.hpp"
#include "kernels_cpu/row_offsets.hpp"
#include "kernels_cpu/rows.hpp"
#include "numerics/softmax.hpp"

namespace twinops {
namespace {

// Chunks whose weights wait: 128 KiB of the stack.
template <class F>
constexpr int kKept = 128 / static_cast<int>(sizeof(F));

template <class Isa, bool kLog, class In, class Out>
class SoftmaxRows {
 public:
  using Compute = compute_t<In>;
  using Part = SoftmaxPart<Compute>;
  template <int kChunks>
  struct Weights {  // of the first chunks of a row, then of one that does not wait
    static constexpr int chunks = kChunks;
    alignas(64) Compute weights[(kChunks + 1) * kFoldChunk];
    Compute max[kChunks == 0 ? 1 : kChunks];
  };
  using Buffer = Weights<kLog ? 0 : kKept<Compute>>;
  using NoBuffer = Weights<0>;

  explicit SoftmaxRows(const SoftmaxArguments& a) : a_(a) {}

  template <class Kept>
  Part reduce(std::int64_t row, std::int64_t begin, std::int64_t end, Compute shift,
              Kept& kept) const {
    const auto x = input(row);
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) {
      const bool keep = Kept::chunks != 0 && c < Kept::chunks;
      Compute* weights = kept.weights + (keep ? c : Kept::chunks) * kFoldChunk;
      const Part part = chunk(x, c, shift, weights);
      if (keep) kept.max[c] = part.max;
      tree.add(part);
    }
    return tree.total();
  }
  bool is_far(const Part& part) const { return kind_of_row(part.max) == RowKind::far; }
  Compute shift_of(const Part& part) const { return part.max; }

  template <class Kept>
  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Part& part,
             Compute shift, Kept& kept) const {
    const RowView<Out, Isa> out{static_cast<Out*>(a_.out) + row_offsets(a_.rows.outer, row).of[0],
                                a_.rows.step[0]};
    const RowKind kind = kind_of_row(part.max);
    if (kind != RowKind::ordinary) {
      const V y(special_row<Compute>(kind, a_.masked_is_zero, kLog));
      for (std::int64_t c = begin; c < end; ++c)
        write_chunk(out, c * kFoldChunk, size(c), [&](int) { return y; });
      return;
    }
    const auto x = input(row);
    const Compute last = kLog ? log_of_sum(part) : Compute(1) / part.sum;
    for (std::int64_t c = begin; c < end; ++c) {
      const bool keep = Kept::chunks != 0 && c < Kept::chunks;
      Compute* weights = kept.weights + (keep ? c : Kept::chunks) * kFoldChunk;
      if constexpr (kLog) {
        const V move(shift), max(part.max), log_sum(last);
        read_chunk(x, c * kFoldChunk, size(c), In{}, [&](int j, V value) {
          save(weights + j, log_softmax(value - move, max, log_sum));
        });
        write_chunk(out, c * kFoldChunk, size(c), [&](int j) { return load<Isa>(weights + j); });
      } else {
        const Compute max = keep ? kept.max[c] : chunk(x, c, shift, weights).max;
        const V factor(softmax_factor(part, last, max));
        write_chunk(out, c * kFoldChunk, size(c),
                    [&](int j) { return load<Isa>(weights + j) * factor; });
      }
    }
  }

 private:
  using V = Vec<Compute, Isa>;

  RowView<const In, Isa> input(std::int64_t row) const {
    return {static_cast<const In*>(a_.x) + row_offsets(a_.rows.outer, row).of[1], a_.rows.step[1]};
  }
  int size(std::int64_t c) const {
    const std::int64_t left = a_.rows.length - c * kFoldChunk;
    return static_cast<int>(left < kFoldChunk ? left : kFoldChunk);
  }

  // Fills the weights of chunk c, +0 up to its padded size.
  TWINOPS_INLINE Part chunk(RowView<const In, Isa> x, std::int64_t c, Compute shift,
                            Compute* weights) const {
    V max(-kInfinity<Compute>);
    const V move(shift);
    auto numbers = max == max;
    read_chunk(x, c * kFoldChunk, size(c), narrow<In>(-kInfinity<Compute>), [&](int j, V value) {
      value = value - move;
      save(weights + j, value);
      numbers = numbers & (value == value);
      max = larger(value, max);
    });
    Compute greatest_x = isa::max_lanes(max.v);
    if (!xsimd::all(numbers.m)) greatest_x = special_row<Compute>(RowKind::nan, false, kLog);
    const WeightScale<Compute> scale = weight_scale(greatest_x);
    const Compute sum = fold_terms<Compute, Isa>(padded<Compute, Isa>(size(c)), [&](int j) {
      const V w = weight(load<Isa>(weights + j), scale);
      if constexpr (!kLog) save(weights + j, w);
      return w;
    });
    return {greatest_x, sum};
  }

  const SoftmaxArguments& a_;
};

template <class Isa, bool kLog>
void softmax_rows(const SoftmaxArguments& a, Execution& execution) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    for_each_row(SoftmaxRows<Isa, kLog, In, Out>(a), execution, a.rows.rows, a.rows.length);
  });
}

}  // namespace

template <>
void run_cpu<Softmax, isa::TWINOPS_ISA>(const SoftmaxArguments& arguments, Execution& execution) {
  softmax_rows<isa::TWINOPS_ISA, false>(arguments, execution);
}
template <>
void run_cpu<LogSoftmax, isa::TWINOPS_ISA>(const SoftmaxArguments& arguments,
                                           Execution& execution) {
  softmax_rows<isa::TWINOPS_ISA, true>(arguments, execution);
}

}  // namespace twinops
