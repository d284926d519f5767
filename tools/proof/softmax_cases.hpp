// Cases of softmax, log_softmax and their backward passes under a scale and masks.
#pragma once

#include "tools/proof/problem.hpp"

namespace proof {

// What is laid over x: shapes are given for x of [batch, heads, queries, keys], or [queries, keys].
struct MaskSpec {
  std::string name;
  double scale = 1;
  std::optional<TensorSpec> mask = {};
  Fill mask_fill = {};
  std::optional<TensorSpec> lengths = {};
  std::vector<std::int64_t> length_values = {};
  bool causal = false;
  std::int64_t causal_offset = 0;
  bool zeros = false;  // masked_rows
  Fill x = {};         // empty: logits()
  std::optional<TensorSpec> bias = {};
  Fill bias_fill = {};

  Problem& add_to(Problem& problem) const;
  // The output dmask, where the mask has a gradient.
  Problem& add_gradient_to(Problem& problem) const;
};

// Every kind of mask for x of this type and [batch, heads, queries, keys].
std::vector<MaskSpec> mask_specs(DLDataType type, const std::vector<std::int64_t>& shape);

std::vector<Case> masked_softmax_cases(const std::string& op);

}  // namespace proof
