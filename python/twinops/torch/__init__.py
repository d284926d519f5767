"""twinops in PyTorch: operators that give the same bits on every CPU and GPU.

    import twinops.torch as tt

    y = tt.functional.softmax(x, dim=-1)    # PyTorch's names and defaults
    layer = tt.Dropout(0.1)                 # the same mask on every device
    scaler = tt.GradScaler("cuda")          # loss scaling by one fused kernel
    tt.patch()                              # or all of it, for a model that is written already

docs/hosts/torch.md is the manual.
"""

from twinops.torch import _plugin

_plugin.load()

from twinops.torch import _meta, _autograd, _vmap  # noqa: E402, F401
from twinops.torch import functional  # noqa: E402
from twinops.torch.amp import GradScaler  # noqa: E402
from twinops.torch.modules import (  # noqa: E402
    BiasDropoutResidual,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    LogSoftmax,
    Softmax,
    Softmax2d,
    SoftmaxDropout,
)
from twinops.torch.overriding import override  # noqa: E402
from twinops.torch.patching import patch, patched, unpatch  # noqa: E402

__all__ = [
    "BiasDropoutResidual",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "GradScaler",
    "LogSoftmax",
    "Softmax",
    "Softmax2d",
    "SoftmaxDropout",
    "functional",
    "override",
    "patch",
    "patched",
    "unpatch",
]
