// TWINOPS_BACKEND, TWINOPS_ISA and TWINOPS_THREADS: valid, not to be had, invalid. They are read
// once in a process, so each case runs this program again as a child, which makes one call and
// prints what came of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/support/raw_call.hpp"

namespace twinops::test {
namespace {

constexpr std::int64_t kMany = 1 << 20;  // enough for 64 ranges

void count_parts(void* context, std::int64_t n, void (*task)(void*, std::int64_t), void* arg) {
  *static_cast<std::int64_t*>(context) = n;
  for (std::int64_t i = 0; i < n; ++i) task(arg, i);
}

// What the child does.
void make_one_call() {
  std::vector<float> x(kMany, 8);
  float scale = 2;
  std::uint8_t found = 0;
  std::int64_t parts = 1;
  const View view(x.data(), kF32, {kMany});
  const View scale_view(&scale, kF32, {}), found_inf(&found, kU8, {});
  RawCall call("check_finite_and_unscale");
  call.add("x", view);
  call.add("out", view);
  call.add("scale", scale_view);
  call.add("found_inf", found_inf);
  call.execution.parallel_for = count_parts;
  call.execution.parallel_context = &parts;
  call.execution.row = std::getenv("CHILD_ROW");
  if (const char* threads = std::getenv("CHILD_THREADS"))
    call.execution.threads = std::atoi(threads);
  const twinops_status status = call.run();
  std::printf("=status=%d\n", status);
  if (status != TWINOPS_OK) std::printf("=message=%s\n", twinops_last_error());
  if (status == TWINOPS_OK) {
    std::printf("=row=%s\n=fallback=%s\n", call.report.row, call.report.fallback);
    std::printf("=parts=%lld\n", static_cast<long long>(parts));
  }
  std::printf("=first=%g\n", x[0]);

  setenv("TWINOPS_ISA", "changed", 1);  // too late to count
  std::array<char, 4096> text{};
  const twinops_status explained = twinops_explain({kDLCPU, 0}, text.data(), text.size(), nullptr);
  std::printf("=explained=%d\n", explained);
  std::printf("=explained elsewhere=%d\n", twinops_explain({kDLCUDA, 99}, nullptr, 0, nullptr));
  std::string line;
  for (char c : std::string(text.data())) {
    if (c != '\n')
      line += c;
    else
      std::printf("=explain %s\n", line.c_str()), line.clear();
  }
}

using Result = std::map<std::string, std::string>;

Result in_child(const std::string& environment) {
  std::array<char, 4096> self{};
  EXPECT_GT(readlink("/proc/self/exe", self.data(), self.size() - 1), 0);
  const std::string command = "env -u TWINOPS_BACKEND -u TWINOPS_ISA -u TWINOPS_THREADS " +
                              environment + " '" + self.data() + "' --child";
  Result result;
  FILE* out = popen(command.c_str(), "r");
  std::array<char, 8192> line;
  while (out != nullptr && fgets(line.data(), line.size(), out) != nullptr) {
    std::string text = line.data();
    if (text[0] != '=') continue;
    text.erase(text.find_last_not_of('\n') + 1);
    if (text.starts_with("=explain ")) {
      const std::size_t colon = text.find(": ");
      result["explain " + text.substr(9, colon - 9)] = text.substr(colon + 2);
    } else {
      const std::size_t equals = text.find('=', 1);
      result[text.substr(1, equals - 1)] = text.substr(equals + 1);
    }
  }
  EXPECT_EQ(out == nullptr ? -1 : pclose(out), 0) << command;
  EXPECT_TRUE(result.count("explained")) << "the child did not come to its end: " << command;
  return result;
}

std::vector<std::string> cpu_rows(bool available) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < twinops_row_count(); ++i) {
    const twinops_row& row = *twinops_row_at(i);
    if (std::string_view(row.name).starts_with("cpu/") && (row.available != 0) == available)
      names.emplace_back(row.name);
  }
  return names;
}
std::string isa_of(const std::string& row) { return row.substr(4); }

void expect_row(const Result& r, const std::string& row, const std::string& fallback = "") {
  EXPECT_EQ(r.at("status"), "0") << (r.count("message") ? r.at("message") : "");
  EXPECT_EQ(r.count("row") ? r.at("row") : "", row);
  EXPECT_EQ(r.count("fallback") ? r.at("fallback") : "", fallback);
  EXPECT_EQ(r.at("first"), "4");
}
void expect_refused(const Result& r, const std::string& message) {
  EXPECT_EQ(r.at("status"), std::to_string(TWINOPS_INVALID_ARGUMENT));
  EXPECT_EQ(r.count("message") ? r.at("message") : "", message);
  EXPECT_EQ(r.at("first"), "8") << "a refused call wrote";
  EXPECT_EQ(r.at("explained"), std::to_string(TWINOPS_INVALID_ARGUMENT));
  EXPECT_EQ(r.at("explained elsewhere"), std::to_string(TWINOPS_INVALID_ARGUMENT));
}

