// Rows of softmax and log_softmax by vectors: the class that reduce_rows.hpp asks for, for elements
// of all types that are computed in F. Included only by files that are compiled once for each
// instruction set.
//
// Memory: a row is read once if its weights can wait: in the output itself, if that has their type
// and is not streamed, else the first kKept chunks of a whole row in a buffer of the thread. Other
// rows are read twice. Elements beyond a row's columns are not read. Order: docs/softmax.md.
// What was tried: docs/lab/softmax-cpu.md.
#pragma once

#include "kernels_cpu/rows/fold_transposed.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/runtime/processor.hpp"
#include "kernels_cpu/softmax/softmax_steps.hpp"

namespace twinops {

// How many chunks `kib` KiB hold.
template <class F>
constexpr int chunks_of(int kib) {
  return kib * 1024 / (kFoldChunk * static_cast<int>(sizeof(F)));
}
// Chunks whose weights wait in a buffer.
template <class F>
inline constexpr int kKept = chunks_of<F>(128);

// Whether the weights of rows of `chunks` chunks wait in the output if they fit there, which is
// then not streamed: on AMD, and elsewhere for rows that would be read twice.
// docs/lab/softmax-cpu.md#where-the-weights-of-a-long-row-wait.
template <class F>
TWINOPS_INLINE bool waits_in_output(std::int64_t chunks) {
  const int most_kept = is_amd() ? chunks_of<F>(12) : kKept<F>;
  return chunks > most_kept && chunks <= kWholeChunks;
}

// Whether the next row is prefetched while one is written, when nothing else is read: 16 bits on
// AMD. docs/lab/softmax-cpu.md#where-the-weights-of-a-long-row-wait.
inline constexpr std::int64_t kFetchedRow = 1 << 17;  // bytes, at most
TWINOPS_INLINE bool fetches_row_behind(int bytes, std::int64_t rows, std::int64_t length) {
  return bytes == 2 && is_amd() && is_streamed(bytes, rows, length, kStreamedRow) &&
         length * bytes <= kFetchedRow;
}

template <class Isa, class F>
class SoftmaxRows {
 public:
  using Operands = SoftmaxArguments;
  using Compute = F;
  using Part = SoftmaxPart<F>;
  using Steps = SoftmaxSteps<Isa, F>;
  struct Kept {  // a chunk that does not wait, then the first chunks, which do
    F* const weights;
    F* const max;  // of each chunk whose weights wait, here or in the output
    const int waiting;
    TWINOPS_INLINE F* scratch() { return weights; }
    TWINOPS_INLINE F* of_chunk(std::int64_t c) { return weights + (c + 1) * kFoldChunk; }
  };

  // sink: where results go if not into the output; nullptr for none.
  SoftmaxRows(const SoftmaxArguments& a, const Steps& steps, const SoftmaxSink* sink)
      : a_(a), steps_(steps), sink_(sink), plain_(a.is_plain()), x_is_dense_(x_step() == 1) {
    const std::int64_t rows = a.rows.rows, length = a.rows.length;
    const bool gapless = sink == nullptr && out_step() == 1;
    const bool waits = !steps.log && steps.weights_fit && waits_in_output<F>(chunks());
    streamed_ = gapless && a.out != a.x && !waits &&
                is_streamed(steps.out_bytes, rows, length, kStreamedRow);
    dense_ = gapless && !streamed_;
    cold_ = dense_ && is_cold(steps.out_bytes, rows, length);
    waits_there_ = dense_ && !steps.log && steps.weights_fit && a.out != a.x;
    fetches_ = plain_ && x_is_dense_ && fetches_row_behind(steps.in_bytes, rows, length);
  }

  TWINOPS_INLINE Kept kept(F* buffer, std::int64_t chunks) const {
    return {buffer, buffer + kept_size(chunks), most_kept()};
  }
  TWINOPS_INLINE std::int64_t kept_size(std::int64_t chunks) const {
    return (1 + (chunks < most_kept() ? chunks : most_kept())) * kFoldChunk;
  }
  TWINOPS_INLINE Kept cut_kept(F* buffer, F* maxima) const { return {buffer, maxima, 0}; }

