// What the dropout family refuses: each with its own message, and nothing written.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/support/raw_call.hpp"

namespace twinops::test {
namespace {

constexpr DLDataType kU32{kDLUInt, 32, 1};

// A right call of bias_dropout_residual on [4, 10].
struct Example {
  float x[40], bias[10], residual[40];
  std::int64_t seed[4] = {1, 2, 3, 4}, offset = 4;
  struct {
    float y[40];
    std::uint32_t mask[10];
  } written;
  View x_view{x, kF32, {4, 10}}, y_view{written.y, kF32, {4, 10}}, bias_view{bias, kF32, {10}},
      residual_view{residual, kF32, {4, 10}}, mask_view{written.mask, kU32, {2}},
      seed_view{seed, kI64, {1}}, seeds_view{seed, kI64, {4}}, offset_view{&offset, kI64, {}};
  RawCall call{"bias_dropout_residual"};

  Example() {
    for (float& v : x) v = 1;
    for (float& v : bias) v = 2;
    for (float& v : residual) v = 3;
    std::memset(&written, 0xca, sizeof(written));
    call.add("x", x_view);
    call.add("bias", bias_view);
    call.add("residual", residual_view);
    call.add("y", y_view);
    call.add("mask", mask_view);
  }
};

struct Case {
  const char* name;
  std::function<void(Example&)> spoil;
  std::string message;
};

const std::vector<Case>& cases() {
  static const std::string kOp = "bias_dropout_residual: ";
  static const double kNan = std::numeric_limits<double>::quiet_NaN();
  static const std::vector<Case> all = {
      {"ProbabilityBelow", [](Example& e) { e.call.set("p", -0.001); },
       kOp + "p: expected a probability in [0, 1]; got -0.001"},
      {"ProbabilityAbove", [](Example& e) { e.call.set("p", 1.001); },
       kOp + "p: expected a probability in [0, 1]; got 1.001"},
      {"ProbabilityNan", [](Example& e) { e.call.set("p", kNan); },
       kOp + "p: expected a probability in [0, 1]; got nan"},
      {"Mode", [](Example& e) { e.call.set("mode", "upscale"); },
       kOp + "mode: expected one of upscale_in_train|downgrade_in_infer; got 'upscale'"},
      {"OffsetOdd", [](Example& e) { e.call.set("offset", 6); },
       kOp + "offset: expected a multiple of 4; got 6"},
      {"Layout", [](Example& e) { e.call.set("layout", "jax"); },
       kOp + "layout: expected one of contiguous|strided|triton|torch; got 'jax'"},
      {"Period", [](Example& e) { e.call.set("period", 0); },
       kOp + "period: expected 1 or more; got 0"},
      {"TorchPeriod",
       [](Example& e) {
         e.call.set("layout", "torch");
         e.call.set("period", 300);
       },
       kOp + "period: expected a multiple of 256, a block's threads, in layout torch; got 300"},
      {"Vector", [](Example& e) { e.call.set("vector", 3); },
       kOp + "vector: expected 0, 1, 2, 4 or 8; got 3"},
      {"VectorAbove", [](Example& e) { e.call.set("vector", 16); },
       kOp + "vector: expected 0, 1, 2, 4 or 8; got 16"},
      {"VectorBelow", [](Example& e) { e.call.set("vector", -4); },
       kOp + "vector: expected 0, 1, 2, 4 or 8; got -4"},
      {"ElementOffset", [](Example& e) { e.call.set("element_offset", -1); },
       kOp + "element_offset: expected 0 or more; got -1"},
      {"MoreRowsThanSeedsCanBe",
       [](Example& e) {
         constexpr std::int64_t kLarge = std::int64_t{1} << 40;
         for (View* view : {&e.x_view, &e.y_view, &e.residual_view})
           view->reshape({kLarge, kLarge, 0});
         e.call.remove("bias"), e.call.remove("mask");
         e.call.add("seeds", e.seeds_view);
       },
       kOp + "seeds: a tensor of shape [1099511627776, 1099511627776, 0] has more rows than 64 "
             "bits count"},
      {"ElementOffsetTooFar",
       [](Example& e) {
         e.call.set("element_offset", std::numeric_limits<std::int64_t>::max() - 39);
       },
       kOp + "element_offset: the whole tensor's indexes do not fit 63 bits"},
      {"TritonOffset",
       [](Example& e) {
         e.call.set("layout", "triton");
         e.call.set("offset", 4);
       },
       kOp + "layout: triton's sequence has a seed only; got an offset or a subsequence"},
      {"TritonOffsetTensor",
       [](Example& e) {
         e.call.set("layout", "triton");
         e.call.add("offset_tensor", e.offset_view);
       },
       kOp + "layout: triton's sequence has a seed only; got an offset or a subsequence"},
      {"TwoSeeds",
       [](Example& e) {
         e.call.set("seed", 1);
         e.call.add("seed_tensor", e.seed_view);
       },
       kOp + "seed_tensor: the attribute seed is given too"},
      {"SeedsAndSeed",
       [](Example& e) {
         e.call.set("seed", 1);
         e.call.add("seeds", e.seeds_view);
       },
       kOp + "seeds: another seed is given too"},
      {"SeedsOfOtherRows",
       [](Example& e) {
         e.seeds_view.reshape({3});
         e.call.add("seeds", e.seeds_view);
       },
       kOp + "seeds: expected 4 elements without gaps, one a row; got shape [3]"},
      {"SeedTensorOfTwo",
       [](Example& e) {
         e.seed_view.reshape({2});
         e.call.add("seed_tensor", e.seed_view);
       },
       kOp + "seed_tensor: expected one element; got shape [2]"},
      {"SeedTensorType",
       [](Example& e) {
         e.seed_view.tensor.dtype = kF64;
         e.call.add("seed_tensor", e.seed_view);
       },
       kOp + "seed_tensor: expected int64, uint64; got float64"},
      {"GlobalShapeText", [](Example& e) { e.call.set("global_shape", "4,ten"); },
       kOp + "global_shape: expected integers between commas; got '4,ten'"},
      {"GlobalShapeRank", [](Example& e) { e.call.set("global_shape", "4"); },
       kOp + "global_shape: expected 2 numbers, one a dimension of the tensor; got 1"},
      {"StartAlone", [](Example& e) { e.call.set("start", "0,0"); },
       kOp + "start: is given without global_shape"},
      {"StartRank",
       [](Example& e) {
         e.call.set("global_shape", "4,10");
         e.call.set("start", "0,0,0");
       },
       kOp + "start: expected 2 numbers, one a dimension of the tensor; got 3"},
      {"Outside",
       [](Example& e) {
         e.call.set("global_shape", "8,10");
         e.call.set("start", "5,0");
       },
       kOp + "start: the tensor of shape [4, 10] does not lie inside global_shape along axis 0"},
      {"SharedAxis", [](Example& e) { e.call.set("shared_axes", "2"); },
       kOp + "shared_axes: axis 2 is not one of a tensor of 2 dimensions"},
      {"MaskSize", [](Example& e) { e.mask_view.reshape({1}); },
       kOp + "mask: expected uint32[2], a bit for each element of x; got uint32[1]"},
      {"MaskShape",
       [](Example& e) {
         e.mask_view.tensor.dtype = kU8;
         e.mask_view.reshape({40});
       },
       kOp + "mask: expected a byte for each element of x, shape [4, 10]; got uint8[40]"},
      {"MaskType", [](Example& e) { e.mask_view.tensor.dtype = kF32; },
       kOp + "mask: expected bool, uint8, uint32; got float32"},
      {"MaskGaps", [](Example& e) { e.mask_view.reshape({2}, {2}); },
       kOp + "mask: expected a mask without gaps"},
      {"OutputType", [](Example& e) { e.y_view.tensor.dtype = kF16; },
       kOp + "y: expected the type of x, float32; got float16"},
      {"OutputShape",
       [](Example& e) {
         e.y_view.reshape({10, 4});
       },
       kOp + "y: expected the shape of x, [4, 10]; got [10, 4]"},
      {"BiasSize", [](Example& e) { e.bias_view.reshape({9}); },
       kOp + "bias: expected a shape that broadcasts to x's, [4, 10]; got [9]"},
      {"BiasShape",
       [](Example& e) {
         e.bias_view.reshape({2, 1, 10});
       },
       kOp + "bias: expected a shape that broadcasts to x's, [4, 10]; got [2, 1, 10]"},
      {"BiasOfIntegers",
       [](Example& e) {
         e.bias_view.tensor.dtype = {kDLInt, 64, 1};
       },
       kOp + "bias: expected the type of x, float32; got int64"},
      {"ResidualOfComplexNumbers",
       [](Example& e) {
         e.residual_view.tensor.dtype = {5, 128, 1};
       },
       kOp + "residual: expected the type of x, float32; got complex128"},
      {"BiasType", [](Example& e) { e.bias_view.tensor.dtype = kF16; },
       kOp + "bias: expected the type of x, float32; got float16"},
      {"ResidualShape",
       [](Example& e) {
         e.residual_view.reshape({4, 9});
       },
       kOp + "residual: expected the shape of x, [4, 10]; got [4, 9]"},
      {"ShiftedInPlace",
       [](Example& e) {
         e.y_view.tensor.data = e.x + 1, e.y_view.reshape({3, 13}), e.x_view.reshape({3, 13}),
         e.residual_view.reshape({3, 13}), e.bias_view.reshape({3, 13}, {0, 0});
       },
       kOp + "y: shares memory with " + kOp + "x, but is not the same tensor in place"},
  };
  return all;
}

class DropoutRefusal : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Each, DropoutRefusal, testing::Range(std::size_t{0}, cases().size()),
                         [](const auto& info) { return std::string(cases()[info.param].name); });

TEST_P(DropoutRefusal, HasItsMessageAndWritesNothing) {
  Example e;
  const auto before = e.written;
  cases()[GetParam()].spoil(e);
  EXPECT_EQ(e.call.run(), TWINOPS_INVALID_ARGUMENT);
  EXPECT_EQ(twinops_last_error(), cases()[GetParam()].message);
  EXPECT_EQ(std::memcmp(&e.written, &before, sizeof(before)), 0);
}

TEST(DropoutRefusal, TheExampleIsRight) {
  Example e;
  EXPECT_EQ(e.call.run(), TWINOPS_OK) << twinops_last_error();
  EXPECT_EQ(e.written.mask[1] >> 8, 0u) << "the padding of the mask";
}

}  // namespace
}  // namespace twinops::test
