// All tensors of a call as views of one buffer, by byte_offset from one pointer: side by side with
// no byte between them, and interleaved element by element, they give the bits that they give
// apart. Where one reaches into an output by an element, the call is refused and writes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "tests/support/raw_call.hpp"
#include "tests/support/runners.hpp"
#include "tools/proof/problem.hpp"

namespace twinops::test {
namespace {

using proof::Case;
using proof::Problem;
using proof::TensorSpec;

// One tensor: where its elements lie in the buffer, and what it holds.
struct Part {
  const proof::Argument* argument;
  const TensorSpec* spec;
  std::size_t size, begin = 0;      // of an element; byte in the buffer
  std::int64_t elements, step = 1;  // from element to element
  std::vector<std::byte> values;    // one after the other
};

class OneBuffer {
 public:
  explicit OneBuffer(const Problem& problem) : problem_(problem) {
    for (const proof::Argument& a : problem.arguments)
      for (const TensorSpec& t : a.tensors) {
        std::int64_t n = 1;
        for (const std::int64_t size : t.shape) n *= size;
        Part part{&a, &t, proof::size_of(t.type), 0, n, 1, {}};
        part.values.assign(static_cast<std::size_t>(n) * part.size, std::byte{0xca});
        if (a.fill) a.fill({part.values.data(), t.type, n, 0, 77 + parts_.size()});
        parts_.push_back(std::move(part));
      }
  }
  std::vector<Part>& parts() { return parts_; }

  void lay_apart() {
    std::size_t at = 0;
    for (Part& p : parts_) {
      p.begin = at;
      p.step = 1;
      at += p.values.size() + 256 - p.values.size() % 64;
    }
  }
  // Whether no byte lies between them: larger elements first.
  void lay_side_by_side() {
    std::size_t at = 0;
    for (const std::size_t size : {8u, 4u, 2u, 1u})
      for (Part& p : parts_)
        if (p.size == size) {
          p.begin = at;
          p.step = 1;
          at += p.values.size();
        }
  }
  // Those of the largest shape and one element size take turns; the others follow. False where
  // there are not two.
  bool interleave() {
    lay_side_by_side();
    const Part& first = *std::max_element(parts_.begin(), parts_.end(), [](auto& a, auto& b) {
      return a.elements * (a.size > 1) < b.elements * (b.size > 1);
    });
    std::vector<Part*> turns;
    for (Part& p : parts_)
      if (p.spec->shape == first.spec->shape && p.size == first.size) turns.push_back(&p);
    std::size_t at = 0;
    for (Part* p : turns) {
      p->step = static_cast<std::int64_t>(turns.size());
      p->begin = at;
      at += p->size;
    }
    at = turns.size() * first.values.size() + 64;
    for (Part& p : parts_)
      if (p.step == 1 && std::find(turns.begin(), turns.end(), &p) == turns.end()) {
        p.begin = (at + 63) / 64 * 64;
        at = p.begin + p.values.size();
      }
    return turns.size() > 1;
  }

  // The status; then values() are what the tensors hold.
  twinops_status run(const std::string& row) {
    std::size_t end = 0;
    for (const Part& p : parts_) end = std::max(end, p.begin + p.values.size() * p.step);
    alignas(64) std::vector<std::max_align_t> memory(end / sizeof(std::max_align_t) + 8);
    auto* const base = reinterpret_cast<std::byte*>(memory.data());
    each(base, [](std::byte* in_buffer, std::byte* value, std::size_t n) {
      std::memcpy(in_buffer, value, n);
    });
    const std::vector<std::max_align_t> before = memory;
    RawCall call(problem_.op.c_str());
    std::deque<View> views;
    for (const proof::Argument& a : problem_.arguments) {
      std::vector<const DLTensor*> tensors;
      for (const Part& p : parts_) {
        if (p.argument != &a) continue;
        std::vector<std::int64_t> strides(p.spec->shape.size(), p.step);
        for (std::size_t i = strides.size(); i-- > 1;)
          strides[i - 1] = strides[i] * std::max<std::int64_t>(p.spec->shape[i], 1);
        views.emplace_back(base, p.spec->type, p.spec->shape, strides);
        views.back().tensor.byte_offset = p.begin;
        tensors.push_back(&views.back().tensor);
      }
      call.add(a.name.c_str(), tensors);
    }
    for (const proof::Attribute& a : problem_.attributes)
      std::visit(
          [&](const auto& v) {
            if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>)
              call.set(a.name.c_str(), v.c_str());
            else
              call.set(a.name.c_str(), v);
          },
          a.value);
    call.execution.row = row.c_str();
    const twinops_status status = call.run();
    each(base, [](std::byte* in_buffer, std::byte* value, std::size_t n) {
      std::memcpy(value, in_buffer, n);
    });
    wrote_ = std::memcmp(before.data(), memory.data(), end) != 0;
    return status;
  }
  bool wrote() const { return wrote_; }
  std::vector<std::vector<std::byte>> values() const {
    std::vector<std::vector<std::byte>> all;
    for (const Part& p : parts_) all.push_back(p.values);
    return all;
  }

