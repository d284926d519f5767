// check_finite_and_unscale by hand: values worked out on paper, the rules of found_inf. Equality of
// the kernels over everything else is twins_test.cpp.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "numerics/float16.hpp"
#include "tests/support/raw_call.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

class Unscale : public testing::TestWithParam<std::string> {
 protected:
  Execution execution() const { return {.row = GetParam()}; }
  Report run(const Tensors& x, const Tensors& out, CheckFiniteAndUnscaleOptions options = {}) {
    return check_finite_and_unscale(x, Tensor(&scale, {}), out, Tensor(&found, {}), options,
                                    execution());
  }
  // Unscales one float; found tells.
  float one(float x, CheckFiniteAndUnscaleOptions options = {}) {
    float out = -1;
    found = false;
    run({{&x, {1}}}, {{&out, {1}}}, options);
    return out;
  }
  std::uint16_t half(DLDataType type, std::uint16_t x, CheckFiniteAndUnscaleOptions options = {}) {
    std::uint16_t out = 0xcaca;
    found = false;
    run({{&x, type, {1}}}, {{&out, type, {1}}}, options);
    return out;
  }
  float scale = 4;
  bool found = false;
};
std::vector<std::string> cpu_rows() {
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.starts_with("cpu/")) rows.push_back(row);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(EveryRow, Unscale, testing::ValuesIn(cpu_rows()),
                         [](const auto& info) { return info.param.substr(4); });

TEST_P(Unscale, Floats) {
  EXPECT_EQ(one(8), 2);
  EXPECT_EQ(one(-0.5f), -0.125f);
  EXPECT_TRUE(std::signbit(one(-0.0f)));
  EXPECT_FALSE(found);
  scale = 3;  // the inverse is rounded to float before it is multiplied
  EXPECT_EQ(one(5), 5 * static_cast<float>(1.0 / 3.0));
  scale = 0x1p127f;
  EXPECT_EQ(one(0x1p-22f), 0x1p-149f) << "subnormals are kept";
  EXPECT_EQ(one(0x1.8p-23f), 0x1p-149f) << "and rounded to nearest even";
  EXPECT_EQ(one(0x1p-23f), 0.0f);
}

// 1e45 has no inverse in float but half of a digit, 2^150 none, and infinity only 0: gradients that
// would be wrong, or 0, are found instead, whichever values are checked.
TEST_P(Unscale, AScaleBeyondFloatIsFound) {
  const auto with = [&](double big, auto x, DLDataType type, const char* check) {
    auto out = x;
    found = false;
    check_finite_and_unscale({{&x, type, {1}}}, Tensor(&big, {}), {{&out, type, {1}}},
                             Tensor(&found, {}), {.check = check}, execution());
    return out;
  };
  for (const char* check : {"output", "input"}) {
    for (double big : {1e45, 3e38, 0x1p150, 0x1p300, double{kInf}}) {
      EXPECT_TRUE(std::isnan(with(big, 1e38f, kFloat32, check))) << big;
      EXPECT_TRUE(found) << big << check;
      EXPECT_EQ(with(big, std::uint16_t{0x4800}, kFloat16, check), 0x7fff) << big;
      EXPECT_TRUE(found) << big << check;
      EXPECT_EQ(with(big, std::uint16_t{0x4100}, kBfloat16, check), 0x7fff) << big;
      EXPECT_TRUE(found) << big << check;
    }
    EXPECT_EQ(with(0x1p149, 0x1p100f, kFloat32, check), 0x1p-49f);
    EXPECT_FALSE(found) << check;
    EXPECT_EQ(with(1e45, 3.0, kFloat64, check), 3.0 * (1 / 1e45));
    EXPECT_FALSE(found) << check;
    EXPECT_TRUE(std::isnan(with(kInf, 3.0, kFloat64, check)));
    EXPECT_TRUE(found) << check;
  }
  scale = kInf;
  EXPECT_TRUE(std::isnan(one(1)));
  EXPECT_TRUE(found);
}

