"""The samples of tests/hosts/ as tensors of PyTorch's."""

import samples
import torch

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_FOUND_INF = {"check_finite_and_unscale": torch.zeros(()), "update_loss_scaling": torch.ones(1)}


def sample(op, rng, dtype):
    def tensor(array):
        made = torch.from_numpy(array)
        return made.to(dtype) if made.dtype == torch.float64 else made

    tensors, attributes = samples.tensors(op, rng, tensor)
    if op in _FOUND_INF:  # written in place, and a float32 as PyTorch's GradScaler has it
        tensors["found_inf"] = _FOUND_INF[op].clone()
    return tensors, attributes


def to(device, tensors):
    def moved(t):
        return [moved(x) for x in t] if isinstance(t, list) else t.to(device)

    return {name: moved(t) for name, t in tensors.items()}