 private:
  template <class F>
  void each(std::byte* base, F&& f) {
    for (Part& p : parts_)
      for (std::int64_t e = 0; e < p.elements; ++e)
        f(base + p.begin + static_cast<std::size_t>(e * p.step) * p.size,
          p.values.data() + static_cast<std::size_t>(e) * p.size, p.size);
  }

  const Problem& problem_;
  std::vector<Part> parts_;
  bool wrote_ = false;
};

class ViewsInOneBuffer : public testing::TestWithParam<const char*> {
 protected:
  // A few cases of each type without strides and nothing in place.
  static std::vector<Case> cases() {
    std::vector<Case> some;
    std::map<std::string, int> of_type;
    for (const proof::OperatorCases& table : proof::operator_cases()) {
      if (std::strcmp(table.op, GetParam()) != 0) continue;
      for (const Case& c : table.make()) {
        if (c.elements < 60 || c.elements > 3000 || of_type[c.type] == 3) continue;
        const Problem p = c.problem();
        const bool plain = std::ranges::all_of(p.arguments, [](const proof::Argument& a) {
          return std::ranges::all_of(a.tensors, [](const TensorSpec& t) {
            return t.strides.empty() && !t.over && t.offset == 0;
          });
        });
        if (!plain) continue;
        ++of_type[c.type];
        some.push_back(c);
      }
    }
    return some;
  }
};

std::vector<const char*> all_operators() {
  std::vector<const char*> names;
  for (const proof::OperatorCases& table : proof::operator_cases()) names.push_back(table.op);
  return names;
}
INSTANTIATE_TEST_SUITE_P(EveryOperator, ViewsInOneBuffer, testing::ValuesIn(all_operators()),
                         [](const auto& info) { return std::string(info.param); });

std::vector<std::string> host_rows() {
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.starts_with("cpu/")) rows.push_back(row);
  return rows;
}

TEST_P(ViewsInOneBuffer, SideBySideAndInterleaved) {
  int runs = 0;
  for (const Case& c : cases()) {
    const Problem problem = c.problem();
    OneBuffer apart(problem);
    apart.lay_apart();
    ASSERT_EQ(apart.run("cpu/scalar"), TWINOPS_OK) << c.name << ": " << twinops_last_error();
    for (const std::string& row : host_rows()) {
      OneBuffer beside(problem), between(problem);
      beside.lay_side_by_side();
      ASSERT_EQ(beside.run(row), TWINOPS_OK) << c.name << ", " << row << twinops_last_error();
      EXPECT_EQ(beside.values(), apart.values()) << c.name << ", " << row << ", side by side";
      ++runs;
      if (!between.interleave()) continue;
      const twinops_status status = between.run(row);
      const std::string message = status == TWINOPS_OK ? "" : twinops_last_error();
      // What takes no gaps at all says so.
      if (message.find("gaps") != std::string::npos) continue;
      ASSERT_EQ(status, TWINOPS_OK) << c.name << ", " << row << ": " << message;
      EXPECT_EQ(between.values(), apart.values()) << c.name << ", " << row << ", interleaved";
    }
  }
  EXPECT_GT(runs, 0) << "no case was fit";
}

TEST_P(ViewsInOneBuffer, AnElementInAnOutputIsRefused) {
  int refused = 0;
  for (const Case& c : cases()) {
    const Problem problem = c.problem();
    for (std::size_t out = 0;; ++out) {
      OneBuffer probe(problem);
      if (out == probe.parts().size()) break;
      if (!probe.parts()[out].argument->is_output) continue;
      for (std::size_t other = 0; other < probe.parts().size(); ++other) {
        if (other == out) continue;
        OneBuffer buffer(problem);
        buffer.lay_apart();
        Part &a = buffer.parts()[out], &b = buffer.parts()[other];
        // Its first element is the output's last, or the bytes that are.
        if (a.elements < 2 || b.elements < 2 || b.size > a.size) continue;
        b.begin = a.begin + a.values.size() - b.size;
        for (Part& p : buffer.parts())  // the rest far away
          if (&p != &a && &p != &b) p.begin += std::size_t{1} << 20;
        ASSERT_EQ(buffer.run("cpu"), TWINOPS_INVALID_ARGUMENT)
            << c.name << ": " << b.argument->name << " in " << a.argument->name;
        EXPECT_NE(std::string(twinops_last_error()).find("shares memory with"), std::string::npos)
            << twinops_last_error();
        EXPECT_FALSE(buffer.wrote()) << c.name;
        ++refused;
      }
    }
  }
  if (GetParam() != std::string("philox_words") && GetParam() != std::string("uniform")) {
    EXPECT_GT(refused, 0) << "nothing was tried";  // those have one tensor
  }
}

}  // namespace
}  // namespace twinops::test
