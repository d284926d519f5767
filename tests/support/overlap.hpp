// A call over views of one block of memory, which a refusal must leave alone.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/raw_call.hpp"

namespace twinops::test {

inline constexpr int kFloats = 64;

class Overlap : public testing::Test {
 protected:
  using Shape = std::vector<std::int64_t>;

  View view(std::int64_t offset, Shape shape, Shape strides = {}) {
    return View(memory_ + offset, kF32, std::move(shape), std::move(strides));
  }
  std::optional<std::string> refusal(const std::vector<View>& xs, const std::vector<View>& outs) {
    return refusal(xs, outs, View(&scale_, kF32, {}), View(&found_, kU8, {}));
  }
  // The message, or nothing if the call is accepted.
  std::optional<std::string> refusal(const std::vector<View>& xs, const std::vector<View>& outs,
                                     const View& scale, const View& found_inf) {
    RawCall call("check_finite_and_unscale");
    std::vector<const DLTensor*> x, out;
    for (const View& v : xs) x.push_back(&v.tensor);
    for (const View& v : outs) out.push_back(&v.tensor);
    call.add("x", x);
    call.add("scale", scale);
    call.add("out", out);
    call.add("found_inf", found_inf);
    std::fill(std::begin(memory_), std::end(memory_), 2.0f);
    const twinops_status status = call.run();
    if (status == TWINOPS_OK) return std::nullopt;
    EXPECT_EQ(status, TWINOPS_INVALID_ARGUMENT);
    for (float value : memory_) EXPECT_EQ(value, 2.0f) << "a refused call wrote";
    return twinops_last_error();
  }
  View other(Shape shape) {  // an input of this shape somewhere else
    inputs_.emplace_back(kFloats, 2.0f);
    return View(inputs_.back().data(), kF32, std::move(shape));
  }
  static std::string message(const std::string& out, const std::string& with) {
    const std::string op = "check_finite_and_unscale: ";
    return op + out + ": shares memory with " + op + with;
  }

  alignas(64) float memory_[kFloats];
  std::deque<std::vector<float>> inputs_;
  float scale_ = 2;
  std::uint8_t found_ = 0;
};
}  // namespace twinops::test
