// twinops for C++20: every operator as a typed function, over the C ABI of twinops.h. Header only:
// link with libtwinops.so (CMake: twinops::twinops; pkg-config: twinops).
//
//   std::vector<float> gradient = ...;  // rows * columns of them
//   float scale = 1024;
//   bool found_inf = false;
//   twinops::Tensor g(gradient.data(), {rows, columns});
//   twinops::check_finite_and_unscale({{g}}, {&scale, {}}, {{g}}, {&found_inf, {}});
//
// What holds for every function:
// - Inputs come first, then outputs, then options, then how the call is carried out (Execution).
// - A Tensor is a view: the memory stays the caller's. All tensors of a call lie on one device,
//   which decides whether CPU or CUDA computes; the bits are the same (docs/numerics.md). Any
//   strides are allowed. Tensors without elements are allowed.
// - On CUDA a call returns when its work is queued on execution.stream.
// - A mistake throws twinops::Error with a message that says what was expected and what came. A
// call
//   that is refused (TWINOPS_INVALID_ARGUMENT, TWINOPS_UNSUPPORTED) has written nothing. No output
//   may share memory with an input, except where its description says "may be x itself".
// - The page of an operator, docs/operators/<name>.md, has its formula, its refusals and what other
//   libraries call it. twinops_find_operator() gives the same tables at run time.
//
// "Floating" below means float16, bfloat16, float32 or float64. float16, bfloat16 and float32 are
// computed in float32, float64 in float64.
#pragma once

#include "twinops/call.hpp"
#include "twinops/dropout.hpp"
#include "twinops/loss_scaling.hpp"
#include "twinops/random.hpp"
#include "twinops/softmax.hpp"
