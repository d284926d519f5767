// The library really leaves a process that unloads it: a thousand times loaded, used by the calling
// thread and by threads of its own, and unloaded, it leaves no mapping, no thread and no memory.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "twinops/twinops.h"

namespace twinops::test {
namespace {

constexpr int kTimes = 1000;
constexpr std::int64_t kElements = 1 << 16;

std::string library() {
  const char* const asked = std::getenv("TWINOPS_TEST_LIBRARY");
  return asked != nullptr ? asked : TWINOPS_TEST_LIBRARY;
}
std::size_t threads() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}
bool is_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libtwinops") != std::string::npos) return true;
  return false;
}
long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
  return 0;
}

// The library as one load of it finds it.
class Loaded {
 public:
  Loaded() : handle_(dlopen(library().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  ~Loaded() { EXPECT_EQ(dlclose(handle_), 0); }
  Loaded(const Loaded&) = delete;

  // One call over several threads that succeeds, and one that is refused and leaves a message.
  void use(std::vector<float>& x) const {
    std::int64_t shape[] = {kElements};
    const DLTensor t{x.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    const DLTensor* const tensors[] = {&t};
    const twinops_argument argument = TWINOPS_ARGUMENT("out", tensors, 1);
    twinops_execution how{};
    how.struct_size = sizeof(how);
    how.threads = 3;
    const auto run = function<decltype(&twinops_run)>("twinops_run");
    EXPECT_EQ(run("uniform", &argument, 1, nullptr, 0, &how), TWINOPS_OK);
    EXPECT_EQ(run("no such operator", nullptr, 0, nullptr, 0, nullptr), TWINOPS_INVALID_ARGUMENT);
    EXPECT_NE(function<decltype(&twinops_last_error)>("twinops_last_error")()[0], '\0');
    EXPECT_NE(function<decltype(&twinops_operator_at)>("twinops_operator_at")(0), nullptr);
    EXPECT_NE(function<decltype(&twinops_row_at)>("twinops_row_at")(0), nullptr);
  }

 private:
  template <class F>
  F function(const char* name) const {
    return reinterpret_cast<F>(dlsym(handle_, name));
  }
  void* handle_;
};

TEST(Unload, AThousandTimes) {
  std::vector<float> x(kElements);
  const std::size_t threads_before = threads();
  long after_warming_up = 0;
  for (int i = 0; i < kTimes; ++i) {
    {
      const Loaded loaded;
      loaded.use(x);
      // What a thread keeps goes with it, or with the library where the thread stays longer.
      if (i % 10 == 0) std::thread([&] { loaded.use(x); }).join();
    }
    ASSERT_FALSE(is_mapped()) << "after load " << i;
    ASSERT_EQ(threads(), threads_before) << "after load " << i;
    if (i == 100) after_warming_up = resident_kib();
  }
  EXPECT_LT(resident_kib() - after_warming_up, 4096) << "KiB more after 900 loads";
}

// A thread that used the library outlives it.
TEST(Unload, BeforeAThreadThatUsedIt) {
  std::vector<float> x(kElements);
  std::atomic<int> step{0};
  auto loaded = std::make_unique<Loaded>();
  std::thread thread([&] {
    loaded->use(x);
    step = 1;
    while (step != 2) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  loaded.reset();
  EXPECT_FALSE(is_mapped());
  step = 2;
  thread.join();
}

}  // namespace
}  // namespace twinops::test
