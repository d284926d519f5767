"""The C++ core, called directly: twinops_run of the C ABI, over numpy arrays, without Paddle between."""

import numpy as np

from twinops._call import Call, view
from twinops._native import library

_CODES = {"i": 0, "u": 1, "f": 2, "bfloat16": 4, "b": 6}


def _view(array, bfloat16):
    """uint16 arrays hold bfloat16 where the call says so: numpy has no such type."""
    kind = "bfloat16" if bfloat16 and array.dtype == np.uint16 else array.dtype.kind
    data = array.ctypes.data if array.size else None
    return view(data, (_CODES[kind], array.dtype.itemsize * 8), array.shape)


def run(op, arguments, attributes, bfloat16=False):
    """`arguments`: name -> contiguous array or list of them; outputs are written."""
    lists = {k: v if isinstance(v, list) else [v] for k, v in arguments.items() if v is not None}
    tensors = {name: [_view(a, bfloat16) for a in arrays] for name, arrays in lists.items()}
    Call(library(), op, tensors, attributes)()
