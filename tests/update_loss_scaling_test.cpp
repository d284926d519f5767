// update_loss_scaling by hand, and what it refuses. Its rule is loss_scaling_test.cpp; equality of
// the kernels is twins_test.cpp.
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/raw_call.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Update : public testing::TestWithParam<std::string> {
 protected:
  void run(UpdateLossScalingOptions options = {}) {
    const LossScaleState state{{&scale, {}}, {&good, {}}, {&bad, {}}};
    update_loss_scaling({{x.data(), {3}}}, {&found, {}}, state, {{x.data(), {3}}}, state, options,
                        {.row = GetParam()});
  }
  std::vector<float> x = {1, kNan, -0.0f};
  bool found = false;
  float scale = 1024;
  std::int32_t good = 0, bad = 0;
};
std::vector<std::string> cpu_rows() {
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.starts_with("cpu/")) rows.push_back(row);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(EveryRow, Update, testing::ValuesIn(cpu_rows()),
                         [](const auto& info) { return info.param.substr(4); });

TEST_P(Update, AFiniteStepLeavesTheTensorsAlone) {
  const std::vector<float> before = x;
  good = 998;
  bad = 1;
  run();
  EXPECT_EQ(std::memcmp(x.data(), before.data(), 12), 0);
  EXPECT_EQ(scale, 1024);
  EXPECT_EQ(good, 999);
  EXPECT_EQ(bad, 0);
  run();
  EXPECT_EQ(scale, 2048);
  EXPECT_EQ(good, 0);
}

TEST_P(Update, AnOverflowZeroesThem) {
  found = true;
  good = 7;
  run();
  EXPECT_EQ(scale, 1024);
  EXPECT_EQ(good, 0);
  EXPECT_EQ(bad, 1);
  for (float value : x) EXPECT_TRUE(value == 0 && !std::signbit(value));
  run();
  EXPECT_EQ(scale, 512);
  EXPECT_EQ(bad, 0);
}

TEST_P(Update, StopUpdateOnlyZeroes) {
  found = true;
  good = 5;
  bad = 6;
  run({.decr_every_n_nan_or_inf = 1, .stop_update = true});
  EXPECT_EQ(scale, 1024);
  EXPECT_EQ(good, 5);
  EXPECT_EQ(bad, 6);
  EXPECT_EQ(x[0], 0);
}

TEST_P(Update, RatiosAndCountsAreTheCallers) {
  run({.incr_every_n_steps = 1, .incr_ratio = 1.5});
  EXPECT_EQ(scale, 1536);
  found = true;
  run({.decr_every_n_nan_or_inf = 1, .decr_ratio = 0.25});
  EXPECT_EQ(scale, 384);
}

TEST_P(Update, TheFloorIsTheCallersAndRaisesNothing) {
  found = true;
  scale = 0.25f;
  run({.decr_every_n_nan_or_inf = 1});
  EXPECT_EQ(scale, 0.25f);
  run({.decr_every_n_nan_or_inf = 1, .min_scale = 0x1p-3});
  EXPECT_EQ(scale, 0x1p-3f);
  run({.decr_every_n_nan_or_inf = 1, .min_scale = 0x1p-3});
  EXPECT_EQ(scale, 0x1p-3f);
  scale = 1.5f;
  run({.decr_every_n_nan_or_inf = 1});
  EXPECT_EQ(scale, 1);
}

TEST_P(Update, OutOfPlace) {
  const std::uint16_t h[3] = {0x3c00, 0x7e01, 0x8000};  // NaN payloads are copied
  std::uint16_t out[3] = {1, 2, 3};
  double wide = 8, wide_out = 0;
  std::int32_t good_out = -1, bad_out = -1;
  const auto step = [&](std::uint8_t& flag) {
    update_loss_scaling({{const_cast<std::uint16_t*>(h), kFloat16, {3}}}, {&flag, {}},
                        {{&wide, {}}, {&good, {}}, {&bad, {}}}, {{out, kFloat16, {3}}},
                        {{&wide_out, {}}, {&good_out, {}}, {&bad_out, {}}}, {},
                        {.row = GetParam()});
  };
  std::uint8_t flag = 0;
  step(flag);
  EXPECT_EQ(std::memcmp(out, h, sizeof(h)), 0);
  EXPECT_EQ(wide_out, 8);
  EXPECT_EQ(good_out, 1);
  EXPECT_EQ(bad_out, 0);
  EXPECT_EQ(good, 0) << "the state that was read stays";
  flag = 255;  // anything but 0
  step(flag);
  EXPECT_EQ(out[0] | out[1] | out[2], 0);
  EXPECT_EQ(bad_out, 1);
}

