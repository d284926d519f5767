#include "tools/proof/cases.hpp"

namespace proof {

std::span<const OperatorCases> operator_cases() {
  static constexpr OperatorCases kTable[] = {
      {"check_finite_and_unscale", check_finite_and_unscale_cases},
      {"update_loss_scaling", update_loss_scaling_cases},
      {"dropout", dropout_cases},
      {"dropout_grad", dropout_grad_cases},
      {"bias_dropout_residual", bias_dropout_residual_cases},
      {"bias_dropout_residual_grad", bias_dropout_residual_grad_cases},
      {"philox_words", philox_words_cases},
      {"uniform", uniform_cases},
      {"random_projection", random_projection_cases},
      {"random_projection_grad", random_projection_grad_cases},
      {"softmax", softmax_cases},
      {"log_softmax", log_softmax_cases},
      {"softmax_grad", softmax_grad_cases},
      {"log_softmax_grad", log_softmax_grad_cases},
      {"softmax_dropout", softmax_dropout_cases},
      {"softmax_dropout_grad", softmax_dropout_grad_cases},
  };
  return kTable;
}

}  // namespace proof