TEST_P(Unscale, Float16) {
  EXPECT_EQ(half(kFloat16, 0x4800), 0x4000);  // 8 -> 2
  EXPECT_EQ(half(kFloat16, 0x0001), 0x0000);  // 2^-24 / 4
  EXPECT_EQ(half(kFloat16, 0x0003), 0x0001);  // 3/4 of the least subnormal
  EXPECT_EQ(half(kFloat16, 0x0006), 0x0002);  // 1.5 of it: to even
  EXPECT_EQ(half(kFloat16, 0x8006), 0x8002);
  EXPECT_FALSE(found);
  scale = 0.5f;
  EXPECT_EQ(half(kFloat16, 0x7bff), 0x7c00);  // 65504 * 2
  EXPECT_TRUE(found);
  EXPECT_EQ(half(kFloat16, 0x77ff), 0x7bff);  // 32752 * 2 = 65504
  EXPECT_FALSE(found);
}

TEST_P(Unscale, Bfloat16) {
  EXPECT_EQ(half(kBfloat16, 0x4100), 0x4000);  // 8 -> 2
  scale = 3;
  EXPECT_EQ(half(kBfloat16, 0x3f80), 0x3eab);  // 1/3, rounded
  scale = 0.5f;
  EXPECT_EQ(half(kBfloat16, 0xff7f), 0xff80);
  EXPECT_TRUE(found);
}

// A NaN's bits may be such that rounding them to 16 bits would carry into the sign and leave a
// zero.
TEST_P(Unscale, AScaleThatIsAnyNaN) {
  for (const std::uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
    scale = bit_cast<float>(bits);
    for (const std::size_t n : {std::size_t{3}, std::size_t{5000}}) {
      std::vector<std::uint16_t> x(n, 0x3f80), out(n, 0xcaca);
      const auto length = static_cast<std::int64_t>(n);
      found = false;
      run({{x.data(), kBfloat16, {length}}}, {{out.data(), kBfloat16, {length}}});
      EXPECT_EQ(out, std::vector<std::uint16_t>(n, 0x7fff)) << bits;
      EXPECT_TRUE(found) << bits;
    }
  }
}

TEST_P(Unscale, Doubles) {
  double x = 1, out = -1;
  scale = 3;
  run({{&x, {}}}, {{&out, {}}});
  EXPECT_EQ(out, 1.0 / 3.0) << "the inverse stays a double";
  double wide_scale = 1e300;
  x = 1e-10;
  check_finite_and_unscale({{&x, {}}}, {&wide_scale, {}}, {{&out, {}}}, {&found, {}}, {},
                           execution());
  EXPECT_EQ(out, 1e-10 * (1.0 / 1e300));
  EXPECT_NE(out, 0) << "subnormals are kept";
  EXPECT_FALSE(found);
}

TEST_P(Unscale, StoresOneNan) {
  for (std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu, 0xffc12345u}) {
    float x, out = one((std::memcpy(&x, &bits, 4), x));
    std::uint32_t stored;
    std::memcpy(&stored, &out, 4);
    EXPECT_EQ(stored, 0x7fffffffu);
    EXPECT_TRUE(found);
  }
  EXPECT_EQ(half(kFloat16, 0xfe01), 0x7fff);
  EXPECT_EQ(half(kBfloat16, 0xffc1), 0x7fff);
  std::uint64_t x = 0xfff8000000000001, out = 0;
  run({{&x, kFloat64, {}}}, {{&out, kFloat64, {}}});
  EXPECT_EQ(out, 0x7fffffffffffffffu);
  scale = kInf;  // inf * 0
  EXPECT_TRUE(std::isnan(one(kInf)));
}

