// twinops for C++20: the operators as functions, over the C ABI of twinops.h. Header only.
//
//   std::vector<float> gradient = ...;
//   float scale = 1024;
//   bool found_inf = false;
//   twinops::Tensor g(gradient.data(), {rows, columns});
//   twinops::check_finite_and_unscale({{g}}, {&scale, {}}, {{g}}, {&found_inf, {}});
//
// Every function throws twinops::Error where the C ABI returns a status; a call that is refused has
// written nothing. On CUDA a call returns when the work is queued on execution.stream.
#pragma once

#include "twinops/call.hpp"
#include "twinops/dropout.hpp"
#include "twinops/loss_scaling.hpp"
#include "twinops/random.hpp"
#include "twinops/softmax.hpp"
