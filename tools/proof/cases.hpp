// Each operator's cases, for the table in cases.cpp, and the lists of tensors that real models
// have.
#pragma once

#include "tools/proof/problem.hpp"

namespace proof {

std::vector<Case> check_finite_and_unscale_cases();
std::vector<Case> update_loss_scaling_cases();

}  // namespace proof
