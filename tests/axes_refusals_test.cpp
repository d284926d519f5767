// Tensors whose strides need more axes than kernels walk: every operator refuses them, and writes
// nothing.
#include <gtest/gtest.h>

#include "tests/support/raw_call.hpp"

namespace twinops::test {
namespace {

// Eighteen axes of two, none of which merges with its neighbour: 17 where rows lie along the last.
constexpr int kAxes = 18;

struct Strides {
  std::vector<std::int64_t> of = std::vector<std::int64_t>(kAxes);
  std::int64_t elements = 1;  // from the first to beyond the last
  Strides() {
    for (int i = kAxes - 1; i >= 0; --i) of[i] = elements, elements = 2 * elements + 1;
  }
};

struct Walker {
  const char* op;
  std::vector<const char*> inputs, outputs;
  const char* named;  // the argument that the message names
  DLDataType type = kF32;
};
void PrintTo(const Walker& walker, std::ostream* out) { *out << walker.op; }

const std::vector<Walker> kWalkers = {
    {"dropout", {"x"}, {"y"}, "x"},
    {"dropout_grad", {"dy"}, {"dx"}, "dy"},
    {"bias_dropout_residual", {"x", "residual"}, {"y"}, "x"},
    {"bias_dropout_residual_grad", {"dy"}, {"dx"}, "dy"},
    {"philox_words", {}, {"words"}, "words", {kDLUInt, 32, 1}},
    {"uniform", {}, {"out"}, "out"},
    {"random_projection", {"x"}, {"y"}, "x"},
    {"random_projection_grad", {"dy"}, {"dx"}, "dy"},
    {"softmax", {"x"}, {"out"}, "out"},
    {"log_softmax", {"x"}, {"out"}, "out"},
    {"softmax_grad", {"y", "dy"}, {"dx"}, "dx"},
    {"log_softmax_grad", {"y", "dy"}, {"dx"}, "dx"},
    {"softmax_dropout", {"x"}, {"y"}, "y"},
    {"softmax_dropout_grad", {"probabilities", "dy"}, {"dx"}, "dx"},
};

class Axes : public testing::TestWithParam<Walker> {};
INSTANTIATE_TEST_SUITE_P(EveryOperator, Axes, testing::ValuesIn(kWalkers),
                         [](const auto& info) { return std::string(info.param.op); });

TEST_P(Axes, MoreThanSixteenAreRefused) {
  const Walker& walker = GetParam();
  const Strides strides;
  std::deque<std::vector<float>> memory;
  std::deque<View> views;
  RawCall call(walker.op);
  const auto add = [&](const char* name, float value) {
    memory.emplace_back(static_cast<std::size_t>(strides.elements), value);
    views.emplace_back(memory.back().data(), walker.type, std::vector<std::int64_t>(kAxes, 2),
                       strides.of);
    call.add(name, views.back());
  };
  for (const char* name : walker.inputs) add(name, 1.0f);
  for (const char* name : walker.outputs) add(name, 5.0f);
  EXPECT_EQ(call.run(), TWINOPS_INVALID_ARGUMENT);
  EXPECT_EQ(twinops_last_error(),
            std::string(walker.op) + ": " + walker.named + ": its strides need more than 16 axes");
  EXPECT_EQ(memory.back(), std::vector<float>(memory.back().size(), 5.0f))
      << "something was written";

  // Fewer are taken: it was for the axes alone.
  for (View& view : views)
    view.reshape(std::vector<std::int64_t>(16, 2), {strides.of.begin() + 2, strides.of.end()});
  EXPECT_EQ(call.run(), TWINOPS_OK) << twinops_last_error();
}

}  // namespace
}  // namespace twinops::test
