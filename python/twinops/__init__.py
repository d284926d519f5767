"""twinops: operators whose CUDA kernel and CPU kernel are twins, equal to the last bit.

`twinops.paddle` is the plugin for PaddlePaddle; `python -m twinops` runs the twinops command.
`operators()` is the operator table and `version()` the version of the library.
"""

from twinops._native import operators, version

__all__ = ["operators", "version"]
