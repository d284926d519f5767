"""twinops in PaddlePaddle: operators that give the same bits on every CPU and GPU.

    import twinops.paddle as tp

    y = tp.functional.softmax(x)            # Paddle's names and defaults
    layer = tp.Dropout(0.1)                 # the same mask on every device
    scaler = tp.GradScaler()                # loss scaling by one fused kernel
    tp.patch()                              # or all of it, for a model that is written already

docs/hosts/paddle.md is the manual.
"""

from twinops.paddle import _plugin

_plugin.load()

from twinops.paddle import _eager, functional  # noqa: E402
from twinops.paddle.amp import GradScaler  # noqa: E402
from twinops.paddle.generator import Generator, default_generator  # noqa: E402
from twinops.paddle.layers import (  # noqa: E402
    BitmaskDropout,
    Dropout,
    Dropout2D,
    Dropout3D,
    FusedDropoutAdd,
    LogSoftmax,
    Softmax,
)
from twinops.paddle.patching import patch, patched, patched_names, unpatch  # noqa: E402

run, serve_device = _plugin.run, _eager.serve_device

__all__ = [
    "BitmaskDropout",
    "Dropout",
    "Dropout2D",
    "Dropout3D",
    "FusedDropoutAdd",
    "Generator",
    "GradScaler",
    "LogSoftmax",
    "Softmax",
    "default_generator",
    "functional",
    "patch",
    "patched",
    "patched_names",
    "run",
    "serve_device",
    "unpatch",
]
