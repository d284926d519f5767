// Rows of softmax and log_softmax by vectors: the class that reduce_rows.hpp asks for. Included
// only by files that are compiled once for each instruction set.
//
// Memory: a row is read once if its weights can wait: in the output itself, if that has their type
// and is not streamed, else the first kKept chunks of a whole row in a buffer of the thread. Other
// rows are read twice. Elements beyond a row's columns are not read. Order: docs/softmax.md.
// What was tried: docs/lab/softmax-cpu.md.
#pragma once

#include "kernels_cpu/runtime/processor.hpp"
#include "kernels_cpu/softmax/chunk.hpp"
#include "kernels_cpu/softmax/short_rows.hpp"

namespace twinops {

// How many chunks `kib` KiB hold.
template <class F>
constexpr int chunks_of(int kib) {
  return kib * 1024 / (kFoldChunk * static_cast<int>(sizeof(F)));
}
// Chunks whose weights wait in a buffer.
template <class F>
inline constexpr int kKept = chunks_of<F>(128);

// Whether the weights of rows of `chunks` chunks wait in the output, which is then not streamed: on
// AMD, and elsewhere for rows that would be read twice.
// docs/lab/softmax-cpu.md#where-the-weights-of-a-long-row-wait.
template <class In, class Out>
TWINOPS_INLINE bool waits_in_output(std::int64_t chunks) {
  const int most_kept = is_amd() ? chunks_of<Out>(12) : kKept<Out>;
  return std::is_same_v<Out, compute_t<In>> && chunks > most_kept && chunks <= kWholeChunks;
}

// Whether the next row is prefetched while one is written, when nothing else is read: 16 bits on
// AMD. docs/lab/softmax-cpu.md#where-the-weights-of-a-long-row-wait.
inline constexpr std::int64_t kFetchedRow = 1 << 17;  // bytes, at most
template <class In>
TWINOPS_INLINE bool fetches_row_behind(std::int64_t rows, std::int64_t length) {
  return sizeof(In) == 2 && is_amd() && is_streamed<In>(rows, length, kStreamedRow) &&
         length * std::int64_t{sizeof(In)} <= kFetchedRow;
}

// Sink: where results go.
//   Sink::Element           the type that results are rounded to first
//   Sink::Row row = sink.row(r, offset of the row in `out`)
//   row.write(first, n, f)  writes elements [first, first + n); f(j): the vector of first + j,
//   which
//                           holds no NaN but the canonical one
//   sink.view(offset)       optional: where a row's results are written as they are
//   row.fetch(n)            optional: elements [0, n) will be written soon
//   row.buffer<F>(first)    optional: the output from `first` on, as a buffer of F's that are read
//                           before they are written; nullptr if it cannot be one
template <class Isa, bool kLog, class In, class Sink>
class SoftmaxRows {
 public:
  using Operands = SoftmaxArguments;
  using Compute = compute_t<In>;
  using Out = typename Sink::Element;
  using Part = SoftmaxPart<Compute>;
  template <int kWaiting>
  struct Weights {  // of a chunk that does not wait, then of the first chunks
    TWINOPS_INLINE Weights(Compute* buffer, Compute* maxima) : weights(buffer), max(maxima) {}
    Compute* const weights;
    Compute* const max;  // of each chunk whose weights wait, here or in the output

    static constexpr std::int64_t size(std::int64_t chunks) {
      return (1 + (chunks < kWaiting ? chunks : kWaiting)) * kFoldChunk;
    }
    TWINOPS_INLINE Compute* scratch() { return weights; }
    TWINOPS_INLINE Compute* of_chunk(std::int64_t c) { return weights + (c + 1) * kFoldChunk; }
  };
  using Kept = Weights<kLog ? 0 : kKept<Compute>>;
  using CutKept = Weights<0>;

  SoftmaxRows(const SoftmaxArguments& a, const Sink& sink)
      : a_(a),
        sink_(sink),
        plain_(a.is_plain()),
        fetches_(plain_ && a.rows.step[Operands::kX] == 1 &&
                 fetches_row_behind<In>(a.rows.rows, a.rows.length)) {}

