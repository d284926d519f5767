#include "tools/proof/cases.hpp"
#include "tools/proof/random_cases.hpp"

namespace proof {

std::vector<Case> dropout_grad_cases() { return all_dropout_cases(false); }

}  // namespace proof