  // Takes rows of one chunk.
  std::int64_t short_buffer() const { return 0; }
  void short_rows(std::int64_t begin, std::int64_t end, F*) const {
    const auto group = plain_ ? steps_.plain_group : steps_.masked_group;
    if (sink_ == nullptr && a_.rows.length <= kGroupColumns<F> && out_step() == 1 && x_is_dense_)
      begin = row_groups(begin, end, group);
    for (; begin < end; ++begin) short_row(begin);
  }
  // Takes a row, whatever it holds, with a buffer of two chunks and a maximum for each chunk.
  void any_row(std::int64_t index, F* buffer) const {
    if (chunks() == 1) return short_row(index);
    Kept none = cut_kept(buffer, buffer + kFoldChunk);
    whole_row(*this, index, chunks(), none);
  }

  Part reduce(std::int64_t index, std::int64_t begin, std::int64_t end, F shift, Kept& kept) const {
    const Row row = at(index);
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) {
      const int n = row.x.used(c);
      if (n == 0) break;  // masked elements add nothing
      F* const waiting = place(row, c, n, kept);
      F* const buffer = waiting ? waiting : kept.scratch();
      const Part part = steps_.part(steps_.values(row.x, c, n, shift, buffer), n, buffer);
      if (waiting) kept.max[c] = part.max;
      tree.add(part);
    }
    return tree.total();
  }
  void end() const { isa::end_of_streams(); }
  bool is_out_of_range(const Part& part) const {
    return kind_of_row(part.max) == RowKind::out_of_range;
  }
  F shift_of(const Part& part) const { return part.max; }

  void write(std::int64_t index, std::int64_t begin, std::int64_t end, const Part& part, F shift,
             Kept& kept) const {
    const Row row = at(index);
    const RowKind kind = kind_of_row(part.max);
    if (kind != RowKind::ordinary) return write_special(row, kind, begin, end);
    const F last = steps_.last(part);
    const bool fetches = fetches_ && begin == 0 && index + 1 < a_.rows.rows;
    const char* const behind = fetches ? static_cast<const char*>(at(index + 1).x.x) : nullptr;
    for (std::int64_t c = begin; c < end; ++c) {
      if (fetches)
        fetch_to_read(behind + c * kFoldChunk * steps_.in_bytes, row.x.size(c) * steps_.in_bytes);
      const int n = row.x.used(c);
      if (n != 0) write_chunk_of(row, c, n, part, shift, last, kept);
      write_rest(row, c, n);
    }
  }

 private:
  struct Row {
    InputRow x;
    std::int64_t index;
    char* out;
  };
  TWINOPS_INLINE std::int64_t x_step() const { return a_.rows.step[Operands::kX]; }
  TWINOPS_INLINE std::int64_t out_step() const { return a_.rows.step[Operands::kOut]; }
  TWINOPS_INLINE std::int64_t chunks() const {
    return (a_.rows.length + kFoldChunk - 1) / kFoldChunk;
  }
  TWINOPS_INLINE int most_kept() const { return steps_.log ? 0 : kKept<F>; }

  // Where the weights of chunk c wait until the row's sum is known; nullptr if they do not.
  TWINOPS_INLINE F* place(const Row& row, std::int64_t c, int n, Kept& kept) const {
    if (waits_there_ && n == kFoldChunk) return reinterpret_cast<F*>(row.out) + c * kFoldChunk;
    return c < kept.waiting ? kept.of_chunk(c) : nullptr;
  }
  // Not inlined, like what is below, because it is large and called from several places.
  [[gnu::noinline]] Row at(std::int64_t index) const {
    const auto offsets = row_offsets(a_.rows.outer, index);
    const auto* const x = static_cast<const char*>(a_.x);
    return {input_row(a_, index, x + offsets.of[Operands::kX] * steps_.in_bytes), index,
            static_cast<char*>(a_.out) + offsets.of[Operands::kOut] * steps_.out_bytes};
  }

