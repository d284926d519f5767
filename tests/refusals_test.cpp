// Every refusal that any operator makes: bad input gets a clear message and writes nothing. What
// one operator refuses for itself stands in <operator>_test.cpp, overlaps in overlap_test.cpp.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/support/example_call.hpp"

namespace twinops::test {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr auto kLastWord = std::numeric_limits<std::uintptr_t>::max() - 3;  // of four bytes

void set_device_type(View& view, std::int32_t type) {  // no value of the enumeration
  std::memcpy(&view.tensor.device.device_type, &type, sizeof(type));
}

struct Case {
  const char* name;
  std::function<void(Example&)> spoil;
  std::string message;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case>& cases() {
  static const std::string kOp = "check_finite_and_unscale: ";
  static const std::vector<Case> all = {
      // The call.
      {"OperatorNull", [](Example& e) { e.call.op = nullptr; },
       "no operator is named 'NULL'; the operators are " + operator_names()},
      {"OperatorUnknown", [](Example& e) { e.call.op = "unscale"; },
       "no operator is named 'unscale'; the operators are " + operator_names()},
      {"OperatorEmpty", [](Example& e) { e.call.op = ""; },
       "no operator is named ''; the operators are " + operator_names()},
      {"ExecutionSizeUnset", [](Example& e) { e.call.execution.struct_size = 0; },
       kOp + "execution: struct_size is not set"},
      {"ExecutionSizeBelowItself", [](Example& e) { e.call.execution.struct_size = 3; },
       kOp + "execution: struct_size is not set"},
      {"ExecutionSizeNotAMultiple", [](Example& e) { e.call.execution.struct_size -= 4; },
       kOp + "execution: struct_size is not a multiple of 8"},
      {"ReportSizeUnset", [](Example& e) { e.call.report.struct_size = 0; },
       kOp + "execution: report: struct_size is not set"},
      {"ThreadsNegative", [](Example& e) { e.call.execution.threads = -1; },
       kOp + "execution: threads is negative"},
      {"RowUnknown", [](Example& e) { e.call.execution.row = "cpu/mmx"; },
       "execution: no kernel row is named 'cpu/mmx'; the rows are " + row_names()},

      // Arguments.
      {"ArgumentSizeUnset", [](Example& e) { e.call.arguments[1].struct_size = 0; },
       kOp + "argument 1: struct_size is not set"},
      {"ArgumentSizeNotAMultiple", [](Example& e) { e.call.arguments[1].struct_size -= 4; },
       kOp + "argument 1: struct_size is not a multiple of 8"},
      {"ArgumentNameNull", [](Example& e) { e.call.arguments[1].name = nullptr; },
       kOp + "an argument's name is NULL"},
      {"ArgumentUnknown", [](Example& e) { e.call.arguments[1].name = "y"; },
       kOp + "no argument is named 'y'; its arguments are x, scale, out, found_inf"},
      {"ArgumentTwice", [](Example& e) { e.call.arguments.push_back(e.call.arguments[0]); },
       kOp + "x: is given twice"},
      {"TensorTwice", [](Example& e) { e.call.arguments.push_back(e.call.arguments[1]); },
       kOp + "scale: is given twice"},
      {"TensorsNull", [](Example& e) { e.call.argument("out").tensors = nullptr; },
       kOp + "out: its array of tensors is NULL"},
      {"TensorNull", [](Example& e) { e.call.lists[0][1] = nullptr; }, kOp + "x[1]: is NULL"},
      {"OneTensorNull", [](Example& e) { e.call.lists[1][0] = nullptr; }, kOp + "scale: is NULL"},
      {"TwoForOne",
       [](Example& e) {
         e.call.lists[1].push_back(&e.x0.tensor);
         e.call.argument("scale").tensors = e.call.lists[1].data();
         e.call.argument("scale").count = 2;
       },
       kOp + "scale: expected one tensor; got 2"},
      {"NoneForOne", [](Example& e) { e.call.argument("scale").count = 0; },
       kOp + "scale: is required, but was not given"},
      {"ListMissing", [](Example& e) { e.call.remove("x"); },
       kOp + "x: is required, but was not given"},
      {"OutputMissing", [](Example& e) { e.call.remove("found_inf"); },
       kOp + "found_inf: is required, but was not given"},
      {"NoArguments", [](Example& e) { e.call.arguments.clear(); },
       kOp + "x: is required, but was not given"},

      // Attributes.
      {"AttributeSizeUnset",
       [](Example& e) {
         e.call.set("reset", true);
         e.call.attributes[0].struct_size = 0;
       },
       kOp + "attribute 0: struct_size is not set"},
      {"AttributeSizeNotAMultiple",
       [](Example& e) {
         e.call.set("reset", true);
         e.call.set("check", "input");
         e.call.attributes[0].struct_size -= 1;
       },
       kOp + "attribute 0: struct_size is not a multiple of 8"},
      {"AttributeNameNull", [](Example& e) { e.call.set(nullptr, true); },
       kOp + "an attribute's name is NULL"},
      {"AttributeUnknown", [](Example& e) { e.call.set("clear", true); },
       kOp + "no attribute is named 'clear'; its attributes are check, reset"},
      {"AttributeTwice",
       [](Example& e) {
         e.call.set("reset", true);
         e.call.set("reset", true);
       },
       kOp + "reset: is given twice"},
      {"AttributeKindUnknown",
       [](Example& e) {
         e.call.set("reset", true);
         e.call.attributes[0].kind = 4;
       },
       kOp + "attribute 0: unknown kind 4"},
      {"AttributeKindNegative",
       [](Example& e) {
         e.call.set("reset", true);
         e.call.attributes[0].kind = -1;
       },
       kOp + "attribute 0: unknown kind -1"},
      {"IntForBool", [](Example& e) { e.call.set("reset", 1); },
       kOp + "reset: expected a bool; got an int"},
      {"FloatForBool", [](Example& e) { e.call.set("reset", 1.0); },
       kOp + "reset: expected a bool; got a float"},
      {"BoolForString", [](Example& e) { e.call.set("check", true); },
       kOp + "check: expected a string; got a bool"},
      {"StringForBool", [](Example& e) { e.call.set("reset", "true"); },
       kOp + "reset: expected a bool; got a string"},
      {"StringNull", [](Example& e) { e.call.set("check", static_cast<const char*>(nullptr)); },
       kOp + "check: is NULL"},
      {"NotAChoice", [](Example& e) { e.call.set("check", "outputs"); },
       kOp + "check: expected one of output|input; got 'outputs'"},
      {"PartOfAChoice", [](Example& e) { e.call.set("check", "out"); },
       kOp + "check: expected one of output|input; got 'out'"},
      {"BothChoices", [](Example& e) { e.call.set("check", "output|input"); },
       kOp + "check: expected one of output|input; got 'output|input'"},
      {"EmptyChoice", [](Example& e) { e.call.set("check", ""); },
       kOp + "check: expected one of output|input; got ''"},

      // Tensors.
      {"RankNegative", [](Example& e) { e.x1.tensor.ndim = -1; },
       kOp + "x[1]: has a negative number of dimensions"},
      {"ShapeNull", [](Example& e) { e.x1.tensor.shape = nullptr; },
       kOp + "x[1]: its shape is NULL"},
      {"DimensionNegative",
       [](Example& e) {
         e.x1.reshape({2, -3});
       },
       kOp + "x[1]: dimension 1 is negative: -3"},
      {"DimensionNegativeOfAnEmptyTensor",
       [](Example& e) {
         e.x1.reshape({0, -3});
       },
       kOp + "x[1]: dimension 1 is negative: -3"},
      {"TwoDimensionsNegative",
       [](Example& e) {
         e.x1.reshape({-2, -3});
       },
       kOp + "x[1]: dimension 0 is negative: -2"},
      {"ElementsBeyond64Bits",
       [](Example& e) {
         e.x1.reshape({std::int64_t{1} << 32, std::int64_t{1} << 31});
       },
       kOp + "x[1]: its size in bytes does not fit 64 bits"},
      {"ElementsWrapToFew",
       [](Example& e) {
         e.x1.reshape({std::int64_t{1} << 32, std::int64_t{1} << 32, 6});
       },
       kOp + "x[1]: its size in bytes does not fit 64 bits"},
      {"ElementsOfAListBeyond64Bits",
       [](Example& e) {
         e.x1.tensor.dtype = kF16;
         e.x1.reshape({std::int64_t{1} << 61}, {0});
         e.call.replace("x", {4, &e.x1.tensor});
       },
       kOp + "x[3]: with those before it, it has more elements than 64 bits count"},
      {"BytesBeyond64Bits", [](Example& e) { e.x1.reshape({std::int64_t{1} << 61}); },
       kOp + "x[1]: its size in bytes does not fit 64 bits"},
      {"TypeInt", [](Example& e) { e.x1.tensor.dtype = kI32; },
       kOp + "x[1]: expected float16, bfloat16, float32, float64; got int32"},
      {"TypeOfScale", [](Example& e) { e.scale_view.tensor.dtype = kF16; },
       kOp + "scale: expected float32, float64; got float16"},
      {"TypeOfFlag", [](Example& e) { e.found_inf.tensor.dtype = kI32; },
       kOp + "found_inf: expected float32, bool, uint8; got int32"},
      {"TypeUnknown",
       [](Example& e) {
         e.x1.tensor.dtype = {17, 128, 1};
       },
       kOp + "x[1]: expected float16, bfloat16, float32, float64; got code 17, 128 bits"},
      {"TypeOfLanes", [](Example& e) { e.x1.tensor.dtype.lanes = 4; },
       kOp + "x[1]: expected float16, bfloat16, float32, float64; got float32 (4 lanes)"},
      {"TypeOfNoLanes", [](Example& e) { e.x1.tensor.dtype.lanes = 0; },
       kOp + "x[1]: expected float16, bfloat16, float32, float64; got float32 (0 lanes)"},
      {"DeviceUnknown", [](Example& e) { e.x1.tensor.device.device_type = kDLVulkan; },
       kOp + "x[1]: expected memory of the CPU or of a CUDA device; got DLPack device type 7"},
      {"DeviceBeyondTheEnumeration", [](Example& e) { set_device_type(e.x1, 4711); },
       kOp + "x[1]: expected memory of the CPU or of a CUDA device; got DLPack device type 4711"},
      {"DeviceNegative", [](Example& e) { set_device_type(e.x1, -2); },
       kOp + "x[1]: expected memory of the CPU or of a CUDA device; got DLPack device type -2"},
      {"DevicesMixed",
       [](Example& e) {
         e.out0.tensor.device = {kDLCUDA, 0};
       },
       kOp + "out[0]: is on cuda:0, but " + kOp + "x[0] is on cpu"},
      {"FlagOnAnotherDevice",
       [](Example& e) {
         e.found_inf.tensor.device = {kDLCUDA, 1};
       },
       kOp + "found_inf: is on cuda:1, but " + kOp + "x[0] is on cpu"},
      {"DataNull", [](Example& e) { e.x1.tensor.data = nullptr; },
       kOp + "x[1]: its data is NULL, but it has elements"},
      {"DataNullWithAnOffset",
       [](Example& e) {
         e.out1.tensor.data = nullptr;
         e.out1.tensor.byte_offset = 64;
       },
       kOp + "out[1]: its data is NULL, but it has elements"},
      {"Misaligned",
       [](Example& e) { e.x1.tensor.data = static_cast<char*>(e.x1.tensor.data) + 2; },
       kOp + "x[1]: its data is not aligned to its element, 4 bytes"},
      {"MisalignedByItsOffset", [](Example& e) { e.out1.tensor.byte_offset = 1; },
       kOp + "out[1]: its data is not aligned to its element, 4 bytes"},
      {"OffsetAroundTheEnd", [](Example& e) { e.x1.tensor.byte_offset = kLastWord; },
       kOp + "x[1]: its byte_offset leads around the end of the address space"},
      {"OffsetAroundTheEndOfAnOutput",
       [](Example& e) { e.found_inf.tensor.byte_offset = kLastWord; },
       kOp + "found_inf: its byte_offset leads around the end of the address space"},
      {"AroundTheEnd",
       [](Example& e) { e.x1.tensor.data = reinterpret_cast<void*>(kLastWord - 16); },
       kOp + "x[1]: it reaches around the end of the address space"},
      {"AroundTheEndByStrides",
       [](Example& e) {
         e.x1.tensor.data = reinterpret_cast<void*>(kLastWord - 32);
         e.x1.reshape({2, 3}, {8, 1});
       },
       kOp + "x[1]: it reaches around the end of the address space"},
      {"BelowTheBeginning",
       [](Example& e) {
         e.x1.tensor.data = reinterpret_cast<void*>(std::uintptr_t{16});
         e.x1.reshape({2, 3}, {3, -3});
       },
       kOp + "x[1]: it reaches around the end of the address space"},
      {"StrideDoesNotFit",
       [](Example& e) {
         e.x1.reshape({2, 3}, {kLeast, 1});
       },
       kOp + "x[1]: a stride does not fit"},
      {"StridesReachTooFar",
       [](Example& e) {
         e.x1.reshape({2, 3}, {std::int64_t{1} << 61, 1});
       },
       kOp + "x[1]: its strides reach further than 64 bits of bytes"},
      {"StridesReachTooFarTogether",
       [](Example& e) {
         e.x1.reshape({3, 3}, {std::int64_t{1} << 57, std::int64_t{1} << 57});
       },
       kOp + "x[1]: its strides reach further than 64 bits of bytes"},

      // Lists and scalars.
      {"ListsOfDifferentLength", [](Example& e) { e.call.argument("out").count = 1; },
       kOp + "out: expected as many tensors as x, 2; got 1"},
      {"MembersOfDifferentType", [](Example& e) { e.out1.tensor.dtype = kF64; },
       kOp + "out[1]: expected the type of its input, float32; got float64"},
      {"MembersOfDifferentShape",
       [](Example& e) {
         e.out1.reshape({3, 2});
       },
       kOp + "out[1]: expected the shape of its input, [2, 3]; got [3, 2]"},
      {"MembersOfDifferentRank", [](Example& e) { e.out1.reshape({6}); },
       kOp + "out[1]: expected the shape of its input, [2, 3]; got [6]"},
      {"MembersOfARankMore",
       [](Example& e) {
         e.out1.reshape({2, 3, 1});
       },
       kOp + "out[1]: expected the shape of its input, [2, 3]; got [2, 3, 1]"},
      {"EmptyMembersOfDifferentShape",
       [](Example& e) {
         e.x1.reshape({0, 3});
         e.out1.reshape({0});
       },
       kOp + "out[1]: expected the shape of its input, [0, 3]; got [0]"},
      {"ScalarOfTwo", [](Example& e) { e.scale_view.reshape({2}); },
       kOp + "scale: expected one element; got shape [2]"},
      {"ScalarOfNone",
       [](Example& e) {
         e.found_inf.reshape({1, 0});
       },
       kOp + "found_inf: expected one element; got shape [1, 0]"},
  };
  return all;
}

class Refusal : public testing::TestWithParam<Case> {};

TEST_P(Refusal, SaysWhyAndWritesNothing) {
  Example example;
  GetParam().spoil(example);
  const auto before = example.written;
  const twinops_report report = example.call.report;
  EXPECT_EQ(example.call.run(), TWINOPS_INVALID_ARGUMENT);
  EXPECT_EQ(twinops_last_error(), GetParam().message);
  EXPECT_EQ(std::memcmp(&before, &example.written, sizeof(before)), 0) << "outputs were written";
  EXPECT_EQ(std::memcmp(&report, &example.call.report, sizeof(report)), 0) << "the report was";
}
INSTANTIATE_TEST_SUITE_P(EveryCase, Refusal, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(NullArrays, AreRefused) {
  Example e;
  EXPECT_EQ(twinops_run(e.call.op, nullptr, 4, nullptr, 0, nullptr), TWINOPS_INVALID_ARGUMENT);
  EXPECT_STREQ(twinops_last_error(), "check_finite_and_unscale: its array of arguments is NULL");
  EXPECT_EQ(twinops_run(e.call.op, e.call.arguments.data(), 4, nullptr, 1, nullptr),
            TWINOPS_INVALID_ARGUMENT);
  EXPECT_STREQ(twinops_last_error(), "check_finite_and_unscale: its array of attributes is NULL");
  EXPECT_EQ(twinops_run(nullptr, nullptr, 0, nullptr, 0, nullptr), TWINOPS_INVALID_ARGUMENT);
  EXPECT_EQ(e.written.found_inf[0], 0xca);
}

TEST(Row, OfAnotherBackendIsUnsupported) {
  Example e;
  e.call.execution.row = "cuda";
  EXPECT_EQ(e.call.run(), TWINOPS_UNSUPPORTED);
  const std::string message = twinops_last_error();
  EXPECT_TRUE(message.starts_with("no kernel can run on cpu:\n" +
                                  std::string(twinops_row_at(0)->name) + ": passed over: "))
      << message;
  EXPECT_NE(message.find("cpu/scalar: passed over: the call asks for cuda\n"), std::string::npos)
      << message;
  EXPECT_EQ(e.written.found_inf[0], 0xca);
}

TEST(Row, ThatThisMachineLacksIsUnsupported) {
  for (std::size_t i = 1; i < twinops_row_count(); ++i) {
    const twinops_row& row = *twinops_row_at(i);
    if (row.available) continue;
    Example e;
    e.call.execution.row = row.name;
    EXPECT_EQ(e.call.run(), TWINOPS_UNSUPPORTED);
    const std::string message = twinops_last_error();
    EXPECT_NE(message.find(std::string(row.name) + ": passed over: " + row.why_not + "\n"),
              std::string::npos)
        << message;
    EXPECT_EQ(e.written.found_inf[0], 0xca);
  }
}

TEST(Device, ThatIsNotThereIsUnsupported) {
  Example e;
  for (View* v : {&e.x0, &e.x1, &e.out0, &e.out1, &e.scale_view, &e.found_inf})
    v->tensor.device = {kDLCUDA, 99};
  EXPECT_EQ(e.call.run(), TWINOPS_UNSUPPORTED);
  const std::string message = twinops_last_error();
  EXPECT_TRUE(message.starts_with("no kernel can run on cuda:99:\n")) << message;
  EXPECT_NE(message.find(": passed over: the tensors are on cuda:99\n"), std::string::npos)
      << message;
  if (has_cuda_device()) {
    EXPECT_NE(message.find("there is no device cuda:99"), std::string::npos) << message;
  }
  EXPECT_EQ(e.written.found_inf[0], 0xca);
}

// The message belongs to the thread, and to its last call that failed.
TEST(Message, StaysUntilTheNextFailure) {
  RawCall wrong("nothing");
  EXPECT_EQ(wrong.run(), TWINOPS_INVALID_ARGUMENT);
  Example right;
  EXPECT_EQ(right.call.run(), TWINOPS_OK);
  EXPECT_EQ(twinops_last_error(),
            "no operator is named 'nothing'; the operators are " + operator_names());
}

}  // namespace
}  // namespace twinops::test