TEST_P(Update, AFloatFlag) {
  const LossScaleState state{{&scale, {}}, {&good, {}}, {&bad, {}}};
  for (float flag : {1.0f, -1.0f, 1e-45f, kInf, kNan, 0.0f, -0.0f}) {
    x = {1, 2, 3};
    update_loss_scaling({{x.data(), {3}}}, {&flag, {}}, state, {{x.data(), {3}}}, state, {},
                        {.row = GetParam()});
    EXPECT_EQ(x[0], flag == 0 ? 1 : 0) << flag;
  }
}

TEST_P(Update, AnEmptyListStillSteps) {
  const LossScaleState state{{&scale, {}}, {&good, {}}, {&bad, {}}};
  update_loss_scaling({}, {&found, {}}, state, {}, state, {}, {.row = GetParam()});
  EXPECT_EQ(good, 1);
}

// Refusals of its own.
struct Example {
  float x[4] = {1, 2, 3, 4};
  struct {
    float out[4];
    float scale[2];
    std::int32_t good[2], bad[2];
  } written;
  float scale = 8;
  std::int32_t good = 1, bad = 2;
  std::uint8_t found = 1;
  View x_view{x, kF32, {4}}, out{written.out, kF32, {4}}, found_inf{&found, kU8, {}};
  View scale_view{&scale, kF32, {}}, good_view{&good, kI32, {}}, bad_view{&bad, kI32, {}};
  View scale_out{written.scale, kF32, {}}, good_out{written.good, kI32, {}},
      bad_out{written.bad, kI32, {}};
  RawCall call{"update_loss_scaling"};

  Example() {
    std::memset(&written, 0xca, sizeof(written));
    call.add("x", x_view);
    call.add("found_inf", found_inf);
    call.add("scale", scale_view);
    call.add("good_steps", good_view);
    call.add("bad_steps", bad_view);
    call.add("out", out);
    call.add("scale_out", scale_out);
    call.add("good_steps_out", good_out);
    call.add("bad_steps_out", bad_out);
  }
};
struct Case {
  const char* name;
  std::function<void(Example&)> spoil;
  std::string message;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
const std::string kOp = "update_loss_scaling: ";
Case count(const char* name, const char* attribute, std::int64_t value) {
  return {name, [=](Example& e) { e.call.set(attribute, value); },
          kOp + attribute + ": expected 1 to 2147483647; got " + std::to_string(value)};
}
std::string shortest(double value) {  // "0.5", "1e+39"
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}
Case up(const char* name, double value) {
  return {name, [=](Example& e) { e.call.set("incr_ratio", value); },
          kOp + "incr_ratio: expected a finite number above 1; got " + shortest(value)};
}
Case down(const char* name, double value) {
  return {name, [=](Example& e) { e.call.set("decr_ratio", value); },
          kOp + "decr_ratio: expected a number between 0 and 1; got " + shortest(value)};
}
Case floor_of(const char* name, double value) {
  return {name, [=](Example& e) { e.call.set("min_scale", value); },
          kOp + "min_scale: expected a finite number above 0; got " + shortest(value)};
}
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      count("IncreaseEvery0", "incr_every_n_steps", 0),
      count("IncreaseEveryLessThan0", "incr_every_n_steps", -1),
      count("IncreaseBeyond32Bits", "incr_every_n_steps", std::int64_t{1} << 31),
      count("IncreaseWrapsToOne", "incr_every_n_steps", (std::int64_t{1} << 32) + 1),
      count("DecreaseEvery0", "decr_every_n_nan_or_inf", 0),
      count("DecreaseBeyond32Bits", "decr_every_n_nan_or_inf", std::int64_t{1} << 31),
      up("UpByOne", 1),
      up("UpByLess", 0.5),
      up("UpByOneInFloat", 1 + 1e-12),
      up("UpByNegative", -2),
      up("UpByInfinity", kInf),
      up("UpByInfinityInFloat", 1e39),
      up("UpByNan", kNan),
      floor_of("FloorOfZero", 0),
      floor_of("FloorOfZeroInFloat", 1e-60),
      floor_of("FloorBelowZero", -1),
      floor_of("FloorOfInfinity", kInf),
      floor_of("FloorOfNan", kNan),
      down("DownByZero", 0),
      down("DownByZeroInFloat", 1e-60),
      down("DownByOne", 1),
      down("DownByOneInFloat", 1 - 1e-12),
      down("DownByMore", 2),
      down("DownByNegative", -0.5),
      down("DownByNan", kNan),
      {"IntForRatioIsTaken", [](Example& e) { e.call.set("incr_ratio", 1); },
       kOp + "incr_ratio: expected a finite number above 1; got 1"},
      {"FloatForCount", [](Example& e) { e.call.set("incr_every_n_steps", 10.0); },
       kOp + "incr_every_n_steps: expected an int; got a float"},
      {"ScaleOutOfAnotherType", [](Example& e) { e.scale_out.tensor.dtype = kF64; },
       kOp + "scale_out: expected the type of scale, float32; got float64"},
      {"LongSteps", [](Example& e) { e.good_view.tensor.dtype = kI64; },
       kOp + "good_steps: expected int32; got int64"},
      {"TwoSteps", [](Example& e) { e.bad_out.reshape({2}); },
       kOp + "bad_steps_out: expected one element; got shape [2]"},
      {"TwoFlags", [](Example& e) { e.found_inf.reshape({2}); },
       kOp + "found_inf: expected one element; got shape [2]"},
      {"GoodOverBad", [](Example& e) { e.good_out.tensor.data = &e.bad; },
       kOp + "good_steps_out: shares memory with " + kOp +
           "bad_steps, but is not the same tensor in place"},
      {"OutputsOverEachOther", [](Example& e) { e.good_out.tensor.data = e.written.bad; },
       kOp + "bad_steps_out: shares memory with " + kOp + "good_steps_out"},
      {"ScaleOutInTheList", [](Example& e) { e.scale_out.tensor.data = e.written.out + 2; },
       kOp + "scale_out: shares memory with " + kOp + "out[0]"},
      {"TheListIsMissing", [](Example& e) { e.call.remove("out"); },
       kOp + "out: is required, but was not given"},
      {"MovedInPlace",
       [](Example& e) {
         e.x_view.reshape({3});
         e.out.reshape({3});
         e.x_view.tensor.data = e.written.out + 1;
       },
       kOp + "out[0]: shares memory with " + kOp + "x[0], but is not the same tensor in place"},
  };
  return all;
}

