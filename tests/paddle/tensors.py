"""The samples of tests/hosts/ as tensors of Paddle's. A gradient is no operator that can be called."""

import numpy as np
import paddle
import samples
from samples import TYPES  # noqa: F401

from twinops import _outputs, operators

FORWARD = [n for n in operators() if n.removesuffix("_grad") not in set(operators()) - {n}]


def sample(op, rng, dtype):
    def tensor(array):
        made = paddle.to_tensor(array)
        return made.astype(dtype) if array.dtype == np.float64 else made

    inputs, attributes = samples.tensors(op, rng, tensor)
    return inputs, {**attributes, **_outputs.FRESH.get(op, {})}
