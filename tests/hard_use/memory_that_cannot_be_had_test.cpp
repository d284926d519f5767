// Each allocation of a call fails once, on every row: the call succeeds with its bits or says that
// there is no memory, nothing leaks, the process goes on, and the next call is well. This program's
// malloc refuses the k-th request, whichever thread makes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "tests/support/runners.hpp"
#include "tools/proof/trial.hpp"

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

std::atomic<bool> watching{false};
std::atomic<int> until_failure{0}, requests{0}, gpus_at_work{0};

bool refuses() {
  if (!watching.load(std::memory_order_relaxed) || gpus_at_work > 0) return false;
  ++requests;
  if (until_failure.fetch_sub(1) != 0) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

#pragma GCC visibility push(default)  // the library finds these
extern "C" {
void* malloc(std::size_t bytes) { return refuses() ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t n, std::size_t bytes) {
  return refuses() ? nullptr : __libc_calloc(n, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  return refuses() ? nullptr : __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return refuses() ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
void emulated_gpu_works(bool works) { gpus_at_work += works ? 1 : -1; }  // tests/emulator calls it
}
#pragma GCC visibility pop

namespace twinops::test {
namespace {

using proof::Case;
using proof::Outcome;
using proof::Trial;

constexpr std::uint64_t kSeed = 8209;
constexpr int kMostRequests = 3000, kCases = 12;

struct Of {
  const char* op;
  std::string row;
};
void PrintTo(const Of& of, std::ostream* out) { *out << of.op << " on " << of.row; }
std::vector<Of> all() {
  std::vector<Of> all;
  for (const proof::OperatorCases& table : proof::operator_cases())
    for (const std::string& row : available_rows())
      if (!row.starts_with("cuda") || std::getenv("TWINOPS_TEST_EMULATED") != nullptr)
        all.push_back({table.op, row});
  return all;
}

class NoMemory : public testing::TestWithParam<Of> {};
INSTANTIATE_TEST_SUITE_P(EveryOperatorAndRow, NoMemory, testing::ValuesIn(all()),
                         [](const auto& info) {
                           std::string name = info.param.op + ("_" + info.param.row);
                           name[name.find('/')] = '_';
                           return name;
                         });

// Cases from all over the operator's list: lists and long rows among them.
std::vector<Case> some_cases(const std::string& op) {
  for (const proof::OperatorCases& table : proof::operator_cases()) {
    if (table.op != op) continue;
    std::vector<Case> cases = table.make(), some;
    std::erase_if(cases, [](const Case& c) { return c.elements > 1 << 18; });
    std::stable_sort(cases.begin(), cases.end(),
                     [](const Case& a, const Case& b) { return a.elements < b.elements; });
    for (std::size_t i = 0; i < kCases; ++i)
      some.push_back(cases[(i + 1) * cases.size() / kCases - 1]);
    return some;
  }
  return {};
}

// The host's allocator, which GPUs need. The emulated one's memory is the host's: it is refused,
// too.
void* allocate(void*, std::size_t bytes, void*) { return memalign(256, bytes); }
void release(void*, void* memory, std::size_t, void*) { std::free(memory); }

TEST_P(NoMemory, EachRequestFailsOnce) {
  const auto& [op, row] = GetParam();
  int seen = 0;
  for (const Case& c : some_cases(op)) {
    const Trial trial(c.problem(), kSeed);
    const Outcome expected = proof::run(trial, "cpu/scalar");
    proof::Placed placed(trial, proof::device_of(row));
    twinops_report report{};
    report.struct_size = sizeof(report);
    twinops_execution how{};
    how.struct_size = sizeof(how);
    how.threads = 3;
    how.row = row.c_str();
    how.report = &report;
    if (row.starts_with("cuda")) {
      how.allocate = allocate;
      how.release = release;
    }
    int k = 0;
    for (bool all_had = false; !all_had && k < kMostRequests; ++k) {
      placed.restore();
      placed.describe();
      requests = 0;
      until_failure = k;
      watching = true;
      const twinops_status status = placed.run(how);
      watching = false;
      all_had = requests <= k;
      const std::string where = c.name + ", request " + std::to_string(k) + ": ";
      ASSERT_TRUE(status == TWINOPS_OK || (!all_had && status == TWINOPS_OUT_OF_MEMORY))
          << where << "status " << status << ": " << twinops_last_error();
      if (status == TWINOPS_OK) {
        const auto difference =
            proof::first_difference(trial, expected, placed.fetch(), expected.report);
        ASSERT_FALSE(difference) << where << proof::describe(*difference);
      } else {
        ASSERT_NE(twinops_last_error()[0], '\0') << where;
      }
    }
    ASSERT_LT(k, kMostRequests) << c.name;
    seen += k - 1;
  }
  RecordProperty("requests", seen);
}

// The library's requests come through this program's malloc: else nothing here is tested.
TEST(NoMemoryItself, RequestsAreSeen) {
  requests = 0;
  until_failure = 1 << 20;
  watching = true;
  twinops_run("no operator has a name as long as this one", nullptr, 0, nullptr, 0, nullptr);
  watching = false;
  EXPECT_GT(requests, 0);
}

}  // namespace
}  // namespace twinops::test
