// The operators as they are registered with Paddle.
#pragma once

#include <string_view>

#include "hosts/paddle/signature.hpp"

namespace twinops::paddle_host {

// The operator registered under this name, or its gradient; nullptr if there is none.
const Signature* find_signature(std::string_view name, bool gradient);

}  // namespace twinops::paddle_host
