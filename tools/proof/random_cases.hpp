// What the cases of operators that draw random words share: where the words come from, and tensors
// in every kind of memory.
#pragma once

#include "tools/proof/problem.hpp"

namespace proof {

// The arguments and attributes of a random sequence.
struct RandomSpec {
  std::string name;
  std::int64_t seed = 20261121, subsequence = 0, offset = 0;
  const char* layout = "contiguous";
  std::int64_t period = 65536, vector = 0, element_offset = 0;
  std::string global_shape = {}, start = {}, shared_axes = {};
  std::vector<std::int64_t> seed_tensor = {}, offset_tensor = {}, seeds = {};  // empty: none

  Problem& add_to(Problem& problem) const;
};

// Seeds, offsets at which the block number carries, layouts, tensors on the device: for a tensor of
// any shape.
std::vector<RandomSpec> random_specs();
// Shards, rows with seeds, shared axes: for a tensor of shape [6, 5, 35].
std::vector<RandomSpec> shaped_specs();
inline const std::vector<std::int64_t> kShaped = {6, 5, 35};

// Sizes at which a word, a block, a vector, a byte of mask or a thread's share begins or ends.
std::vector<std::int64_t> edge_sizes();

// A tensor of `shape` in other memory: named, with strides.
struct LaidOut {
  std::string name;
  TensorSpec tensor;
};
std::vector<LaidOut> laid_out(DLDataType type, const std::vector<std::int64_t>& shape);

// Cases that two operators share: dropout and its backward pass; philox_words and uniform, whose
// output `argument` is of `type`.
std::vector<Case> all_dropout_cases(bool forward);
std::vector<Case> random_fill_cases(const char* op, const char* argument, DLDataType type);

}  // namespace proof
