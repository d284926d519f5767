// A call of check_finite_and_unscale that is right, for tests to spoil or to make in another way.
#pragma once

#include <cstring>

#include "tests/support/raw_call.hpp"

namespace twinops::test {

// Two tensors of [2, 3], not in place.
struct Example {
  float x[2][12], scale[2] = {4, 4};
  struct {
    float out[2][12];
    std::uint8_t found_inf[4];
    double other[4];
  } written;
  View x0{x[0], kF32, {2, 3}}, x1{x[1], kF32, {2, 3}};
  View out0{written.out[0], kF32, {2, 3}}, out1{written.out[1], kF32, {2, 3}};
  View scale_view{scale, kF32, {}}, found_inf{written.found_inf, kU8, {1}};
  RawCall call{"check_finite_and_unscale"};

  Example() {
    for (auto& tensor : x)
      for (float& value : tensor) value = 1;
    std::memset(&written, 0xca, sizeof(written));
    call.add("x", {&x0.tensor, &x1.tensor});
    call.add("scale", scale_view);
    call.add("out", {&out0.tensor, &out1.tensor});
    call.add("found_inf", found_inf);
  }
};

}  // namespace twinops::test