class UpdateRefusal : public testing::TestWithParam<Case> {};
TEST_P(UpdateRefusal, SaysWhyAndWritesNothing) {
  Example e;
  GetParam().spoil(e);
  const auto before = e.written;
  EXPECT_EQ(e.call.run(), TWINOPS_INVALID_ARGUMENT);
  EXPECT_EQ(twinops_last_error(), GetParam().message);
  EXPECT_EQ(std::memcmp(&before, &e.written, sizeof(before)), 0) << "outputs were written";
  EXPECT_TRUE(e.scale == 8 && e.good == 1 && e.bad == 2 && e.found == 1);
}
INSTANTIATE_TEST_SUITE_P(EveryCase, UpdateRefusal, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(UpdateExample, IsRight) {
  Example e;
  e.call.set("incr_ratio", 2);  // an int is taken where a float is meant
  EXPECT_EQ(e.call.run(), TWINOPS_OK) << twinops_last_error();
  EXPECT_EQ(e.written.out[3], 0);
  EXPECT_EQ(e.written.scale[0], 4);
  EXPECT_EQ(e.written.good[0], 0);
  EXPECT_EQ(e.written.bad[0], 0);
}

// Paddle's.
TEST(UpdateLossScalingTable, Defaults) {
  const twinops_operator_info* const op = twinops_find_operator("update_loss_scaling");
  ASSERT_NE(op, nullptr);
  ASSERT_EQ(op->attribute_count, 6u);
  const auto value = [&](std::size_t i) { return op->attributes[i]->default_value; };
  EXPECT_EQ(value(0).int_value, 1000) << value(0).name;
  EXPECT_EQ(value(1).int_value, 2) << value(1).name;
  EXPECT_EQ(value(2).float_value, 2) << value(2).name;
  EXPECT_EQ(value(3).float_value, 0.5) << value(3).name;
  EXPECT_EQ(value(4).int_value, 0) << value(4).name;
  EXPECT_EQ(value(5).float_value, 1) << value(5).name;
}

}  // namespace
}  // namespace twinops::test
