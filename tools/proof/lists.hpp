// The parameter shapes of real models: lists/<name>.txt, carried inside the library.
#pragma once

#include "tools/proof/problem.hpp"

namespace proof {

struct ShapeList {
  std::string name;  // "resnet50"
  std::vector<std::vector<std::int64_t>> shapes;
  std::int64_t elements;
};

// All of them. Throws std::runtime_error if a file's tensors are not as many, or not of as many
// elements, as its `total` line says.
const std::vector<ShapeList>& shape_lists();
const ShapeList& shape_list(const std::string& name);

// The shapes as tensors of one type.
std::vector<TensorSpec> tensors_of(const ShapeList& list, DLDataType type);

}  // namespace proof
