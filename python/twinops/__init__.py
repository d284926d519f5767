"""twinops: operators whose CUDA kernel and CPU kernel are twins, equal to the last bit.

    y, mask = twinops.dropout(x, p=0.1, seed=7)  # of NumPy, CuPy, PyTorch, JAX or any DLPack arrays

Every operator of the table is a function here; `help(twinops.dropout)` describes one, and
docs/hosts/arrays.md what they have in common. `twinops.jax`, `twinops.onnx`, `twinops.paddle` and
`twinops.torch` are the adapters to host frameworks. `operators()` is the operator table and `version()`
the version of the library; `python -m twinops` runs the twinops command.
"""

from twinops._native import operators, version

__all__ = ["operators", "version"]


def __getattr__(name):
    """The operator `name` as a function of arrays, made when it is first asked for."""
    if not name.startswith("_") and name in operators():
        from twinops._arrays import function

        globals()[name] = made = function(name)
        return made
    raise AttributeError(f"module 'twinops' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *operators()})
