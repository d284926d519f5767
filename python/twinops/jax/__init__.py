"""twinops in JAX: operators that give the same bits on every CPU and GPU, as pure functions.

    import twinops.jax as tj

    y = tj.softmax(x)                                # jax.nn's names and defaults
    y = tj.dropout(jax.random.key(0), x, rate=0.1)   # the same mask on every device and for every shard

docs/hosts/jax.md is the manual.
"""

from twinops.jax import _plugin

_plugin.load()

from twinops.jax.functional import (  # noqa: E402
    bias_dropout_residual,
    bitmask_dropout,
    check_finite_and_unscale,
    dropout,
    log_softmax,
    philox_words,
    random_projection,
    run,
    softmax,
    softmax_dropout,
    uniform,
    update_loss_scaling,
)
from twinops.jax.layers import Dropout  # noqa: E402
from twinops.jax.scaling import DynamicScale, scaled  # noqa: E402

__all__ = [
    "Dropout",
    "DynamicScale",
    "bias_dropout_residual",
    "bitmask_dropout",
    "check_finite_and_unscale",
    "dropout",
    "log_softmax",
    "philox_words",
    "random_projection",
    "run",
    "scaled",
    "softmax",
    "softmax_dropout",
    "uniform",
    "update_loss_scaling",
]
