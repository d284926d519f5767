"""DTensors: each rank computes its part and drops what the whole tensor would drop there, so that the
numbers do not depend on how many ranks there are.

The seed of a call comes from each rank's own PyTorch generator: the ranks of a mesh that hold parts
of one tensor must be seeded alike (torch.manual_seed with one number), as for DTensor itself.
"""

import sys

import torch


def is_sharded(x):
    """Whether x is a DTensor; without importing what a program does not use."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def _whole_values(x, but=()):
    """x with every placement that is not Replicate, or a Shard along an axis not in `but`, made
    whole."""
    from torch.distributed.tensor import Replicate, Shard

    axes = {axis % x.dim() for axis in but}
    placements = [
        p if isinstance(p, (Replicate, Shard)) and not (isinstance(p, Shard) and p.dim in axes)
        else Replicate()
        for p in x.placements
    ]
    return x if placements == list(x.placements) else x.redistribute(x.device_mesh, placements)


def _place(x):
    """(global shape, where this rank's part begins) of a DTensor."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, start = compute_local_shape_and_global_offset(x.shape, x.device_mesh, x.placements)
    return tuple(x.shape), tuple(start)


def _like(x, local, shape=None):
    """The DTensor of x's shape, or of another one, whose parts lie as x's do."""
    from torch.distributed.tensor import DTensor

    shape = x.shape if shape is None else torch.Size(shape)
    strides, step = [0] * x.dim(), 1
    for i in reversed(range(x.dim())):
        strides[i], step = step, step * max(shape[i], 1)
    return DTensor.from_local(
        local, x.device_mesh, x.placements, run_check=False, shape=shape, stride=tuple(strides)
    )


def _local(tensor, x):
    """This rank's part of a tensor of x's shape."""
    if tensor is None:
        return None
    if not is_sharded(tensor):
        raise TypeError("got a DTensor and a plain tensor: make both DTensors")
    return tensor.redistribute(x.device_mesh, x.placements).to_local()


def softmax(op, x, dim, dtype, mask, lengths, bias, attributes):
    """Rows are taken whole: a tensor that is sharded along `dim` is gathered along it first."""
    from twinops.torch import _softmax

    if mask is not None or lengths is not None or bias is not None:
        raise NotImplementedError(
            f"{op} of a DTensor takes no mask, no lengths and no bias: call it on to_local() of each"
        )
    if attributes.get("causal") and any(p.is_shard(x.dim() - 2) for p in x.placements):
        x = _whole_values(x, but=(dim, -2))
    x = _whole_values(x, but=(dim,))
    local = _softmax.run(op, x.to_local(), dim, dtype, None, None, None, attributes)
    return _like(x, local)


def dropout(x, p, inplace, generator, mask, shared_axes):
    from twinops.torch import _dropout

    whole = _whole_values(x)
    global_shape, start = _place(whole)
    if inplace and whole is not x:
        raise RuntimeError("dropout in place of a DTensor with partial sums: it has to be made whole")
    local = _dropout.run(
        whole.to_local(), p, True, False, generator, mask, global_shape, start, shared_axes
    )
    y = _like(whole, local)
    return x.copy_(y) if inplace else y


def bias_dropout_residual(x, bias, residual, p, training, generator, mask):
    from torch.distributed.tensor import Replicate, Shard

    from twinops.torch import _dropout

    x = _whole_values(x)
    global_shape, start = _place(x)
    if bias is not None and bias.dim() < x.dim():
        # Along the last axis the bias lies as x does; along the others every rank has all of it.
        last = x.dim() - 1
        placements = [Shard(0) if p.is_shard(last) else Replicate() for p in x.placements]
        bias = bias.redistribute(x.device_mesh, placements).to_local(
            grad_placements=[
                Shard(0) if q.is_shard(last) else (_partial() if q.is_shard() else Replicate())
                for q in x.placements
            ]
        )
    else:
        bias = _local(bias, x)
    local = _dropout.bias_dropout_residual(
        x.to_local(),
        bias,
        _local(residual, x),
        p,
        training,
        generator=generator,
        mask=mask,
        global_shape=global_shape,
        start=start,
    )
    return _like(x, local)


def random_projection(x, attributes):
    """Rows are taken whole, as softmax's are."""
    from twinops.torch import _autograd

    x = _whole_values(x, but=(-1,))
    local = _autograd.call("random_projection", x.to_local(), **attributes)
    return _like(x, local, (*x.shape[:-1], local.shape[-1]))


def _partial():
    from torch.distributed.tensor import Partial

    return Partial()


def agree_on(found_inf, groups):
    """Makes a found_inf (float32) 1 on every rank of the process groups if it is on one."""
    for group in groups:
        torch.distributed.all_reduce(found_inf, torch.distributed.ReduceOp.MAX, group=group)