  // Takes rows of one chunk.
  std::int64_t short_buffer() const { return 0; }
  void short_rows(std::int64_t begin, std::int64_t end, Compute*) const {
    if constexpr (requires { sink_.view(0); })
      if (a_.rows.length <= kGroupColumns<Compute> && a_.rows.step[Operands::kOut] == 1 &&
          a_.rows.step[Operands::kX] == 1)
        begin = plain_ ? row_groups<true>(begin, end) : row_groups<false>(begin, end);
    for (; begin < end; ++begin) short_row(begin);
  }
  // Not inlined, because it is large and called from two places.
  [[gnu::noinline]] void short_row(std::int64_t index) const {
    if (plain_ && a_.rows.step[Operands::kX] == 1 && is_plain_short_row(index)) return;
    any_short_row(index);
  }

  template <int kWaiting>
  Part reduce(std::int64_t index, std::int64_t begin, std::int64_t end, Compute shift,
              Weights<kWaiting>& kept) const {
    const Row row = at(index);
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) {
      const int n = row.x.used(c);
      if (n == 0) break;  // masked elements add nothing
      Compute* const waiting = place(row, c, n, kept);
      Compute* const buffer = waiting ? waiting : kept.scratch();
      const Part part = Chunk::part(Chunk::values(row.x, c, n, shift, buffer), n, buffer);
      if (waiting) kept.max[c] = part.max;
      tree.add(part);
    }
    return tree.total();
  }
  void end() const { isa::end_of_streams(); }
  bool is_out_of_range(const Part& part) const {
    return kind_of_row(part.max) == RowKind::out_of_range;
  }
  Compute shift_of(const Part& part) const { return part.max; }

  template <int kWaiting>
  void write(std::int64_t index, std::int64_t begin, std::int64_t end, const Part& part,
             Compute shift, Weights<kWaiting>& kept) const {
    const Row row = at(index);
    const RowKind kind = kind_of_row(part.max);
    if (kind != RowKind::ordinary) return write_special(row, kind, begin, end);
    const Compute last = kLog ? log_of_sum<In>(part) : divisor_of_row<Out>(part.sum);
    const bool fetches = fetches_ && begin == 0 && index + 1 < a_.rows.rows;
    const In* const behind = fetches ? at(index + 1).x.x.data : nullptr;
    for (std::int64_t c = begin; c < end; ++c) {
      if (fetches) fetch_to_read(behind + c * kFoldChunk, row.x.size(c));
      const int n = row.x.used(c);
      if (n == 0) {
      } else if constexpr (kLog) {
        row.x.read(c, n, shift, kept.scratch());
        write_logs(row, c, n, kept.scratch(), part.max, last);
      } else if (const Compute* const waiting = place(row, c, n, kept)) {
        write_weights(row, c, n, waiting, divisor_of_chunk<Out>(part.max, last, kept.max[c]));
      } else {
        write_again(row, c, n, shift, part, last, kept.scratch());
      }
      write_rest(row, c, n);
    }
  }

 private:
  using V = Vec<Compute, Isa>;
  using Chunk = SoftmaxChunk<Isa, In>;
  struct Row {
    MaskedRow<In, Isa> x;
    typename Sink::Row out;
  };

