// Lists of tensors for the operators that read a list x and write a list out: sizes at every edge,
// unaligned and strided members, many small ones, none, real models.
#pragma once

#include "tools/proof/problem.hpp"

namespace proof {

struct ListPair {
  std::string name;
  std::string type;  // "mixed" for a list of several types
  std::vector<TensorSpec> x, out;
  std::int64_t elements;
};

// Small lists of type `type`: milliseconds each.
std::vector<ListPair> edge_lists(DLDataType type);
// The parameters of real models of type `type`; the largest in float16 alone.
std::vector<ListPair> model_lists(DLDataType type);
// Lists that mix types, sizes and layouts, and lists of no tensors.
std::vector<ListPair> mixed_lists();

}  // namespace proof
