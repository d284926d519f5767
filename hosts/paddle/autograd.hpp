// The place of a value in Paddle's autograd graph.
//
// Paddle's PyLayer would not do: a second backward pass through its node ends the process, with
// retain_graph=True or without. A node class of our own would not either: Paddle's package does not
// have the header of its base. So the nodes here are Paddle's, of a transpose that moves nothing,
// and hooks on them compute the gradients. Users' hooks, retain_graph, and paddle.grad, which skips
// nodes that it does not need, then work as in any graph of Paddle's.
#pragma once

#include <paddle/phi/api/include/tensor.h>

#include <functional>
#include <vector>

namespace twinops::paddle_host {

// Is given a tensor's gradient in a backward pass, and returns the one that the pass goes on with.
using Hook = std::function<::paddle::Tensor(const ::paddle::Tensor&)>;

// The same tensor behind a new node, which has this hook.
::paddle::Tensor node(const ::paddle::Tensor& tensor, const Hook& hook);

// `value`, a new tensor, as a function of `tensor`: `gradient` is given the value's gradient and
// returns the tensor's. Hooks that a user sets on the result see the value's gradient.
::paddle::Tensor behind(const ::paddle::Tensor& tensor, const ::paddle::Tensor& value,
                        const Hook& gradient);

// The tensors of one shape as one tensor, which depends on all of them.
::paddle::Tensor stack(const std::vector<::paddle::Tensor>& tensors);

// A tensor that has the memory of `value` and the place in the graph of `tensor`.
::paddle::Tensor link(const ::paddle::Tensor& tensor, const ::paddle::Tensor& value);

// A tensor without memory that keeps the place in the graph that `tensor`, which has a gradient,
// has now: an operation in place gives `tensor` another one. The caller sets stop_gradient.
::paddle::Tensor place_of(const ::paddle::Tensor& tensor);

}  // namespace twinops::paddle_host
