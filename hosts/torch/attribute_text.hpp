// Attributes written as one text: "seed=7;training=False;global_shape=24,5".
#pragma once

#include "hosts/torch/signature.hpp"

namespace twinops::torch_host {

// Sets those of `values`, one for each attribute of the signature, that `text` names. Strings stay
// in `text`, which is cut into them. Throws std::runtime_error for a name that the signature does
// not have, and for a value that is not of the attribute's kind.
void read_text(char* text, const Signature& signature, twinops_attribute* values);

}  // namespace twinops::torch_host
