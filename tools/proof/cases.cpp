#include "tools/proof/cases.hpp"

namespace proof {

std::span<const OperatorCases> operator_cases() {
  static constexpr OperatorCases kTable[] = {
      {"check_finite_and_unscale", check_finite_and_unscale_cases},
      {"update_loss_scaling", update_loss_scaling_cases},
  };
  return kTable;
}

}  // namespace proof
