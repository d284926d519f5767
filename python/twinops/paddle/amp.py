"""GradScaler: dynamic loss scaling by twinops' two operators."""

from collections import defaultdict

import paddle
from paddle.amp.grad_scaler import OptimizerState, _refresh_optimizer_state
from paddle.framework import in_dynamic_mode

from twinops.paddle import functional as F

# Captured before patch() can put ours in its place.
_PaddleGradScaler = paddle.amp.GradScaler


# One by one: Paddle's own list of them (core.eager.get_grads_lists) has none of float64.
def _gradients(optimizer):
    groups = getattr(optimizer, "_param_groups", None)
    if groups and isinstance(groups[0], dict):
        parameters = [p for group in groups for p in group["params"]]
    else:
        parameters = optimizer._parameter_list
    found = [(p.name, p._grad_ivar()) for p in parameters]
    gradients = [gradient for _, gradient in found if gradient is not None]
    sparse = [name for name, g in found if g is not None and g.is_selected_rows()]
    if sparse:
        raise NotImplementedError(
            f"the gradient of {sparse[0]} is sparse, which twinops' GradScaler does not unscale: make the "
            "embedding with sparse=False, or use paddle.amp.GradScaler for this optimizer"
        )
    return gradients


class GradScaler(_PaddleGradScaler):
    """paddle.amp.GradScaler, on every place and for floating gradients of every type; the arguments are
    Paddle's, and min_scale, below which the scale is not lowered. All gradients of an optimizer are
    unscaled by one call. The scale and its counts stay on the device; it never becomes infinite. For dygraph only: in a static
    graph the constructor raises RuntimeError. The rules: docs/numerics.md, "Loss scaling"."""

    # Paddle's own constructor switches itself off on a CPU.
    def __init__(
        self,
        enable=True,
        init_loss_scaling=2.0**16,
        incr_ratio=2.0,
        decr_ratio=0.5,
        incr_every_n_steps=2000,
        decr_every_n_nan_or_inf=1,
        use_dynamic_loss_scaling=True,
        min_scale=1.0,
    ):
        if not in_dynamic_mode():
            raise RuntimeError("twinops' GradScaler is for dygraph; a static graph has its operators")
        self._enable = enable
        self._use_dynamic_loss_scaling = enable and use_dynamic_loss_scaling
        self._init_loss_scaling = init_loss_scaling if enable else 1.0
        self._scale = paddle.full([1], self._init_loss_scaling, "float32") if enable else None
        if not enable:
            return
        assert incr_ratio > 1.0, "The incr_ratio must be > 1.0."
        assert decr_ratio < 1.0, "The decr_ratio must be < 1.0."
        self._incr_ratio = incr_ratio
        self._decr_ratio = decr_ratio
        self._min_scale = min_scale
        self._incr_every_n_steps = incr_every_n_steps
        self._decr_every_n_nan_or_inf = decr_every_n_nan_or_inf
        self._incr_count = self._decr_count = 0
        self._found_inf = paddle.zeros([1], "bool")
        self._cache_found_inf = None
        self._optimizer_states = defaultdict(_refresh_optimizer_state)

    def scale(self, var):
        return var * self._scale if self._enable else var

    def _unscale(self, optimizer):
        if not self._enable:
            return
        state = self._optimizer_states[id(optimizer)]
        if state["state"] is OptimizerState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["state"] is OptimizerState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        _, self._found_inf = F.check_finite_and_unscale(_gradients(optimizer), self._scale)
        state["state"] = OptimizerState.UNSCALED

    def unscale_(self, optimizer):
        self._unscale(optimizer)

    def _update(self):
        if not self._enable:
            return
        F.update_loss_scaling(
            [],
            paddle.full([1], bool(self._cache_found_inf), "bool"),
            self._scale,
            self._good_steps,
            self._bad_steps,
            self._incr_every_n_steps,
            self._decr_every_n_nan_or_inf,
            self._incr_ratio,
            self._decr_ratio,
            min_scale=self._min_scale,
        )

    # Paddle keeps these as numbers of the host, and its state_dict() reads and writes them.
    @property
    def _incr_count(self):
        return self._good_steps.item()

    @_incr_count.setter
    def _incr_count(self, value):
        self._good_steps = paddle.full([1], int(value), "int32")

    @property
    def _decr_count(self):
        return self._bad_steps.item()

    @_decr_count.setter
    def _decr_count(self, value):
        self._bad_steps = paddle.full([1], int(value), "int32")
