// The place of a value in Paddle's graph of gradients.
//
// Paddle's PyLayer would not do: its node can be gone through once only, and ends the process the
// second time, retain_graph=True or not. Paddle's headers of the nodes' class are not part of its
// package. Here the nodes are Paddle's own, of an operation that moves nothing, and what comes for
// the value goes through hooks on them. So hooks of a user's, retain_graph and paddle.grad, which
// leaves out nodes that it does not need, find what they find in any graph of Paddle's.
#pragma once

#include <paddle/phi/api/include/tensor.h>

#include <functional>
#include <vector>

namespace twinops::paddle_host {

// From what comes for a tensor in a backward pass, what is taken in its place.
using Hook = std::function<::paddle::Tensor(const ::paddle::Tensor&)>;

// The tensor again, behind a node of its own with this hook.
::paddle::Tensor node(const ::paddle::Tensor& tensor, const Hook& hook);

// A new tensor's value behind `tensor`: `gradient` is given what comes for the value, and returns
// what comes for the tensor. Hooks of a user's on the result see what comes for the value.
::paddle::Tensor behind(const ::paddle::Tensor& tensor, const ::paddle::Tensor& value,
                        const Hook& gradient);

// The tensors of one shape as one tensor, which depends on all of them.
::paddle::Tensor stack(const std::vector<::paddle::Tensor>& tensors);

// A tensor that stands in the graph where `tensor` does, and has the memory of `value`.
::paddle::Tensor link(const ::paddle::Tensor& tensor, const ::paddle::Tensor& value);

// A tensor without memory that stands in the graph where `tensor`, which has a gradient, does now:
// what is written into that later on moves it. Whether it has a gradient is still to be said.
::paddle::Tensor place_of(const ::paddle::Tensor& tensor);

}  // namespace twinops::paddle_host