  // Takes rows in groups. Returns the first row that is left.
  std::int64_t row_groups(std::int64_t begin, std::int64_t end, typename Steps::Group group) const {
    constexpr int kRows = Vec<F, Isa>::kLanes;
    constexpr auto kAll = static_cast<std::uint32_t>((std::uint64_t{1} << kRows) - 1);
    const int length = static_cast<int>(a_.rows.length);
    for (; begin + kRows <= end; begin += kRows) {
      int columns = length;
      std::uint32_t special = group(a_, begin, cold_, columns);
      if (columns != length)
        for (std::uint32_t left = kAll & ~special; left != 0; left &= left - 1)
          write_rest(at(begin + __builtin_ctz(left)), 0, columns);
      for (; special != 0; special &= special - 1) short_row(begin + __builtin_ctz(special));
    }
    return begin;
  }
  [[gnu::noinline]] void short_row(std::int64_t index) const {
    const Row row = at(index);
    if (plain_ && x_is_dense_ && is_plain_short_row(row)) return;
    any_short_row(row);
  }
  // Whether it was one, and is written.
  TWINOPS_INLINE bool is_plain_short_row(const Row& row) const {
    const int n = static_cast<int>(row.x.length);
    return dense_ ? steps_.plain_short_row(row.x.x, n, row.out, cold_)
                  : is_plain_short_row_by_way_of_buffer(row, n);
  }
  // Not inlined, so that its stack is free again before another kind of row is tried.
  [[gnu::noinline]] bool is_plain_short_row_by_way_of_buffer(const Row& row, int n) const {
    alignas(64) unsigned char results[kFoldChunk * sizeof(F)];
    if (!steps_.plain_short_row(row.x.x, n, results, false)) return false;
    put(row, 0, n, results);
    return true;
  }
  // Takes any row of up to a chunk. Not inlined: beside its code that of plain rows was a twelfth
  // slower.
  [[gnu::noinline]] void any_short_row(const Row& row) const {
    alignas(64) F weights[kFoldChunk], values[kFoldChunk];  // log_softmax needs the values
    const int n = row.x.used(0);
    const auto read = [&](F shift) {
      return steps_.values(row.x, 0, n, shift, steps_.log ? values : weights);
    };
    typename Steps::Values v = read(F(0));
    Part part = steps_.part(v, n, weights);
    RowKind kind = kind_of_row(part.max);
    if (kind == RowKind::out_of_range) [[unlikely]] {
      v = read(part.max);
      part = steps_.part(v, n, weights);
      kind = kind_of_row(part.max);
    }
    if (kind != RowKind::ordinary) return write_special(row, kind, 0, 1);
    with_place(row, 0, n, [&](void* to) {
      steps_.results(steps_.log ? v.at : weights, n, part.max, part, steps_.last(part), to);
    });
    write_rest(row, 0, n);
  }

  // Writes a chunk, of which n elements count.
  TWINOPS_INLINE void write_chunk_of(const Row& row, std::int64_t c, int n, const Part& part,
                                     F shift, F last, Kept& kept) const {
    const F* const waiting = steps_.log ? nullptr : place(row, c, n, kept);
    with_place(row, c * kFoldChunk, n, [&](void* to) {
      if (waiting) return steps_.results(waiting, n, kept.max[c], part, last, to);
      const typename Steps::Values v = steps_.values(row.x, c, n, shift, kept.scratch());
      if (steps_.log)
        steps_.results(v.at, n, v.max, part, last, to);
      else
        steps_.again(v, n, part, last, to);
    });
  }
  // Writes what lies beyond the columns that count: probability 0.
  TWINOPS_INLINE void write_rest(const Row& row, std::int64_t c, int n) const {
    const int size = row.x.size(c);
    if (n != size) fill(row, c * kFoldChunk + n, size - n, steps_.log ? -kInfinity<F> : F(0));
  }
  void write_special(const Row& row, RowKind kind, std::int64_t begin, std::int64_t end) const {
    const F y = special_row<F>(kind, a_.masked_is_zero, steps_.log);
    for (std::int64_t c = begin; c < end; ++c) fill(row, c * kFoldChunk, row.x.size(c), y);
  }
  [[gnu::noinline]] void fill(const Row& row, std::int64_t first, int n, F y) const {
    with_place(row, first, n, [&](void* to) { steps_.fill(y, n, to); });
  }

  // Calls make(where to put n results of a row from `first` on), and brings them where they go.
  template <class Make>
  TWINOPS_INLINE void with_place(const Row& row, std::int64_t first, int n, Make&& make) const {
    if (dense_) return make(row.out + first * steps_.out_bytes);
    alignas(64) unsigned char results[kFoldChunk * sizeof(F)];
    make(results);
    put(row, first, n, results);
  }
  [[gnu::noinline]] void put(const Row& row, std::int64_t first, int n,
                             const unsigned char* results) const {
    if (sink_ != nullptr) return sink_->write(*sink_, row.index, row.out, first, n, results);
    put_elements<Isa, F>(row.out, first, n, steps_.out_bytes, out_step(), results);
  }

  const SoftmaxArguments& a_;
  const Steps& steps_;
  const SoftmaxSink* const sink_;
  const bool plain_, x_is_dense_;
  bool streamed_;     // results go past the caches
  bool dense_;        // results go where they are to be at once
  bool cold_;         // in no cache yet
  bool waits_there_;  // whole chunks' weights wait in the output
  bool fetches_;
};

}  // namespace twinops