// Every float16 and bfloat16, in whole blocks of vectors and in vectors that are left over. Times
// 1.5, half of the odd ones are ties.
TEST_P(Unscale, EveryHalf) {
  std::vector<float> inverses = {1.5f, 1.0f, 0x1p-10f, 0x1p+96f, 0x1p-120f, 0.0f, kInf};
  for (int k = 0; k < 30; ++k) inverses.push_back(std::ldexp(1.0f + 0.0327f * k, 7 * k - 100));
  // A NaN that is stored as it comes is rounded with all bits that it has.
  for (const std::uint32_t nan : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0xff812345u})
    inverses.push_back(std::bit_cast<float>(nan));
  const auto every = [&]<class Half>(Half, DLDataType type) {
    std::vector<Half> x(65536), out(65536);
    Tensors one = {{x.data(), type, {65536}}}, one_out = {{out.data(), type, {65536}}};
    Tensors many, many_out;
    for (std::uint32_t bits = 0; bits < 65536; ++bits)
      x[bits].bits = static_cast<std::uint16_t>(bits);
    for (int i = 0; i < 65536; i += 16) {  // backwards, or they would be one
      many.push_back({x.data() + 65520 - i, type, {16}});
      many_out.push_back({out.data() + 65520 - i, type, {16}});
    }
    for (const float by : inverses) {
      scale = 1 / by;
      const auto inverse = std::isinf(scale) ? kNan : static_cast<float>(1.0 / scale);
      for (const bool whole : {true, false}) {
        run(whole ? one : many, whole ? one_out : many_out);
        for (std::size_t i = 0; i < 65536; ++i)
          ASSERT_EQ(out[i].bits, narrow<Half>(widen(x[i]) * inverse).bits) << i << " / " << scale;
      }
    }
  };
  every(float16{}, kFloat16);
  every(bfloat16{}, kBfloat16);
}

TEST_P(Unscale, ChecksWhatIsStored) {
  one(kInf);
  EXPECT_TRUE(found);
  one(-kInf);
  EXPECT_TRUE(found);
  one(kNan);
  EXPECT_TRUE(found);
  one(kMax);
  EXPECT_FALSE(found);
  scale = 0.5f;
  EXPECT_EQ(one(kMax), kInf);
  EXPECT_TRUE(found) << "it overflowed";
  scale = kInf;
  EXPECT_TRUE(std::isnan(one(kMax)));
  EXPECT_TRUE(found) << "0 would have been lost in silence";
  scale = 0;
  EXPECT_EQ(one(1), kInf);
  EXPECT_TRUE(found);
  EXPECT_TRUE(std::isnan(one(0)));
  EXPECT_TRUE(found);
}

TEST_P(Unscale, ChecksWhatIsRead) {
  const CheckFiniteAndUnscaleOptions input{.check = "input"};
  one(kInf, input);
  EXPECT_TRUE(found);
  one(kNan, input);
  EXPECT_TRUE(found);
  scale = 0.5f;
  EXPECT_EQ(one(kMax, input), kInf);
  EXPECT_FALSE(found) << "it overflowed, but what was read was finite";
  EXPECT_EQ(half(kFloat16, 0x7bff, input), 0x7c00);
  EXPECT_FALSE(found);
  EXPECT_EQ(half(kFloat16, 0x7c00, input), 0x7c00);
  EXPECT_TRUE(found);
  // In whole blocks, and in what is left of them: 200 values that overflow, but one that is read
  // so.
  const auto in = [&]<class T>(T greatest, T infinity, DLDataType type) {
    for (const int at : {-1, 0, 63, 130, 199}) {
      std::vector<T> x(200, greatest);
      if (at >= 0) x[at] = infinity;
      found = false;
      run({{x.data(), type, {200}}}, {{x.data(), type, {200}}}, input);
      EXPECT_EQ(found, at >= 0) << at;
      EXPECT_EQ(x, std::vector<T>(200, infinity));
    }
  };
  in(kMax, kInf, kFloat32);
  in(std::numeric_limits<double>::max(), std::numeric_limits<double>::infinity(), kFloat64);
  in(std::uint16_t{0x7bff}, std::uint16_t{0x7c00}, kFloat16);
  in(std::uint16_t{0x7f7f}, std::uint16_t{0x7f80}, kBfloat16);
}

