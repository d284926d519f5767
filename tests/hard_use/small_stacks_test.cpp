// 64 KiB of stack are enough for every operator on every row of the CPU, for the thread that calls
// and for threads that a host lends: servers and musl give threads 128 or 256 KiB in all. Each call
// runs on a stack that was painted before; how far down it was painted over is how much it took.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "tests/support/runners.hpp"
#include "tools/proof/trial.hpp"

namespace twinops::test {
namespace {

using proof::Case;
using proof::Placed;
using proof::Trial;

constexpr std::size_t kStack = std::size_t{1} << 20, kEnough = 64 << 10, kThread = 96 << 10;
constexpr unsigned char kPaint = 0xb7;

// A thread's stack, and what of it was used below the frame that calls f.
class PaintedStack {
 public:
  PaintedStack() : memory_(static_cast<unsigned char*>(std::aligned_alloc(4096, kStack))) {
    std::memset(memory_, kPaint, kStack);
  }
  ~PaintedStack() { std::free(memory_); }
  PaintedStack(const PaintedStack&) = delete;

  template <class F>
  std::size_t used_by(F&& f) {
    struct Body {
      F& f;
      const unsigned char* frame;
    } body{f, nullptr};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, memory_, kStack);
    pthread_t thread;
    const int made = pthread_create(
        &thread, &attributes,
        [](void* of) -> void* {
          Body& b = *static_cast<Body*>(of);
          b.frame = static_cast<const unsigned char*>(__builtin_frame_address(0));
          b.f();
          return nullptr;
        },
        &body);
    pthread_attr_destroy(&attributes);
    EXPECT_EQ(made, 0);
    if (made != 0) return kStack;
    pthread_join(thread, nullptr);
    unsigned char* const lowest =
        std::find_if(memory_, memory_ + kStack, [](unsigned char c) { return c != kPaint; });
    std::memset(lowest, kPaint, static_cast<std::size_t>(memory_ + kStack - lowest));
    return static_cast<std::size_t>(body.frame - lowest);
  }

 private:
  unsigned char* const memory_;
};

struct Of {
  const char* op;
  std::string row;
};
void PrintTo(const Of& of, std::ostream* out) { *out << of.op << " on " << of.row; }
std::vector<Of> all() {
  std::vector<Of> all;
  for (const proof::OperatorCases& table : proof::operator_cases())
    for (const std::string& row : available_rows())
      if (row.starts_with("cpu/")) all.push_back({table.op, row});
  return all;
}

class SmallStack : public testing::TestWithParam<Of> {};
INSTANTIATE_TEST_SUITE_P(EveryOperatorAndRow, SmallStack, testing::ValuesIn(all()),
                         [](const auto& info) {
                           std::string name = info.param.op + ("_" + info.param.row);
                           name[name.find('/')] = '_';
                           return name;
                         });

// Of each type, cases from all over the list, at most so many (TWINOPS_TEST_CASES); always those
// of most elements, up to 2^18.
std::vector<Case> some_cases(const std::string& op) {
  const char* const asked = std::getenv("TWINOPS_TEST_CASES");
  const std::size_t most = asked != nullptr ? std::strtoull(asked, nullptr, 0) : 24;
  std::map<std::string, std::vector<Case>> of_type;
  for (const proof::OperatorCases& table : proof::operator_cases())
    if (table.op == op)
      for (Case& c : table.make())
        if (c.elements <= 1 << 18) of_type[c.type].push_back(std::move(c));
  std::vector<Case> some;
  for (auto& [type, cases] : of_type) {
    const std::size_t step = std::max<std::size_t>(cases.size() / most, 1);
    for (std::size_t i = 0; i < cases.size(); i += step) some.push_back(cases[i]);
    some.push_back(*std::max_element(cases.begin(), cases.end(), [](const Case& a, const Case& b) {
      return a.elements < b.elements;
    }));
  }
  return some;
}

TEST_P(SmallStack, Of64KiBIsEnough) {
  PaintedStack stack;
  std::size_t most = 0;
  std::string where;
  for (const Case& c : some_cases(GetParam().op)) {
    const Trial trial(c.problem(), 1);
    Placed placed(trial, kHost);
    twinops_execution how{};
    how.struct_size = sizeof(how);
    how.row = GetParam().row.c_str();
    for (const int threads : {1, 3}) {
      how.threads = threads;
      // Lent threads: each task on a stack of its own would take no more than all of them here.
      how.parallel_for = threads == 1 ? nullptr : in_order;
      twinops_status status = TWINOPS_OK;
      const std::size_t used = stack.used_by([&] { status = placed.run(how); });
      ASSERT_EQ(status, TWINOPS_OK) << c.name;
      if (used > most) most = used, where = c.type + ", " + c.name;
    }
  }
  EXPECT_LE(most, kEnough) << where;
  RecordProperty("bytes", static_cast<int>(most));
}

// And so a thread of 96 KiB calls everything.
TEST_P(SmallStack, AThreadOf96KiBCalls) {
  const std::vector<Case> cases = some_cases(GetParam().op);
  const Trial trial(cases.back().problem(), 1);
  struct Body {
    Placed placed;
    twinops_execution how;
    twinops_status status;
  } body{Placed(trial, kHost), {}, TWINOPS_INTERNAL};
  body.how.struct_size = sizeof(body.how);
  body.how.row = GetParam().row.c_str();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kThread), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* of) -> void* {
                  Body& b = *static_cast<Body*>(of);
                  b.status = b.placed.run(b.how);
                  return nullptr;
                },
                &body),
            0);
  pthread_attr_destroy(&attributes);
  pthread_join(thread, nullptr);
  EXPECT_EQ(body.status, TWINOPS_OK);
}

}  // namespace
}  // namespace twinops::test
