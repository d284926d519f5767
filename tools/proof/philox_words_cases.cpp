#include "tools/proof/cases.hpp"
#include "tools/proof/random_cases.hpp"

namespace proof {

std::vector<Case> philox_words_cases() {
  return random_fill_cases("philox_words", "words", twinops::kUint32);
}

}  // namespace proof
