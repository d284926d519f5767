// Calls from hosts that have threads of their own: many at once, inside OpenMP's parallel regions,
// after fork(); and lists and tensors that are longer than 32 bits or patience allow.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/support/runners.hpp"
#include "tools/proof/trial.hpp"
#include "tools/proof/values.hpp"

namespace twinops::test {
namespace {

using proof::Outcome;
using proof::Problem;
using proof::TensorSpec;
using proof::Trial;

constexpr std::uint64_t kSeed = 8128;

// A list that is worth several threads.
Problem unscale(std::vector<TensorSpec> list, proof::Fill fill) {
  return Problem("check_finite_and_unscale")
      .input("x", list, std::move(fill))
      .input("scale", {{kFloat32, {}}}, proof::constant(3))
      .output("out", proof::in_place(list, "x"))
      .output("found_inf", {{kBool, {}}}, proof::constant(0));
}
Problem several_threads() {
  return unscale({{kFloat16, {70001}}, {kFloat32, {50000}}, {kFloat64, {3}}, {kBfloat16, {60000}}},
                 proof::whole_range());
}

std::vector<std::string> host_rows() {
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.starts_with("cpu/")) rows.push_back(row);
  return rows;
}

bool equal(const Trial& trial, const Outcome& expected, const Outcome& actual) {
  return !proof::first_difference(trial, expected, actual) &&
         !proof::stray_write(trial, actual.block);
}

TEST(HostThreads, ManyCallAtOnce) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  const std::vector<std::string> rows = host_rows();
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 20; ++turn) {
        const std::string& row = rows[static_cast<std::size_t>(i + turn) % rows.size()];
        const Execution execution{.threads = 1 + (i + turn) % 5};
        if (!equal(trial, expected, proof::run(trial, row, execution))) ++bad;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
}

// Errors are each thread's own.
TEST(HostThreads, EachHasItsOwnMessage) {
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const std::string name = "operator" + std::to_string(i);
      for (int turn = 0; turn < 200; ++turn) {
        twinops_run(name.c_str(), nullptr, 0, nullptr, 0, nullptr);
        bad += twinops_last_error() != "no operator is named '" + name + "'";
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
}

#if defined(_OPENMP)
TEST(OpenMP, CallsInsideAParallelRegion) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  const std::vector<std::string> rows = host_rows();
  int bad = 0;
#pragma omp parallel for num_threads(4) schedule(static, 1) reduction(+ : bad)
  for (int i = 0; i < 24; ++i) {
    const std::string& row = rows[static_cast<std::size_t>(i) % rows.size()];
    bad += equal(trial, expected, proof::run(trial, row, {.threads = 7})) ? 0 : 1;
  }
  EXPECT_EQ(bad, 0);
}
#endif

// In a child of fork() OpenMP's threads are gone; a call must neither hang nor differ.
TEST(Fork, CallsInTheChild) {
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  for (const std::string& row : host_rows())
    ASSERT_TRUE(equal(trial, expected, proof::run(trial, row, {.threads = 4})));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // a hang ends by a signal
    bool good = true;
    for (const std::string& row : host_rows())
      good &= equal(trial, expected, proof::run(trial, row, {.threads = 4}));
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      alarm(30);
      _exit(equal(trial, expected, proof::run(trial, "cpu", {.threads = 2})) ? 0 : 1);
    }
    int status = 1;
    waitpid(grandchild, &status, 0);
    _exit(good && status == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "the child hung or crashed: signal " << WTERMSIG(status);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child's bits differ";
  EXPECT_TRUE(equal(trial, expected, proof::run(trial, "cpu", {.threads = 4})))
      << "the parent's after the fork";
}

TEST(LongList, AHundredThousandTensors) {
  std::vector<TensorSpec> list;
  for (std::int64_t i = 0; i < 100000; ++i)
    list.push_back({proof::kFloatingTypes[i * 7 % 4], {i * 37 % 23}, {}, i % 4});
  for (const bool found : {false, true}) {
    Problem problem = unscale(list, found ? proof::whole_range() : proof::ordinary());
    problem.guard = 8;
    const Trial trial(std::move(problem), kSeed);
    const Outcome expected = proof::run(trial, "cpu/scalar");
    for (const std::string& row : available_rows()) {
      const Outcome actual = proof::run(trial, row, {.threads = 3});
      const auto difference = proof::first_difference(trial, expected, actual);
      EXPECT_FALSE(difference) << row << ": " << proof::describe(*difference);
    }
  }
}

// ---- A tensor of more than 2^31 elements
// --------------------------------------------------------

std::int64_t available_memory() {
  std::int64_t kilobytes = 0;
  if (FILE* file = std::fopen("/proc/meminfo", "r")) {
    char line[256];
    while (std::fgets(line, sizeof(line), file) != nullptr)
      if (long long value; std::sscanf(line, "MemAvailable: %lld", &value) == 1) kilobytes = value;
    std::fclose(file);
  }
  return kilobytes * 1024;
}

