// Callers of other versions, those that leave out what may be left out, those with pinned memory or
// a floating-point state of their own: they are understood.
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "tests/support/example_call.hpp"
#include "tests/support/host_modes.hpp"

namespace twinops::test {
namespace {

TEST(Example, IsRight) {
  Example example;
  EXPECT_EQ(example.call.run(), TWINOPS_OK) << twinops_last_error();
  EXPECT_EQ(example.written.out[1][5], 0.25f);
  EXPECT_EQ(example.written.out[1][6], example.written.out[0][11]) << "beyond the tensor";
  EXPECT_EQ(example.written.found_inf[0], 0xca);
}

TEST(NullExecution, MeansTheDefaults) {
  Example e;
  EXPECT_EQ(twinops_run(e.call.op, e.call.arguments.data(), 4, nullptr, 0, nullptr), TWINOPS_OK)
      << twinops_last_error();
  EXPECT_EQ(e.written.out[0][0], 0.25f);
}

TEST(NullReport, IsNotFilledIn) {
  Example e;
  e.call.execution.report = nullptr;
  EXPECT_EQ(e.call.run(), TWINOPS_OK) << twinops_last_error();
}

// Structs of an older caller end earlier; what they lack is zero.
TEST(OlderCaller, ShorterStructsAreRead) {
  Example e;
  e.call.execution.struct_size = offsetof(twinops_execution, row);
  e.call.execution.row = "a row that this caller does not know of";
  EXPECT_EQ(e.call.run(), TWINOPS_OK) << twinops_last_error();
  EXPECT_EQ(e.written.out[0][0], 0.25f);
}

TEST(OlderCaller, AShorterReportIsFilledAsFarAsItGoes) {
  Example e;
  std::memset(static_cast<void*>(&e.call.report), 0xca, sizeof(twinops_report));
  e.call.report.struct_size = offsetof(twinops_report, fallback);
  EXPECT_EQ(e.call.run(), TWINOPS_OK) << twinops_last_error();
  EXPECT_EQ(e.call.report.struct_size, offsetof(twinops_report, fallback));
  EXPECT_EQ(e.call.report.launches, 0);
  EXPECT_TRUE(std::string_view(e.call.report.row).starts_with("cpu/"));
  EXPECT_EQ(e.call.report.random_words, 0xcacacacacacacacaull);
}

// Structs of a newer caller are longer; arrays of them are walked by their own size.
struct NewerArgument {
  twinops_argument known;
  std::int64_t news[3];
};
struct NewerAttribute {
  twinops_attribute known;
  std::int64_t news;
};
TEST(NewerCaller, LongerStructsAreWalkedByTheirSize) {
  Example e;
  std::vector<NewerArgument> arguments;
  for (twinops_argument a : e.call.arguments) {
    a.struct_size = sizeof(NewerArgument);
    arguments.push_back({a, {-1, -1, -1}});
  }
  NewerAttribute attributes[2] = {{TWINOPS_BOOL_ATTRIBUTE("reset", 1), -1},
                                  {TWINOPS_STRING_ATTRIBUTE("check", "input"), -1}};
  for (auto& a : attributes) a.known.struct_size = sizeof(NewerAttribute);
  EXPECT_EQ(twinops_run(e.call.op, &arguments[0].known, arguments.size(), &attributes[0].known, 2,
                        nullptr),
            TWINOPS_OK)
      << twinops_last_error();
  EXPECT_EQ(e.written.out[1][5], 0.25f);
  EXPECT_EQ(e.written.found_inf[0], 0);
}

// Whichever GPU it was pinned for, beside memory that is not.
TEST(PinnedMemory, IsTheCpus) {
  Example e;
  for (View* v : {&e.x0, &e.out0, &e.scale_view}) v->tensor.device = {kDLCUDAHost, 0};
  e.x1.tensor.device = {kDLCUDAHost, 1};
  ASSERT_EQ(e.call.run(), TWINOPS_OK) << twinops_last_error();
  EXPECT_TRUE(std::string_view(e.call.report.row).starts_with("cpu/"));
  EXPECT_EQ(e.written.out[0][0], 0.25f);
  EXPECT_EQ(e.written.out[1][5], 0.25f);
}
TEST(PinnedMemory, IsExplainedAsTheCpus) {
  std::vector<char> pinned(4096), plain(4096);
  ASSERT_EQ(twinops_explain({kDLCUDAHost, 0}, pinned.data(), 4096, nullptr), TWINOPS_OK);
  ASSERT_EQ(twinops_explain({kDLCPU, 0}, plain.data(), 4096, nullptr), TWINOPS_OK);
  EXPECT_EQ(pinned, plain);
}

// A refusal leaves the library by another way than a call that is done.
TEST(FloatingPointState, IsTheCallersAfterARefusal) {
  constexpr struct {
    const char* what;
    void (*spoil)(Example&);
    twinops_status status;
  } kCalls[] = {
      {"nothing", [](Example&) {}, TWINOPS_OK},
      {"the operator", [](Example& e) { e.call.op = "nothing"; }, TWINOPS_INVALID_ARGUMENT},
      {"an argument", [](Example& e) { e.call.remove("x"); }, TWINOPS_INVALID_ARGUMENT},
      {"an attribute", [](Example& e) { e.call.set("reset", 1); }, TWINOPS_INVALID_ARGUMENT},
      {"a shape", [](Example& e) { e.out1.reshape({6}); }, TWINOPS_INVALID_ARGUMENT},
      {"the row", [](Example& e) { e.call.execution.row = "cuda"; }, TWINOPS_UNSUPPORTED}};
  for (const HostMode& mode : kHostModes)
    for (const auto& call : kCalls) {
      Example e;
      call.spoil(e);
      const InHostMode host(mode);
      const twinops_status status = e.call.run();
      EXPECT_EQ(float_control(), mode.control) << mode.name << ", refused: " << call.what;
      EXPECT_EQ(status, call.status) << call.what;
    }
}

#if defined(__x86_64__)
// A host that has invalid operations, divisions by zero and overflows trap: none of ours does.
TEST(FloatingPointState, ExceptionsOfTheHostDoNotTrap) {
  constexpr HostMode kTraps{"exceptions trap", 0x1900};
  for (const char* row : {"cpu", "cpu/scalar"}) {
    Example e;
    e.scale[0] = 0;
    e.x[0][0] = 0;
    e.x[1][0] = std::numeric_limits<float>::infinity();
    e.call.execution.row = row;
    const InHostMode host(kTraps);
    const twinops_status status = e.call.run();
    EXPECT_EQ(float_control(), kTraps.control) << row;
    EXPECT_EQ(status, TWINOPS_OK) << row;
    EXPECT_EQ(e.written.found_inf[0], 1) << row;
  }
}
#endif

}  // namespace
}  // namespace twinops::test
