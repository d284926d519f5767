// random_projection and its gradient by vectors of outputs.
//
// Memory: x is read once for every 64 outputs, y is written once. R is never in memory: a task, 16
// rows by 64 outputs, draws its entries as bits once for each chunk of 1024 terms and uses them for
// all its rows.
// Order: numerics/fold.hpp. The lanes of a vector are outputs, so every lane has the same tree. A
// chunk goes in sixteen parts of 64 terms, every 16th, in the order that folds neighbours first. A
// term whose entry is 0 is +0.
#include "operators/random_projection.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/random/philox.hpp"
#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/runtime/parallel.hpp"
#include "numerics/fold.hpp"

namespace twinops {
namespace {

constexpr int kTile = 64;                                // outputs of a task
constexpr int kParts = 16, kPart = kFoldChunk / kParts;  // of a chunk
template <class F>
constexpr int kRows = sizeof(F) == 4 ? 16 : 8;  // of a task

// The entries of a chunk's terms: bit o is that of output o.
struct Entries {
  std::uint64_t plus[kFoldChunk], minus[kFoldChunk];
};

// Draws entries that follow one another in the sequence, 64 at a time.
template <class Isa>
class EntryReader {
 public:
  TWINOPS_INLINE EntryReader(const Sequence& s, std::uint32_t words)
      : s_(s), words_(words), wide_(s, s.block) {}

  // Sets bit j by the entry of draw index e + j.
  TWINOPS_INLINE void read(std::uint64_t e, std::uint64_t& plus, std::uint64_t& minus) {
    using Words = Vec<std::uint32_t, Isa>;
    const std::uint64_t block = s_.block + e / 4;
    const auto drawn = draw<Isa, 64>(wide_, block);
    const Words words(words_);
    plus = minus = 0;
    for (int k = 0; k < drawn.kVectors; ++k) {
      const int j = k * Words::kLanes;
      plus |= std::uint64_t{isa::mask_word(is_plus(drawn.v[k], words).m)} << j;
      minus |= std::uint64_t{isa::mask_word(is_plus(drawn.v[k] - words, words).m)} << j;
    }
    const auto skip = static_cast<int>(e % 4);
    if (skip == 0) return;
    const auto next = philox_block(s_.seed, s_.subsequence, block + 16);
    plus >>= skip;
    minus >>= skip;
    for (int j = 0; j < skip; ++j) {
      plus |= std::uint64_t{is_plus_one(next.w[j], words_)} << (64 - skip + j);
      minus |= std::uint64_t{is_minus_one(next.w[j], words_)} << (64 - skip + j);
    }
  }

 private:
  // is_plus_one() by vectors. is_minus_one() is the same of word - words.
  TWINOPS_INLINE static VecMask<std::uint32_t, Isa> is_plus(Vec<std::uint32_t, Isa> word,
                                                            Vec<std::uint32_t, Isa> words) {
    return word < words;
  }
  const Sequence s_;
  std::uint32_t words_;
  WideSequence<Isa> wide_;
};

// Transposes a 64 x 64 matrix of bits: bit j of row i becomes bit i of row j.
template <class Isa>
TWINOPS_INLINE void turn_bits(std::uint64_t* rows) {
  std::uint64_t mask = 0x00000000ffffffffull;
  for (int width = 32; width > 0; width /= 2, mask ^= mask << width) {
    for (int i = 0; i < 64; i = (i + width + 1) & ~width) {
      const std::uint64_t swapped = (rows[i] >> width ^ rows[i + width]) & mask;
      rows[i] ^= swapped << width;
      rows[i + width] ^= swapped;
    }
  }
}

// Draws the entries of terms [first, first + n) for 64 outputs from `output` on, and 0 beyond n.
template <class Isa>
TWINOPS_INLINE void draw_entries(const Projection& p, EntryReader<Isa>& reader, std::int64_t first,
                                 int n, std::int64_t output, Entries& entries) {
  for (int t = 0; t < kFoldChunk; t += kTile) {
    std::uint64_t *plus = entries.plus + t, *minus = entries.minus + t;
    for (int j = 0; j < kTile; ++j) {
      plus[j] = minus[j] = 0;
      if (!p.backward && t + j < n) reader.read(p.draw(first + t + j, output), plus[j], minus[j]);
      if (p.backward && t < n && output + j < p.outputs)
        reader.read(p.draw(first + t, output + j), plus[j], minus[j]);
    }
    if (!p.backward) continue;
    turn_bits<Isa>(plus);
    turn_bits<Isa>(minus);
    for (int j = 0; j < kTile; ++j)
      if (t + j >= n) plus[j] = minus[j] = 0;
  }
}

// A chunk of a row in compute type, part after part; +0 beyond n.
template <class T, class Isa>
TWINOPS_INLINE void read_parts(const T* x, std::int64_t step, int n, compute_t<T>* to) {
  for (int i = 0; i < kFoldChunk; ++i)
    to[i % kParts * kPart + i / kParts] = i < n ? widen(x[i * step]) : compute_t<T>(0);
}

// The masks that turn 64 values of x into terms: `keep` clears them, `sign` flips their signs.
template <class F, class Isa>
struct Signs {
  Vec<F, Isa> sign[kPart], keep[kPart];

