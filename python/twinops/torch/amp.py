"""GradScaler: PyTorch's, whose unscaling is one call for all gradients of a device."""

from collections import defaultdict

import torch
from torch.autograd.graph import increment_version

from twinops.torch import _lists, sharding

_TorchGradScaler = torch.amp.GradScaler  # captured before patch() can put ours in its place
_below_versions = torch._C._AutoDispatchBelowADInplaceOrView


def unscale_(gradients, scale, found_inf):
    """Multiplies the gradients, a list of plain tensors of one device, with 1 / scale in place; found_inf
    becomes 1 if a value is not finite."""
    if _lists.unscale_(gradients, scale, found_inf):
        return
    with _below_versions():  # and below autograd
        torch.ops.twinops.check_finite_and_unscale_.default(gradients, scale, found_inf)
    increment_version(gradients)


class GradScaler(_TorchGradScaler):
    """torch.amp.GradScaler, on CPUs and GPUs, for gradients of float16, bfloat16, float32 and float64
    in any mix, which are unscaled by one call for each device. State dicts are PyTorch's, both ways.

    Gradients that are DTensors (FSDP2, tensor parallelism) are unscaled where they lie, and the ranks
    of their meshes agree on whether a value was not finite. `process_group`: the ranks of that group
    agree too, for code that shards without DTensors.
    """

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
        *,
        process_group=None,
    ):
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self._process_group = process_group

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        return self._check(optimizer, self._scale, allow_fp16)

    def _check_inf_per_device(self, optimizer):
        """Of an optimizer that unscales by itself: is anything not finite?"""
        one = torch.ones((), dtype=torch.float32, device=self._scale.device)
        found = self._check(optimizer, one, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _check(self, optimizer, scale, allow_fp16):
        if self._process_group is None:
            found = torch.zeros((), dtype=torch.float32, device=scale.device)
            all_of_them = [
                p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None
            ]
            if _lists.unscale_(all_of_them, scale, found, allow_fp16):
                return {scale.device: found}
        by_device, groups = self._gradients(optimizer, allow_fp16)
        found = {}
        for device, gradients in by_device.items():
            found[device] = torch.zeros((), dtype=torch.float32, device=device)
            unscale_(gradients, scale.to(device, non_blocking=True), found[device])
        if (groups or self._process_group) and not found:
            found[scale.device] = torch.zeros((), dtype=torch.float32, device=scale.device)
        if self._process_group is not None:
            groups = {*groups, self._process_group}
        for value in found.values():
            sharding.agree_on(value, groups)
        return found

    @staticmethod
    def _gradients(optimizer, allow_fp16):
        """The gradients of an optimizer by device, and the process groups of those that are sharded."""
        by_device, meshes = defaultdict(list), set()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if not allow_fp16 and gradient.dtype == torch.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if gradient.is_sparse:
                    # Values of one index are a sum, which may overflow where they do not.
                    if gradient.dtype is torch.float16:
                        parameter.grad = gradient = gradient.coalesce()
                    gradient = gradient._values()
                elif sharding.is_sharded(gradient):
                    meshes.add(gradient.device_mesh)
                    gradient = gradient._local_tensor
                by_device[gradient.device].append(gradient)
        return by_device, {g for mesh in meshes for g in mesh.get_all_groups()}