TEST(Settings, NoneMeansTheBestRow) {
  expect_row(in_child(""), cpu_rows(true).front());
  expect_row(in_child("TWINOPS_BACKEND= TWINOPS_ISA= TWINOPS_THREADS="), cpu_rows(true).front());
}

TEST(Settings, BackendCpu) {
  const Result r = in_child("TWINOPS_BACKEND=cpu");
  expect_row(r, cpu_rows(true).front());
  EXPECT_EQ(r.at("explained"), "0");
}

TEST(Settings, BackendCudaForTensorsOfTheHostFallsBackAndSaysSo) {
  const twinops_row& cuda = *twinops_row_at(0);
  expect_row(in_child("TWINOPS_BACKEND=cuda"), cpu_rows(true).front(),
             "TWINOPS_BACKEND=cuda: " +
                 std::string(cuda.available ? "the tensors are on cpu" : cuda.why_not));
}

TEST(Settings, EveryIsaOfThisMachine) {
  const std::vector<std::string> rows = cpu_rows(true);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Result r = in_child("TWINOPS_ISA=" + isa_of(rows[i]));
    expect_row(r, rows[i]);
    EXPECT_EQ(r.at("explain " + rows[i]), "chosen");
    if (i > 0) {
      EXPECT_EQ(r.at("explain " + rows[i - 1]), "passed over: TWINOPS_ISA=" + isa_of(rows[i]));
    }
  }
}

// Of each instruction set of the build that this machine lacks: there may be none.
class LackingIsa : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LackingIsa);
INSTANTIATE_TEST_SUITE_P(Settings, LackingIsa, testing::ValuesIn(cpu_rows(false)),
                         [](const auto& info) { return isa_of(info.param); });
TEST_P(LackingIsa, FallsBackAndSaysSo) {
  const std::string isa = isa_of(GetParam());
  const Result r = in_child("TWINOPS_ISA=" + isa);
  EXPECT_EQ(r.at("status"), "0");
  EXPECT_EQ(r.at("fallback"), "TWINOPS_ISA=" + isa + ": this CPU has no " + isa);
}

TEST(Settings, UnknownBackends) {
  for (const std::string name : {"gpu", "CPU", "cpu/avx2", "all"})
    expect_refused(in_child("TWINOPS_BACKEND=" + name),
                   "TWINOPS_BACKEND: expected cpu or cuda; got '" + name + "'");
}

TEST(Settings, UnknownIsas) {
  std::string names;
  for (std::size_t i = 1; i < twinops_row_count(); ++i)
    names += (i == 1 ? "" : ", ") + isa_of(twinops_row_at(i)->name);
  for (const std::string name : {"avx", "AVX2", "cpu/avx2", "mmx", "cuda"})
    expect_refused(in_child("TWINOPS_ISA=" + name),
                   "TWINOPS_ISA: expected one of " + names + "; got '" + name + "'");
}

TEST(Settings, Threads) {
  for (const std::string threads : {"1", "2", "3", "64"})
    EXPECT_EQ(in_child("TWINOPS_THREADS=" + threads)["parts"], threads);
  EXPECT_EQ(in_child("TWINOPS_THREADS=100000")["parts"], "64") << "no more than are worth it";
}

TEST(Settings, InvalidThreads) {
  for (const std::string threads : {"0", "-2", "two", "2x", "1.5", "99999999999", "+4"})
    expect_refused(
        in_child("TWINOPS_THREADS=" + threads),
        "TWINOPS_THREADS: expected a number of threads, 1 or more; got '" + threads + "'");
  expect_refused(in_child("TWINOPS_THREADS=' 2'"),
                 "TWINOPS_THREADS: expected a number of threads, 1 or more; got ' 2'");
}

TEST(Settings, WhatACallAsksForGoesFirst) {
  Result r = in_child("TWINOPS_ISA=scalar TWINOPS_THREADS=2 CHILD_ROW=cpu CHILD_THREADS=3");
  expect_row(r, cpu_rows(true).front());
  EXPECT_EQ(r["parts"], "3");
  r = in_child("TWINOPS_BACKEND=cuda CHILD_ROW=cpu/scalar");
  expect_row(r, "cpu/scalar");
}

// Also at one that asks for all that the variables could say.
TEST(Settings, WhatIsInvalidIsRefusedAtEveryCall) {
  for (const std::string environment : {"TWINOPS_ISA=mmx", "TWINOPS_BACKEND=gpu"}) {
    const Result r = in_child(environment + " CHILD_ROW=cpu CHILD_THREADS=3");
    EXPECT_EQ(r.at("status"), std::to_string(TWINOPS_INVALID_ARGUMENT)) << environment;
    EXPECT_EQ(r.at("first"), "8") << "a refused call wrote";
  }
}

}  // namespace
}  // namespace twinops::test

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--child") == 0) {
    twinops::test::make_one_call();
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
