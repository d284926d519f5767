// A function that Paddle calls may throw nothing but Paddle's own errors.
#pragma once

#include <paddle/common/enforce.h>

#include "hosts/paddle/errors.hpp"

namespace twinops::paddle_host {

// What twinops refuses becomes the error of Paddle's that is the same exception in Python.
template <class F>
auto with_paddles_errors(F&& f) {
  try {
    return f();
  } catch (const Refusal& refusal) {
    if (refusal.status == TWINOPS_INVALID_ARGUMENT)
      PADDLE_THROW(common::errors::InvalidArgument("twinops: %s", refusal.what()));
    if (refusal.status == TWINOPS_UNSUPPORTED)
      PADDLE_THROW(common::errors::Unimplemented("twinops: %s", refusal.what()));
    if (refusal.status == TWINOPS_OUT_OF_MEMORY)
      PADDLE_THROW(common::errors::ResourceExhausted("twinops: %s", refusal.what()));
    PADDLE_THROW(common::errors::Unavailable("twinops: %s", refusal.what()));
  }
}

}  // namespace twinops::paddle_host
