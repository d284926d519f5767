// Words for messages. Kernels read what a tensor and a type are, and have no use for std::string:
// only files that write messages include this one.
#pragma once

#include <string>

#include "operators/tensor.hpp"

namespace twinops {

std::string describe(Device device);    // "cpu", "cuda:1"
std::string describe(DLDataType type);  // "float16", "int32 (2 lanes)", "code 5, 16 bits"
std::string describe(TypeSet types);    // "float16, bfloat16"
std::string describe(double value);     // the shortest number that is this one: "0.1", "1e+300"
std::string describe_shape(const Tensor& tensor);  // "[3, 4]"

}  // namespace twinops
