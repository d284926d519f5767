// Each operator's cases, for the table in cases.cpp, and the lists of tensors that real models
// have.
#pragma once

#include "tools/proof/problem.hpp"

namespace proof {

std::vector<Case> bias_dropout_residual_cases();
std::vector<Case> bias_dropout_residual_grad_cases();
std::vector<Case> check_finite_and_unscale_cases();
std::vector<Case> dropout_cases();
std::vector<Case> dropout_grad_cases();
std::vector<Case> philox_words_cases();
std::vector<Case> random_projection_cases();
std::vector<Case> random_projection_grad_cases();
std::vector<Case> uniform_cases();
std::vector<Case> log_softmax_cases();
std::vector<Case> log_softmax_grad_cases();
std::vector<Case> softmax_cases();
std::vector<Case> softmax_dropout_cases();
std::vector<Case> softmax_dropout_grad_cases();
std::vector<Case> softmax_grad_cases();
std::vector<Case> update_loss_scaling_cases();

}  // namespace proof
