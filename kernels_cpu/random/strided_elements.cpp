#include "kernels_cpu/random/strided_elements.hpp"

#include <cstring>

namespace twinops {
namespace {

// Steps through the elements of a layout and knows the offset of every operand.
template <int N>
class Cursor {
 public:
  Cursor(const Layout<N>& layout, std::int64_t begin) : layout_(layout) {
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      move(axis, begin % layout.size[axis]);
      begin /= layout.size[axis];
    }
  }
  std::int64_t operator[](int operand) const { return offset_[operand]; }
  void next() {
    for (int axis = layout_.rank - 1; axis >= 0; --axis) {
      move(axis, 1);
      if (index_[axis] < layout_.size[axis]) return;
      move(axis, -layout_.size[axis]);
    }
  }

 private:
  void move(int axis, std::int64_t n) {
    index_[axis] += n;
    for (int k = 0; k < N; ++k) offset_[k] += n * layout_.stride[k][axis];
  }
  const Layout<N>& layout_;
  std::int64_t index_[kMaxAxes] = {};
  std::int64_t offset_[N] = {};
};

// Calls f(j, cursor) for element i + j, j in [0, n).
template <int N, class F>
void for_each(const Layout<N>& layout, std::int64_t i, int n, F&& f) {
  Cursor<N> cursor(layout, i);
  for (int j = 0; j < n; ++j, cursor.next()) f(j, cursor);
}

template <class F>
void with_word_of(Type type, F&& f) {
  switch (size_of(type)) {
    case 2:
      return f(TypeTag<std::uint16_t>{});
    case 4:
      return f(TypeTag<std::uint32_t>{});
    default:
      return f(TypeTag<std::uint64_t>{});
  }
}

Sequence with_seed_of_row(Sequence s, const RandomArguments& random, std::int64_t row) {
  if (random.seeds != nullptr) s.seed = random.seeds[row];
  return s;
}

}  // namespace

void gather_step(const DropoutWork& work, std::int64_t i, int n, const StepBuffers& to) {
  with_word_of(work.type, [&]<class Word>(TypeTag<Word>) {
    const auto copy = [&](void* buffer, const void* from, int operand) {
      if (from == nullptr) return;
      for_each(work.layout, i, n, [&](int j, const auto& cursor) {
        static_cast<Word*>(buffer)[j] = static_cast<const Word*>(from)[cursor[operand]];
      });
    };
    copy(to.x, work.x, DropoutWork::kX);
    copy(to.bias, work.bias, DropoutWork::kBias);
    copy(to.residual, work.residual, DropoutWork::kResidual);
  });
}

void scatter_step(const DropoutWork& work, std::int64_t i, int n, const void* y) {
  with_word_of(work.type, [&]<class Word>(TypeTag<Word>) {
    for_each(work.layout, i, n, [&](int j, const auto& cursor) {
      static_cast<Word*>(work.y)[cursor[DropoutWork::kY]] = static_cast<const Word*>(y)[j];
    });
  });
}

std::uint64_t draw_step(const DropoutWork& work, const Sequence& sequence, std::int64_t i, int n) {
  const RandomArguments& random = work.random;
  WordReader reader(random.order());
  std::uint64_t bits = 0;
  for_each(work.layout, i, n, [&](int j, const auto& cursor) {
    const Sequence s = with_seed_of_row(sequence, random, cursor[DropoutWork::kRow]);
    const auto e = random.first + static_cast<std::uint64_t>(cursor[DropoutWork::kDraw]);
    bits |= std::uint64_t{work.keep.has(reader.word(s, e))} << j;
  });
  return bits;
}

std::uint64_t load_mask(const void* mask, bool bytes, std::int64_t i, int n) {
  std::uint64_t bits = 0;
  if (bytes) {
    for (int j = 0; j < n; ++j)
      bits |= std::uint64_t{static_cast<const std::uint8_t*>(mask)[i + j] != 0} << j;
    return bits;
  }
  const auto* words = static_cast<const std::uint32_t*>(mask) + i / 32;
  bits = words[0];
  if (n > 32) bits |= std::uint64_t{words[1]} << 32;
  return n == kStep ? bits : bits & ((std::uint64_t{1} << n) - 1);
}

void store_mask(void* mask, bool bytes, std::int64_t i, int n, std::uint64_t bits) {
  if (bytes) {
    for (int j = 0; j < n; ++j)
      static_cast<std::uint8_t*>(mask)[i + j] = static_cast<std::uint8_t>(bits >> j & 1);
    return;
  }
  if (n < kStep) bits &= (std::uint64_t{1} << n) - 1;
  auto* words = static_cast<std::uint32_t*>(mask) + i / 32;
  words[0] = static_cast<std::uint32_t>(bits);
  if (n > 32) words[1] = static_cast<std::uint32_t>(bits >> 32);
}

void fill_words(const RandomFill& fill, const Sequence& sequence, std::int64_t i, int n,
                std::uint32_t* words) {
  const RandomArguments& random = fill.random;
  WordReader reader(random.order());
  for_each(fill.layout, i, n, [&](int j, const auto& cursor) {
    const Sequence s = with_seed_of_row(sequence, random, cursor[RandomFill::kRow]);
    words[j] = reader.word(s, random.first + static_cast<std::uint64_t>(cursor[RandomFill::kDraw]));
  });
}

void scatter_fill(const RandomFill& fill, std::int64_t i, int n, const void* values) {
  for_each(fill.layout, i, n, [&](int j, const auto& cursor) {
    static_cast<std::uint32_t*>(fill.out)[cursor[RandomFill::kOut]] =
        static_cast<const std::uint32_t*>(values)[j];
  });
}

}  // namespace twinops
