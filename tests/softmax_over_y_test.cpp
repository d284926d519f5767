// The backward passes of softmax with dx over y, in place: y is read for the row's sum and for each
// element, so that one that is written too early is read as something else.
#include <cstring>

#include "tests/support/softmax_rows.hpp"

namespace twinops::test {
namespace {

constexpr std::uint64_t kSeed = 20261126;

// Short rows, rows of a chunk and more, of more than is kept of a row, and one that threads share.
constexpr std::int64_t kShapes[][2] = {{37, 5},    {300, 64},  {5, 1000},      {9, 4099},
                                       {3, 40960}, {2, 70001}, {1, 300 * 1024}};

struct Backward {
  const char* op;
  DLDataType type;
};
void PrintTo(const Backward& b, std::ostream* out) {
  *out << b.op << ' ' << twinops_type_name(b.type);
}
std::vector<Backward> all() {
  std::vector<Backward> every;
  for (const char* op : {"softmax_grad", "log_softmax_grad"})
    for (const DLDataType type : proof::kFloatingTypes) every.push_back({op, type});
  return every;
}

class SoftmaxOverY : public testing::TestWithParam<Backward> {
 protected:
  // Rows along `axis`, dx over y or apart. Both have the same values from the same seed.
  proof::Problem problem(std::int64_t rows, std::int64_t columns, int axis, bool over) const {
    const auto& [op, type] = GetParam();
    const proof::TensorSpec in{type,
                               axis == 0 ? std::vector{columns, rows} : std::vector{rows, columns}};
    return proof::Problem(op)
        .input(
            "y", {in},
            std::string(op) == "softmax_grad" ? proof::probabilities() : proof::log_probabilities())
        .input("dy", {in}, proof::ordinary())
        .output("dx", {over ? proof::in_place(in, "y") : in})
        .attribute("axis", axis);
  }
};
INSTANTIATE_TEST_SUITE_P(EveryType, SoftmaxOverY, testing::ValuesIn(all()), [](const auto& info) {
  return info.param.op + std::string("_") + twinops_type_name(info.param.type);
});

// The reference as it does apart, every row as the reference.
TEST_P(SoftmaxOverY, AsApart) {
  proof::Share share;
  for (const auto& [rows, columns] : kShapes)
    for (const int axis : {1, 0}) {
      const std::string where =
          std::to_string(rows) + " x " + std::to_string(columns) + ", axis " + std::to_string(axis);
      const proof::Trial apart(problem(rows, columns, axis, false), kSeed);
      const proof::Trial over(problem(rows, columns, axis, true), kSeed);
      const proof::Outcome expected = proof::run(apart, "cpu/scalar");
      const proof::Outcome actual = proof::run(over, "cpu/scalar");
      const auto &from = apart.places().back(), &to = over.places().back();
      ASSERT_EQ(from.end - from.begin, to.end - to.begin);
      EXPECT_EQ(std::memcmp(expected.block.data() + from.begin, actual.block.data() + to.begin,
                            to.end - to.begin),
                0)
          << "the reference, " << where << ", seed " << kSeed;
      for (const int threads : {1, 3})
        share +=
            compare_rows(problem(rows, columns, axis, true), kSeed, where, {.threads = threads});
    }
  EXPECT_GT(share.nonzero * 2, share.elements) << "too many results are zero to prove anything";
}

}  // namespace
}  // namespace twinops::test