  // For part `part` of a chunk and the outputs from bit `first` on.
  TWINOPS_INLINE void set(const Entries& entries, int part, int first) {
    using V = Vec<F, Isa>;
    using Bits = typename V::Bits;
    const V none(F(0)), minus_zero(bit_cast<F>(Bits{1} << (sizeof(F) * 8 - 1)));
    const V all(bit_cast<F>(~Bits{0}));
    for (int q = 0; q < kPart; ++q) {
      const std::uint64_t plus = entries.plus[part + q * kParts] >> first;
      const std::uint64_t minus = entries.minus[part + q * kParts] >> first;
      const VecMask<F, Isa> is_minus{isa::lanes_of<F, TWINOPS_ARCH>(minus)};
      const VecMask<F, Isa> is_any{isa::lanes_of<F, TWINOPS_ARCH>(plus | minus)};
      sign[q] = select(is_minus, minus_zero, none);
      keep[q] = select(is_any, all, none);
    }
  }

  // The fold of the part's terms. x: its 64 values.
  TWINOPS_INLINE Vec<F, Isa> fold_of(const F* x) const {
    Vec<F, Isa> eighths[8];
    for (int c = 0; c < 8; ++c) {
      Vec<F, Isa> terms[8];
#pragma GCC unroll 8
      for (int m = 0; m < 8; ++m) {
        const int q = c + 8 * m;
        terms[m] = {(Vec<F, Isa>(x[q]).v ^ sign[q].v) & keep[q].v};
      }
      eighths[c] = fold_eight(terms);
    }
    return fold_eight(eighths);
  }

 private:
  TWINOPS_INLINE static Vec<F, Isa> fold_eight(const Vec<F, Isa>* s) {
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  }
};

// The part that comes k-th, in the order that folds neighbours first.
TWINOPS_INLINE int part_of(int k) {
  return (k & 1) << 3 | (k & 2) << 1 | (k & 4) >> 1 | (k & 8) >> 3;
}

// What a task works in.
template <class F, class Isa>
struct TaskBuffer {
  static constexpr int kVectors = kTile / Vec<F, Isa>::kLanes;
  alignas(64) F x[kRows<F>][kFoldChunk];
  Signs<F, Isa> signs;
  Entries entries;
  ChunkTree<Vec<F, Isa>> sums[kRows<F>][kVectors];
};

// A task: rows [row, row + rows), outputs from `output` on.
template <class T, class Isa>
void project_tile(const Projection& p, EntryReader<Isa>& reader, std::int64_t row, int rows,
                  std::int64_t output, TaskBuffer<compute_t<T>, Isa>& buffer) {
  using F = compute_t<T>;
  using V = Vec<F, Isa>;
  const auto outputs = static_cast<int>(p.outputs - output < kTile ? p.outputs - output : kTile);
  auto& [x, signs, entries, sums] = buffer;
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v * V::kLanes < outputs; ++v) sums[r][v] = {};
  for (std::int64_t first = 0; first < p.terms; first += kFoldChunk) {
    const auto n =
        static_cast<int>(p.terms - first < kFoldChunk ? p.terms - first : std::int64_t{kFoldChunk});
    draw_entries<Isa>(p, reader, first, n, output, entries);
    for (int r = 0; r < rows; ++r)
      read_parts<T, Isa>(static_cast<const T*>(p.x) +
                             row_offsets(p.outer, row + r).of[Projection::kX] + first * p.x_step,
                         p.x_step, n, x[r]);
    for (int k = 0; k < kParts; ++k) {
      const int part = part_of(k);
      for (int v = 0; v * V::kLanes < outputs; ++v) {
        signs.set(entries, part, v * V::kLanes);
        for (int r = 0; r < rows; ++r) sums[r][v].add(signs.fold_of(x[r] + part * kPart));
      }
    }
  }
  const V scale(static_cast<F>(p.scale));
  for (int r = 0; r < rows; ++r) {
    T* y =
        static_cast<T*>(p.y) + row_offsets(p.outer, row + r).of[Projection::kY] + output * p.y_step;
    for (int v = 0; v * V::kLanes < outputs; ++v) {
      T stored[V::kLanes];
      store<Isa>(stored, projected(sums[r][v].total(), scale));
      for (int j = 0; j < V::kLanes && v * V::kLanes + j < outputs; ++j)
        y[(v * V::kLanes + j) * p.y_step] = stored[j];
    }
  }
}

template <class Isa>
void project(const Projection& p, Execution& execution) {
  execution.random_words = p.random.words;
  if (p.rows == 0 || p.outputs == 0) return;
  const Sequence sequence = p.random.sequence();
  with_floating_type(p.type, [&]<class T>(TypeTag<T>) {
    constexpr int kTaskRows = kRows<compute_t<T>>;
    const std::int64_t blocks = (p.rows + kTaskRows - 1) / kTaskRows;
    const std::int64_t tiles = (p.outputs + kTile - 1) / kTile;
    const std::int64_t grain = 64 / (p.terms + 1) + 1;
    using Buffer = TaskBuffer<compute_t<T>, Isa>;
    const auto tasks = [&](std::int64_t begin, std::int64_t end, Buffer* buffer) {
      EntryReader<Isa> reader(sequence, p.words);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i % blocks * kTaskRows, left = p.rows - row;
        project_tile<T, Isa>(p, reader, row, static_cast<int>(left < kTaskRows ? left : kTaskRows),
                             i / blocks * kTile, *buffer);
      }
    };
    parallel_ranges_with<Buffer>(execution, blocks * tiles, grain, 1, 1, tasks);
  });
}

}  // namespace

template <>
void run_cpu<RandomProjection, isa::TWINOPS_ISA>(const Projection& p, Execution& execution) {
  project<isa::TWINOPS_ISA>(p, execution);
}
template <>
void run_cpu<RandomProjectionGrad, isa::TWINOPS_ISA>(const Projection& p, Execution& execution) {
  project<isa::TWINOPS_ISA>(p, execution);
}

}  // namespace twinops
