// That the C ABI's numbers and layouts stay what version 1 promised; its type names and memory; and
// the typed C++ wrapper over it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "twinops/twinops.hpp"

// Sanitizers end a program that asks for more memory than there is, where malloc returns NULL.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
#endif

namespace twinops::test {
namespace {

// A change of any line here is a new TWINOPS_ABI_VERSION.
TEST(Abi, NumbersStay) {
  EXPECT_EQ(TWINOPS_ABI_VERSION, 1);
  EXPECT_EQ(twinops_abi_version(), TWINOPS_ABI_VERSION);
  EXPECT_EQ(TWINOPS_OK, 0);
  EXPECT_EQ(TWINOPS_INVALID_ARGUMENT, 1);
  EXPECT_EQ(TWINOPS_UNSUPPORTED, 2);
  EXPECT_EQ(TWINOPS_DEVICE_ERROR, 3);
  EXPECT_EQ(TWINOPS_OUT_OF_MEMORY, 4);
  EXPECT_EQ(TWINOPS_INTERNAL, 5);
  EXPECT_EQ(TWINOPS_BOOL, 0);
  EXPECT_EQ(TWINOPS_INT, 1);
  EXPECT_EQ(TWINOPS_FLOAT, 2);
  EXPECT_EQ(TWINOPS_STRING, 3);
}

template <class S>
constexpr std::size_t begins_with_its_size() {
  return offsetof(S, struct_size);
}
TEST(Abi, LayoutsStay) {
  static_assert(sizeof(void*) == 8);
  EXPECT_EQ(sizeof(twinops_attribute), 40u);
  EXPECT_EQ(offsetof(twinops_attribute, name), 8u);
  EXPECT_EQ(offsetof(twinops_attribute, string_value), 32u);
  EXPECT_EQ(sizeof(twinops_argument_info), 48u);
  EXPECT_EQ(sizeof(twinops_attribute_info), 64u);
  EXPECT_EQ(sizeof(twinops_operator_info), 56u);
  EXPECT_EQ(sizeof(twinops_row), 24u);
  EXPECT_EQ(sizeof(twinops_device), 32u);
  EXPECT_EQ(sizeof(twinops_argument), 32u);
  EXPECT_EQ(offsetof(twinops_argument, tensors), 16u);
  EXPECT_EQ(sizeof(twinops_report), 32u);
  EXPECT_EQ(offsetof(twinops_report, random_words), 24u);
  EXPECT_EQ(sizeof(twinops_execution), 72u);
  EXPECT_EQ(offsetof(twinops_execution, parallel_for), 24u);
  EXPECT_EQ(offsetof(twinops_execution, report), 64u);
  EXPECT_EQ(begins_with_its_size<twinops_attribute>(), 0u);
  EXPECT_EQ(begins_with_its_size<twinops_argument>(), 0u);
  EXPECT_EQ(begins_with_its_size<twinops_execution>(), 0u);
  EXPECT_EQ(begins_with_its_size<twinops_report>(), 0u);
}

TEST(Version, IsThreeNumbers) {
  int major = -1, minor = -1, patch = -1, end = 0;
  ASSERT_EQ(std::sscanf(twinops_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
  EXPECT_EQ(twinops_version()[end], '\0');
}

TEST(Types, HaveNames) {
  EXPECT_STREQ(twinops_type_name(kFloat16), "float16");
  EXPECT_STREQ(twinops_type_name(kBfloat16), "bfloat16");
  EXPECT_STREQ(twinops_type_name(kFloat32), "float32");
  EXPECT_STREQ(twinops_type_name(kFloat64), "float64");
  EXPECT_STREQ(twinops_type_name(kBool), "bool");
  EXPECT_STREQ(twinops_type_name(kUint8), "uint8");
  EXPECT_STREQ(twinops_type_name(kInt32), "int32");
  EXPECT_STREQ(twinops_type_name(kUint32), "uint32");
  EXPECT_STREQ(twinops_type_name(kInt64), "int64");
  EXPECT_STREQ(twinops_type_name(kUint64), "uint64");
  EXPECT_STREQ(twinops_type_name({kDLInt, 16, 1}), "unknown");
  EXPECT_STREQ(twinops_type_name({kDLFloat, 32, 2}), "unknown");
  EXPECT_STREQ(twinops_type_name({255, 255, 65535}), "unknown");
}

TEST(Memory, OfTheHost) {
  void* memory = nullptr;
  ASSERT_EQ(twinops_allocate(kHost, 1000, &memory), TWINOPS_OK);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
  const char text[] = "twins";
  EXPECT_EQ(twinops_copy(kHost, memory, kHost, text, sizeof(text)), TWINOPS_OK);
  EXPECT_STREQ(static_cast<char*>(memory), text);
  EXPECT_EQ(twinops_copy(kHost, nullptr, kHost, nullptr, 0), TWINOPS_OK);
  EXPECT_EQ(twinops_synchronize(kHost), TWINOPS_OK);
  EXPECT_EQ(twinops_release(kHost, memory), TWINOPS_OK);
  EXPECT_EQ(twinops_release(kHost, nullptr), TWINOPS_OK);
}

TEST(Memory, Refusals) {
  void* memory = &memory;
  EXPECT_EQ(twinops_allocate(kHost, 8, nullptr), TWINOPS_INVALID_ARGUMENT);
  EXPECT_STREQ(twinops_last_error(), "twinops_allocate: the place for the memory is NULL");
  EXPECT_EQ(twinops_allocate(kHost, std::size_t{1} << 62, &memory), TWINOPS_OUT_OF_MEMORY);
  EXPECT_STREQ(twinops_last_error(), "no 4611686018427387904 bytes of host memory");
  // The C++ library rounds a size up to the alignment, and these to 0.
  for (std::size_t less = 0; less < 64; ++less)
    EXPECT_EQ(twinops_allocate(kHost, SIZE_MAX - less, &memory), TWINOPS_OUT_OF_MEMORY) << less;
  EXPECT_EQ(memory, &memory) << "a refused call wrote";
  EXPECT_EQ(twinops_allocate({kDLVulkan, 0}, 8, &memory), TWINOPS_INVALID_ARGUMENT);
  const twinops_status status = twinops_allocate({kDLCUDA, 99}, 8, &memory);
  EXPECT_TRUE(status == TWINOPS_DEVICE_ERROR || status == TWINOPS_UNSUPPORTED);
  EXPECT_STRNE(twinops_last_error(), "");
}

TEST(Wrapper, CallsByName) {
  std::vector<float> x = {2, 4, 8}, out(3);
  float scale = 4;
  bool found = false;
  const std::vector<std::int64_t> shape = {3};
  const Report report = Call("check_finite_and_unscale")
                            .argument("x", Tensor(x.data(), shape))
                            .argument("scale", Tensor(&scale, {}))
                            .argument("out", Tensor(out.data(), shape))
                            .argument("found_inf", Tensor(&found, {}))
                            .attribute("check", "input")
                            .run({.row = "cpu/scalar"});
  EXPECT_EQ(out, (std::vector<float>{0.5f, 1, 2}));
  EXPECT_EQ(report.row, "cpu/scalar");
}

// long and long long are one size and two types, of which std::int64_t is one.
static_assert(type_of<long long>().code == kDLInt && type_of<long long>().bits == 64);
static_assert(type_of<long>().code == kDLInt && type_of<long>().bits == 64);
static_assert(type_of<unsigned long long>().code == kDLUInt);
static_assert(type_of<unsigned long long>().bits == 64);

TEST(Wrapper, ThrowsWhatTheLibrarySays) {
  try {
    Call("nothing").run();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.status, TWINOPS_INVALID_ARGUMENT);
    EXPECT_TRUE(std::string_view(error.what()).starts_with("no operator is named 'nothing'; "))
        << error.what();
  }
  float value = 0;
  EXPECT_THROW(Tensor(&value, {1, 1}, kHost, {1}), Error);
  EXPECT_THROW(softmax({&value, {1}}, {&value, {1}}, {.masked_rows = nullptr}), Error);
}

TEST(Wrapper, TakesConstantsAsInputsAlone) {
  const float x[] = {0, 0};
  float y[] = {1, 1};
  softmax({x, {2}}, {y, {2}});
  EXPECT_EQ(y[0], 0.5f);
  try {
    softmax({y, {2}}, {x, {2}});
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "softmax: out: is an output, and constant");
  }
}

TEST(Wrapper, TakesAttributesOfEveryNumber) {
  const auto words = [](auto seed) {
    std::uint32_t w[4] = {};
    Call("philox_words").argument("words", Tensor(w, {4})).attribute("seed", seed).run();
    return std::vector<std::uint32_t>(w, w + 4);
  };
  const auto expected = words(std::int64_t{7});
  EXPECT_EQ(words(7), expected);
  EXPECT_EQ(words(7u), expected);
  EXPECT_EQ(words(7ull), expected);
  EXPECT_EQ(words(short{7}), expected);
  EXPECT_EQ(words(~std::uint64_t{0}), words(-1));
  float x = 0, y = 1;
  Call("softmax")
      .argument("x", Tensor(&x, {1}))
      .argument("out", Tensor(&y, {1}))
      .attribute("scale", 2.0f)
      .attribute("masked_rows", std::string("zeros"))
      .run();
  EXPECT_EQ(y, 1);
}

}  // namespace
}  // namespace twinops::test
