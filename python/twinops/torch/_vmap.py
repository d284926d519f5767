"""What torch.vmap makes of an operator. Rows of the softmax family do not know of each other, so a batch of
calls is one call of more rows; the others are called once for each element of the batch, because each of
these draws from the beginning of its own sequence, or sums over its own rows. Both give the bits of the
calls one by one."""

import torch

from twinops.torch import _plugin

ops = torch.ops.twinops
_ROWS = ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad")


def _first(x, dim, size):
    """x with the batch first; one that has none is the same for all of the batch."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _over_rows(mask, dim, size, rank):
    """A mask or a bias, with the batch before as many dimensions as rows have."""
    if dim is None:
        return mask
    mask = mask.movedim(dim, 0)
    return mask.reshape(size, *[1] * (rank + 1 - mask.dim()), *mask.shape[1:])


def _one_by_one(op):
    overload = getattr(ops, op).default

    def rule(info, in_dims, *args, **attributes):
        def at(i):
            pairs = zip(args, in_dims)
            return overload(*(a if d is None else a.select(d, i) for a, d in pairs), **attributes)

        made = [at(i) for i in range(info.batch_size)]
        if isinstance(made[0], torch.Tensor):
            return torch.stack(made), 0
        return tuple(map(torch.stack, zip(*made))), (0,) * len(made[0])

    return rule


def _as_rows(op):
    overload = getattr(ops, op).default
    one_by_one = _one_by_one(op)
    count = 2 if op.endswith("_grad") else 1  # tensors of x's shape, before mask, lengths and bias

    def rule(info, in_dims, *args, **attributes):
        if attributes.get("dmask_type") or attributes.get("dbias_type"):  # a sum over the rows of one
            return one_by_one(info, in_dims, *args, **attributes)
        size = info.batch_size
        tensors = [_first(x, d, size) for x, d in zip(args[:count], in_dims)]
        rank = tensors[0].dim() - 1
        axis = attributes.get("axis", -1)
        if not -rank <= axis < rank:
            return one_by_one(info, in_dims, *args, **attributes)  # whose refusal is of what was given
        attributes["axis"] = axis if axis < 0 else axis - rank
        given = zip(args[count:], in_dims[count:])
        (mask, of_mask), (lengths, of_lengths), (bias, of_bias), *_ = *given, *[(None, None)] * 3
        if lengths is not None:
            lengths = _first(lengths, of_lengths, size)
        masks = (_over_rows(mask, of_mask, size, rank), lengths, _over_rows(bias, of_bias, size, rank))
        made = overload(*tensors, *masks, **attributes)
        if isinstance(made, torch.Tensor):
            return made, 0
        return tuple(made), (0, *[None] * (len(made) - 1))  # without the gradients of mask and bias

    return rule


for _op in _plugin.functional_names():
    torch.library.register_vmap(f"twinops::{_op}", (_as_rows if _op in _ROWS else _one_by_one)(_op))