TEST_P(Unscale, FoundIsSetNeverCleared) {
  float x = 1, out = 0;
  found = true;
  run({{&x, {}}}, {{&out, {}}});
  EXPECT_TRUE(found);
  run({{&x, {}}}, {{&out, {}}}, {.reset = true});
  EXPECT_FALSE(found);
  x = kInf;
  run({{&x, {}}}, {{&out, {}}}, {.reset = true});
  EXPECT_TRUE(found);
}

TEST_P(Unscale, FlagsOfEveryType) {
  std::uint8_t byte = 0;
  float number = 0;
  const auto with = [&](float x, const Tensor& flag, bool reset) {
    float out;
    check_finite_and_unscale({{&x, {}}}, {&scale, {}}, {{&out, {}}}, flag, {.reset = reset},
                             execution());
  };
  with(1, {&byte, {}}, false);
  with(1, {&number, {}}, false);
  EXPECT_EQ(byte, 0);
  EXPECT_EQ(number, 0.0f);
  with(kInf, {&byte, {}}, false);
  with(kInf, {&number, {}}, false);
  EXPECT_EQ(byte, 1);
  EXPECT_EQ(number, 1.0f);
  with(1, {&byte, {}}, true);
  with(1, {&number, {}}, true);
  EXPECT_EQ(byte, 0);
  EXPECT_EQ(number, 0.0f);
}

TEST_P(Unscale, AListOfNothing) {
  run({}, {});
  EXPECT_FALSE(found);
  found = true;
  float x = kInf, out = 5;
  run({{&x, {0}}, {&x, {3, 0, 2}}}, {{&out, {0}}, {&out, {3, 0, 2}}});
  EXPECT_TRUE(found);
  EXPECT_EQ(out, 5);
  run({}, {}, {.reset = true});
  EXPECT_FALSE(found);
}

TEST_P(Unscale, AListThatMixesTypesAndLayouts) {
  std::vector<float> a = {4, 8, kInf, 12, 16, 20}, a_out(6, -1);
  std::uint16_t h[2] = {0x4400, 0x4800};
  double d = 4;
  run({{a.data(), {2, 2}, kHost, {3, 1}}, {h, kFloat16, {2}}, {&d, {1, 1}}},
      {{a_out.data(), {2, 2}, kHost, {1, 2}}, {h, kFloat16, {2}}, {&d, {1, 1}}});
  EXPECT_EQ(a_out, (std::vector<float>{1, 3, 2, 4, -1, -1}));
  EXPECT_EQ(h[0], 0x3c00);
  EXPECT_EQ(h[1], 0x4000);
  EXPECT_EQ(d, 1);
  EXPECT_FALSE(found) << "the infinity lies between the strides";
}

TEST_P(Unscale, EverythingIsWrittenWhateverIsFound) {
  std::vector<float> x(5000, 8);
  x[3] = kNan;
  run({{x.data(), {5000}}}, {{x.data(), {5000}}});
  EXPECT_TRUE(found);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(i == 3 || x[i] == 2) << i;
}

TEST_P(Unscale, ANonFiniteValueAnywhereIsFound) {
  const auto in = [&]<class T>(std::vector<T> eight,
                               std::initializer_list<std::type_identity_t<T>> values,
                               DLDataType type) {  // infinities of both signs, a NaN
    const auto n = static_cast<std::int64_t>(eight.size());
    for (std::int64_t at = -1; at < n; ++at) {
      std::vector<T> x = eight;
      if (at >= 0) x[at] = values.begin()[at % 3];
      found = false;
      run({{x.data(), type, {n}}}, {{x.data(), type, {n}}});
      ASSERT_EQ(found, at >= 0) << at << " of " << n;
    }
  };
  for (const std::size_t n :
       {1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1100, 4200}) {
    in(std::vector<float>(n, 8), {kInf, -kInf, kNan}, kFloat32);
    in(std::vector<double>(n, 8), {kInf, -kInf, kNan}, kFloat64);
    in(std::vector<std::uint16_t>(n, 0x4800), {0x7c00, 0xfc00, 0x7e00}, kFloat16);
    in(std::vector<std::uint16_t>(n, 0x4100), {0x7f80, 0xff80, 0x7fc0}, kBfloat16);
  }
}

