"""The C++ core, called directly: twinops_run of the C ABI, over numpy arrays, without Paddle between."""

import ctypes

import numpy as np

from twinops._native import AttributeValue, DataType, library

_CODES = {"i": 0, "u": 1, "f": 2, "bfloat16": 4, "b": 6}
_KINDS = {bool: 0, int: 1, float: 2, str: 3}


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Argument(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("tensors", ctypes.POINTER(ctypes.POINTER(View))),
        ("count", ctypes.c_size_t),
    ]


def _view(array, bfloat16):
    """uint16 arrays hold bfloat16 where the call says so: numpy has no such type."""
    kind = "bfloat16" if bfloat16 and array.dtype == np.uint16 else array.dtype.kind
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    dtype = DataType(_CODES[kind], array.dtype.itemsize * 8, 1)
    data = array.ctypes.data if array.size else None
    return View(data, Device(1, 0), array.ndim, dtype, shape, None, 0)


def _argument(name, arrays, bfloat16, keep):
    views = [_view(a, bfloat16) for a in arrays]
    pointers = (ctypes.POINTER(View) * max(len(views), 1))(*map(ctypes.pointer, views))
    keep += [views, pointers]
    return Argument(ctypes.sizeof(Argument), name.encode(), pointers, len(views))


def run(op, arguments, attributes, bfloat16=False):
    """`arguments`: name -> contiguous array or list of them; outputs are written."""
    keep = []
    lists = {k: v if isinstance(v, list) else [v] for k, v in arguments.items() if v is not None}
    argument_array = (Argument * len(lists))(
        *(_argument(name, arrays, bfloat16, keep) for name, arrays in lists.items())
    )
    values = [
        AttributeValue(
            ctypes.sizeof(AttributeValue),
            _KINDS[type(v)],
            name.encode(),
            int(v) if isinstance(v, (bool, int)) else 0,
            v if isinstance(v, float) else 0.0,
            v.encode() if isinstance(v, str) else None,
        )
        for name, v in attributes.items()
    ]
    attribute_array = (AttributeValue * max(len(values), 1))(*values)
    twinops = library()
    twinops.twinops_last_error.restype = ctypes.c_char_p
    status = twinops.twinops_run(
        op.encode(),
        argument_array,
        ctypes.c_size_t(len(lists)),
        attribute_array,
        ctypes.c_size_t(len(values)),
        None,
    )
    assert status == 0, twinops.twinops_last_error().decode()
