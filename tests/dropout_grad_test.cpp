// dropout_grad: the mask kept as bits, as bytes, or drawn again, with one answer.
#include <gtest/gtest.h>

#include "tests/support/dropout_row.hpp"

namespace twinops::test {
namespace {

class DropoutGradRow : public DropoutRow {};
INSTANTIATE_TEST_SUITE_P(EveryRow, DropoutGradRow, testing::ValuesIn(available_rows()), test_name);

// Bits, bytes and no mask at all: the same y, the same dx, and bits that say what the bytes say.
TEST_P(DropoutGradRow, AllMasksAreTheSame) {
  for (const std::int64_t n : {1, 31, 32, 33, 100, 1024, 5003}) {
    DropoutOptions options{.p = 0.3};
    options.random.seed = 5;
    const Drawn bytes = draw({n}, options);
    const auto size = static_cast<std::size_t>(n);
    Floats x(size), y(size, -1), dx_bits(size, -1), dx_bytes(size, -1), dx_drawn(size, -1);
    std::iota(x.begin(), x.end(), 1.0f);
    Words bits(static_cast<std::size_t>(n + 31) / 32, 0xcacacaca);
    const std::string& row = GetParam();
    const OnDevice bits_at(row, bits);
    const OnDevice bytes_at(row, bytes.mask);
    const OnDevice x_at(row, x), y_at(row, y), d1(row, dx_bits), d2(row, dx_bytes),
        d3(row, dx_drawn);
    const Shape words = {(n + 31) / 32};
    dropout(x_at.tensor({n}), y_at.tensor({n}), {}, options, on_row());
    y_at.read(y);
    EXPECT_EQ(y, bytes.y) << "without a mask, n " << n;
    dropout(x_at.tensor({n}), y_at.tensor({n}), bits_at.tensor(words), options, on_row());
    y_at.read(y);
    bits_at.read(bits);
    EXPECT_EQ(y, bytes.y) << "with a bit mask, n " << n;
    for (std::size_t i = 0; i < bits.size() * 32; ++i)
      ASSERT_EQ(bits[i / 32] >> (i % 32) & 1, i < size ? bytes.mask[i] : 0)
          << "n " << n << " bit " << i;
    dropout_grad(x_at.tensor({n}), d1.tensor({n}), bits_at.tensor(words), options, on_row());
    dropout_grad(x_at.tensor({n}), d2.tensor({n}), bytes_at.tensor({n}), options, on_row());
    EXPECT_EQ(dropout_grad(x_at.tensor({n}), d3.tensor({n}), {}, options, on_row()).random_words,
              bytes.random_words);
    d1.read(dx_bits);
    d2.read(dx_bytes);
    d3.read(dx_drawn);
    EXPECT_EQ(dx_bits, bytes.y) << "n " << n;
    EXPECT_EQ(dx_bytes, bytes.y) << "n " << n;
    EXPECT_EQ(dx_drawn, bytes.y) << "n " << n;
  }
}

// A rank that holds nothing of the tensor reports what the others do.
TEST_P(DropoutGradRow, AnEmptyShardReservesWhatOthersDo) {
  DropoutOptions options;
  options.random = {.global_shape = {3, 8}, .start = {3, 0}};
  const OnDevice none(GetParam(), Floats{});
  const OnDevice no_mask(GetParam(), Bytes{});
  const Tensor x = none.tensor({0, 8}), y = none.tensor({0, 8}), mask = no_mask.tensor({0, 8});
  EXPECT_EQ(dropout_grad(x, y, {}, options, on_row()).random_words, 24u);
  EXPECT_EQ(dropout_grad(x, y, mask, options, on_row()).random_words, 0u);
  EXPECT_EQ(uniform(x, options.random, on_row()).random_words, 24u);
  EXPECT_EQ(softmax_dropout(x, y, {}, {}, options, on_row()).random_words, 24u);
  EXPECT_EQ(softmax_dropout_grad(x, x, y, {}, {}, options, {}, {}, on_row()).random_words, 24u);
}

}  // namespace
}  // namespace twinops::test