  // Where the weights of chunk c wait until the row's sum is known; nullptr if they do not.
  template <int kWaiting>
  TWINOPS_INLINE Compute* place(const Row& row, std::int64_t c, int n,
                                Weights<kWaiting>& kept) const {
    if constexpr (!kLog && requires { row.out.template buffer<Compute>(0); })
      if (n == kFoldChunk && a_.out != a_.x)
        if (Compute* const buffer = row.out.template buffer<Compute>(c * kFoldChunk)) return buffer;
    if constexpr (kWaiting != 0)
      if (c < kWaiting) return kept.of_chunk(c);
    return nullptr;
  }
  // Takes rows in groups. Returns the first row that is left. Not inlined, so that the loops of
  // plain rows are compiled as if there were no others.
  template <bool kPlain>
  [[gnu::noinline]] std::int64_t row_groups(std::int64_t begin, std::int64_t end) const {
    using Group = SoftmaxRowGroup<Isa, kLog, In, typename Sink::Element>;
    const int length = static_cast<int>(a_.rows.length);
    for (; begin + Group::kRows <= end; begin += Group::kRows) {
      int columns = length;
      std::uint32_t special = row_group<kPlain>(begin, columns);
      if (columns != length)
        for (std::uint32_t left = Group::kAll & ~special; left != 0; left &= left - 1)
          write_rest(at(begin + __builtin_ctz(left)), 0, columns);
      for (; special != 0; special &= special - 1) short_row(begin + __builtin_ctz(special));
    }
    return begin;
  }
  // Not inlined, so that its stack is free again before a row that is special is taken.
  template <bool kPlain>
  [[gnu::noinline]] std::uint32_t row_group(std::int64_t begin, int& columns) const {
    using Group = SoftmaxRowGroup<Isa, kLog, In, typename Sink::Element>;
    constexpr int kRows = Group::kRows;
    Group group(sink_.view(0).cold);
    const In* x[kRows];
    typename Sink::Element* out[kRows];
    for (int r = 0; r < kRows; ++r) {
      const auto offsets = row_offsets(a_.rows.outer, begin + r);
      x[r] = static_cast<const In*>(a_.x) + offsets.of[Operands::kX];
      out[r] = sink_.view(offsets.of[Operands::kOut]).data;
    }
    if constexpr (kPlain)
      return group.run_plain(columns, x, out);
    else
      return group.run_masked(a_, begin, x, out, columns);
  }
  TWINOPS_INLINE Row at(std::int64_t index) const {
    const auto offsets = row_offsets(a_.rows.outer, index);
    return {masked_row<In, Isa>(a_, index, offsets.of[Operands::kX]),
            sink_.row(index, offsets.of[Operands::kOut])};
  }

  // Not inlined, so that its stack is free again before another kind of row is tried.
  [[gnu::noinline]] bool is_plain_short_row(std::int64_t index) const {
    alignas(64) Compute weights[kFoldChunk];
    return plain_short_row(at(index), weights);
  }
  // Takes any row of up to a chunk. Not inlined: beside its code that of plain rows was a twelfth
  // slower.
  [[gnu::noinline]] void any_short_row(std::int64_t index) const {
    const Row row = at(index);
    alignas(64) Compute weights[kFoldChunk];
    const int n = row.x.used(0);
    alignas(64) Compute values[kLog ? kFoldChunk : 1];  // log_softmax needs the values
    const auto read = [&](Compute shift) {
      return Chunk::values(row.x, 0, n, shift, kLog ? values : weights);
    };
    typename Chunk::Values v = read(Compute(0));
    Part part = Chunk::part(v, n, weights);
    RowKind kind = kind_of_row(part.max);
    if (kind == RowKind::out_of_range) [[unlikely]] {
      v = read(part.max);
      part = Chunk::part(v, n, weights);
      kind = kind_of_row(part.max);
    }
    if (kind != RowKind::ordinary) return write_special(row, kind, 0, 1);
    if constexpr (kLog)
      write_logs(row, 0, n, v.at, part.max, log_of_sum<In>(part));
    else
      write_weights(row, 0, n, weights, divisor_of_row<Out>(part.sum));
    write_rest(row, 0, n);
  }
  // Takes a row of up to a chunk without scale and mask, its last vector padded with -infinity.
  // Returns false, and writes nothing, if the row is not ordinary.
  TWINOPS_INLINE bool plain_short_row(const Row& row, Compute* weights) const {
    const In* x = row.x.x.data;
    const int n = static_cast<int>(row.x.length), whole = n - n % V::kLanes;
    V last(-kInfinity<Compute>);
    if (whole != n) last = load_partial<Isa>(x + whole, n - whole, narrow<In>(-kInfinity<Compute>));
    const auto value = [&](int j)
                           TWINOPS_INLINE_BODY { return j < whole ? load<Isa>(x + j) : last; };
    constexpr int kAtOnce = 4;
    V max[kAtOnce] = {last, last, last, last};
    int i = 0;
    for (; i + kAtOnce * V::kLanes <= whole; i += kAtOnce * V::kLanes)
      for (int k = 0; k < kAtOnce; ++k) max[k] = larger(max[k], load<Isa>(x + i + k * V::kLanes));
    for (; i < whole; i += V::kLanes) max[0] = larger(max[0], load<Isa>(x + i));
    const Compute greatest_x =
        isa::max_lanes(larger(larger(max[0], max[1]), larger(max[2], max[3])).v);
    const WeightScale<Compute> scale = weight_scale(greatest_x);
    if constexpr (requires { row.out.fetch(n); }) row.out.fetch(n);
    const V sums = fold_saved<Compute, Isa>(weights, n, padded<Compute, Isa>(n),
                                            [&](int j) TWINOPS_INLINE_BODY {
                                              __builtin_prefetch(x + n + j);  // the next row
                                              return weight<In>(value(j), scale);
                                            });
    const Compute sum = isa::fold_lanes(sums.v);
    if (!(abs(greatest_x) <= kExpReach<Compute>) || sum != sum) [[unlikely]]
      return false;
    if constexpr (kLog) {
      const V m(greatest_x), l(log_of_sum<In>(Part{greatest_x, sum}));
      row.out.write(0, n, [&](int j) TWINOPS_INLINE_BODY { return log_softmax(value(j), m, l); });
    } else {
      write_weights(row, 0, n, weights, divisor_of_row<Out>(sum));
    }
    return true;
  }