class HugeTensor : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::int64_t kElements = (std::int64_t{1} << 31) + (1 << 27) + 77;
  static constexpr std::size_t kBytes = kElements * 2;
  static constexpr std::int64_t kMarks[] = {0,
                                            1,
                                            (std::int64_t{1} << 30) + 3,
                                            (std::int64_t{1} << 31) - 1,
                                            std::int64_t{1} << 31,
                                            (std::int64_t{1} << 31) + 1,
                                            (std::int64_t{1} << 31) + (1 << 26) + 5,
                                            kElements - 1};

  void SetUp() override {
    if (available_memory() < std::int64_t{10} << 30)
      GTEST_SKIP() << "needs 10 GB of memory that is free";
    host_ = static_cast<std::uint16_t*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(host_, MAP_FAILED);
    device_ = proof::device_of(GetParam());
    on_device_ = device_.device_type != kDLCPU;
    if (on_device_)
      check(twinops_allocate(device_, kBytes + 64, &memory_));
    else
      memory_ = host_;
    small_ = on_device_ ? static_cast<char*>(memory_) + kBytes + 8 - kBytes % 8 : local_;
  }
  void TearDown() override {
    if (host_ != nullptr && host_ != MAP_FAILED) munmap(host_, kBytes);
    if (on_device_) twinops_release(device_, memory_);
  }
  // All elements `value`; mark number k is value + 1 + k.
  void fill(std::uint16_t value) {
    const std::uint64_t four = 0x0001000100010001u * value;
    for (std::int64_t i = 0; i + 4 <= kElements; i += 4) std::memcpy(host_ + i, &four, 8);
    for (std::int64_t i = kElements / 4 * 4; i < kElements; ++i) host_[i] = value;
    for (std::size_t k = 0; k < std::size(kMarks); ++k)
      host_[kMarks[k]] = static_cast<std::uint16_t>(value + 1 + k);
    if (on_device_) check(twinops_copy(device_, memory_, kHost, host_, kBytes));
  }
  // The first element that is not as fill(value) would leave it; kElements if there is none.
  std::int64_t first_other(std::uint16_t value, bool marked) {
    if (on_device_) check(twinops_copy(kHost, host_, device_, memory_, kBytes));
    for (std::size_t k = 0; marked && k < std::size(kMarks); ++k) {
      if (host_[kMarks[k]] != value + 1 + k) return kMarks[k];
      host_[kMarks[k]] = value;
    }
    std::int64_t i = 0;
    const std::uint64_t four = 0x0001000100010001u * value;
    for (std::uint64_t word = four; i + 4 <= kElements; i += 4)
      if (std::memcpy(&word, host_ + i, 8); word != four) break;
    while (i < kElements && host_[i] == value) ++i;
    return i;
  }
  template <class T>
  void put(std::size_t at, T value) {
    check(twinops_copy(device_, small_ + at, kHost, &value, sizeof(value)));
  }
  template <class T>
  T get(std::size_t at) {
    T value;
    check(twinops_copy(kHost, &value, device_, small_ + at, sizeof(value)));
    return value;
  }
  Tensor scalar(std::size_t at, DLDataType type) { return Tensor(small_ + at, type, {}, device_); }
  Tensor tensor() { return Tensor(memory_, kFloat16, {kElements}, device_); }

  std::uint16_t* host_ = nullptr;
  void* memory_ = nullptr;
  char* small_ = nullptr;
  alignas(8) char local_[64] = {};
  DLDevice device_{kDLCPU, 0};
  bool on_device_ = false;
};

std::vector<std::string> best_rows() {  // of each backend
  std::vector<std::string> rows = {host_rows().front()};
  if (available_rows().front() != rows.front()) rows.push_back(available_rows().front());
  return rows;
}
INSTANTIATE_TEST_SUITE_P(BestRows, HugeTensor, testing::ValuesIn(best_rows()),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find('/'));
                         });

TEST_P(HugeTensor, IsUnscaledAndZeroed) {
  fill(0x4c00);  // 16, and a little more at the marks
  put(0, 4.0f);
  put(4, std::uint8_t{0});
  // One thread walks further than 2^31; of 64 the last begins beyond.
  check_finite_and_unscale({tensor()}, scalar(0, kFloat32), {tensor()}, scalar(4, kUint8), {},
                           {.threads = 1, .row = GetParam()});
  EXPECT_EQ(get<std::uint8_t>(4), 0);
  EXPECT_EQ(first_other(0x4400, true), kElements);

  // An infinity in the last element is found; then everything is zeroed.
  const std::uint16_t infinity = 0x7c00;
  check(twinops_copy(device_, static_cast<std::uint16_t*>(memory_) + kElements - 1, kHost,
                     &infinity, 2));
  check_finite_and_unscale({tensor()}, scalar(0, kFloat32), {tensor()}, scalar(4, kUint8), {},
                           {.threads = 64, .row = GetParam()});
  EXPECT_EQ(get<std::uint8_t>(4), 1);
  if (on_device_) check(twinops_copy(kHost, host_, device_, memory_, kBytes));
  for (const std::int64_t mark : kMarks)
    EXPECT_TRUE(mark == kElements - 1 || (host_[mark] & 0xff00) == 0x3c00) << mark;
  put(8, std::int32_t{0});
  put(12, std::int32_t{0});
  const LossScaleState state{scalar(0, kFloat32), scalar(8, kInt32), scalar(12, kInt32)};
  update_loss_scaling({tensor()}, scalar(4, kUint8), state, {tensor()}, state, {},
                      {.row = GetParam()});
  EXPECT_EQ(get<std::int32_t>(12), 1);
  EXPECT_EQ(first_other(0, false), kElements);
}

}  // namespace
}  // namespace twinops::test