// A half overflows long before the float that it is made of, which a sum of many must not hide, nor
// must many that are huge be taken for one that overflows.
TEST_P(Unscale, AValueThatJustOverflowsIsFound) {
  for (const float greatest : {65519.0f, 65521.0f, 70000.0f, 92000.0f}) {
    scale = 65504 / greatest;
    for (const std::uint16_t others : {0x3c00, 0x7800}) {  // 1 and 32768
      for (const std::int64_t n : {64, 1100}) {
        for (std::int64_t at = 0; at < n; at += 7) {
          std::vector<std::uint16_t> x(n, others);
          x[at] = at % 2 == 0 ? 0x7bff : 0xfbff;
          found = false;
          run({{x.data(), kFloat16, {n}}}, {{x.data(), kFloat16, {n}}});
          ASSERT_EQ(found, greatest > 65520) << greatest << " at " << at << " of " << n;
        }
      }
    }
  }
}

// Members that fill a buffer, but not in their order.
TEST_P(Unscale, AShuffledBuffer) {
  std::vector<float> x(400), out(400);
  for (int i = 0; i < 400; ++i) x[i] = static_cast<float>(i);
  const auto list = [](float* data, std::initializer_list<int> order) {
    Tensors members;
    for (const int i : order) members.push_back({data + 100 * i, {100}});
    return members;
  };
  run(list(x.data(), {0, 2, 1, 3}), list(out.data(), {0, 1, 2, 3}));
  for (int i = 0; i < 400; ++i) {
    const int from = i / 100 == 1 ? i + 100 : i / 100 == 2 ? i - 100 : i;
    ASSERT_EQ(out[i], static_cast<float>(from) / 4) << i;
  }
}

// Also by the last of many threads, and between the strides of a member that is gathered.
TEST_P(Unscale, ANonFiniteValueIsFoundByEveryThread) {
  constexpr std::int64_t kMany = 300000;
  std::vector<float> x(2 * kMany, 8);
  Execution threads = execution();
  threads.threads = 7;
  for (const std::int64_t stride : {1, 2}) {
    const Tensors list = {{x.data(), {kMany}, kHost, {stride}}};
    for (std::int64_t at = 5; at < kMany; at += kMany / 20) {
      for (const float value : {kInf, 8.0f}) {
        x[static_cast<std::size_t>(at * stride)] = value;
        found = false;
        check_finite_and_unscale(list, {&scale, {}}, list, {&found, {}}, {}, threads);
        ASSERT_EQ(found, value == kInf) << at << ", stride " << stride;
      }
      std::fill(x.begin(), x.end(), 8.0f);
    }
  }
}

TEST(UnscaleRefusal, MoreAxesThanAnyoneNeeds) {
  // 17 axes of two, none of which merges with its neighbour.
  std::vector<std::int64_t> shape(17, 2), strides(17);
  std::int64_t stride = 1;
  for (int i = 16; i >= 0; --i) strides[i] = stride, stride = 2 * stride + 1;
  std::vector<float> x(static_cast<std::size_t>(stride), 1);
  float scale = 2;  // which would change every element
  bool found = false;
  const Tensor view(x.data(), shape, kHost, strides);
  try {
    check_finite_and_unscale({view}, {&scale, {}}, {view}, {&found, {}});
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "check_finite_and_unscale: out[0]: its strides need more than 16 axes");
  }
  EXPECT_EQ(x, std::vector<float>(x.size(), 1)) << "something was written";
}

}  // namespace
}  // namespace twinops::test
