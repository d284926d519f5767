"""twinops in ONNX graphs and in ONNX Runtime: nodes that give the same bits on every CPU and GPU.

    import onnxruntime
    import twinops.onnx

    model = twinops.onnx.replace(onnx.load("model.onnx"))   # Softmax, Dropout, ... become twinops' nodes
    options = twinops.onnx.register(onnxruntime.SessionOptions())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)

docs/hosts/onnxruntime.md is the manual.
"""

try:
    import onnx as _onnx
except ImportError as error:
    raise ImportError(
        f"twinops.onnx needs onnx, which this Python cannot import ({error}): "
        "`python -m pip install onnx onnxruntime`"
    ) from error
if tuple(map(int, _onnx.__version__.split(".")[:2])) < (1, 19):
    raise ImportError(f"twinops.onnx needs onnx 1.19 or later; this is {_onnx.__version__}")

from twinops._native import find, library  # noqa: E402
from twinops.onnx import _schemas  # noqa: E402
from twinops.onnx._export import translation_table  # noqa: E402
from twinops.onnx._nodes import DOMAIN, VERSION, make_node  # noqa: E402
from twinops.onnx._replace import replace  # noqa: E402

_schemas.register()


def library_path():
    """The library of custom operators, for SessionOptions.register_custom_ops_library and its like in
    other languages. It loads libtwinops.so, which lies beside it."""
    library()  # of the ABI version that this package speaks
    return str(find("libtwinops_onnxruntime.so", "the part of twinops for ONNX Runtime"))


def register(options):
    """Gives an onnxruntime.SessionOptions twinops' operators, and returns it."""
    options.register_custom_ops_library(library_path())
    return options


__all__ = ["DOMAIN", "VERSION", "library_path", "make_node", "register", "replace", "translation_table"]