  // Writes a chunk of probabilities. weight(j): the vector of weights from j on.
  template <class Weight>
  TWINOPS_INLINE void write_quotients(const Row& row, std::int64_t c, int n, Compute divisor,
                                      Weight&& weight) const {
    const auto divide = Division<Out, V>::by(V(divisor));
    if (is_far<Out>(divisor)) [[unlikely]]
      row.out.write(c * kFoldChunk, n,
                    [&](int j) TWINOPS_INLINE_BODY { return from_far(divide(weight(j))); });
    else
      row.out.write(c * kFoldChunk, n,
                    [&](int j) TWINOPS_INLINE_BODY { return divide(weight(j)); });
  }
  TWINOPS_INLINE void write_weights(const Row& row, std::int64_t c, int n, const Compute* weights,
                                    Compute divisor) const {
    write_quotients(row, c, n, divisor,
                    [&](int j) TWINOPS_INLINE_BODY { return load<Isa>(weights + j); });
  }
  // Writes a chunk whose weights did not wait.
  TWINOPS_INLINE void write_again(const Row& row, std::int64_t c, int n, Compute shift,
                                  const Part& part, Compute divisor, Compute* buffer) const {
    const typename Chunk::Values v = Chunk::values(row.x, c, n, shift, buffer);
    const WeightScale<Compute> scale = weight_scale(v.max);
    write_quotients(row, c, n, divisor_of_chunk<Out>(part.max, divisor, v.max),
                    [&](int j) TWINOPS_INLINE_BODY {
                      __builtin_prefetch(v.at + kFoldChunk + j);
                      return twinops::weight<In>(load<Isa>(v.at + j), scale);
                    });
  }
  TWINOPS_INLINE void write_logs(const Row& row, std::int64_t c, int n, const Compute* values,
                                 Compute max, Compute log_sum) const {
    const V m(max), l(log_sum);
    row.out.write(c * kFoldChunk, n, [&](int j) TWINOPS_INLINE_BODY {
      return log_softmax(load<Isa>(values + j), m, l);
    });
  }
  // Writes what lies beyond the columns that count: probability 0.
  TWINOPS_INLINE void write_rest(const Row& row, std::int64_t c, int n) const {
    const int size = row.x.size(c);
    if (n == size) return;
    const V y(kLog ? -kInfinity<Compute> : Compute(0));
    row.out.write(c * kFoldChunk + n, size - n, [&](int) TWINOPS_INLINE_BODY { return y; });
  }
  void write_special(const Row& row, RowKind kind, std::int64_t begin, std::int64_t end) const {
    const V y(special_row<Compute>(kind, a_.masked_is_zero, kLog));
    for (std::int64_t c = begin; c < end; ++c)
      row.out.write(c * kFoldChunk, row.x.size(c), [&](int) TWINOPS_INLINE_BODY { return y; });
  }

  const SoftmaxArguments& a_;
  const Sink& sink_;
  const bool plain_, fetches_;
};

}  // namespace twinops
