"""Calls of libtwinops.so through the C ABI of include/twinops/twinops.h, on memory that somebody else
holds: what the tests and the benchmarks do where no host framework stands between."""

import ctypes

from twinops._native import AttributeValue, DataType

CPU, CUDA = 1, 2  # DLPack's device types
_KINDS = {bool: 0, int: 1, float: 2, str: 3}


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Argument(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("tensors", ctypes.POINTER(ctypes.POINTER(DLTensor))),
        ("count", ctypes.c_size_t),
    ]


class Report(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("launches", ctypes.c_int32),
        ("row", ctypes.c_char_p),
        ("fallback", ctypes.c_char_p),
        ("random_words", ctypes.c_uint64),
    ]


# context, bytes, stream -> address of scratch memory, or None
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class _Execution(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("threads", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("row", ctypes.c_char_p),
        ("parallel_for", ctypes.c_void_p),
        ("parallel_context", ctypes.c_void_p),
        ("allocate", ALLOCATE),
        ("release", ctypes.c_void_p),
        ("workspace_context", ctypes.c_void_p),
        ("report", ctypes.POINTER(Report)),
    ]


def view(data, dtype, shape, strides=None, device=(CPU, 0)):
    """A DLTensor. `data`: address, or None; `dtype`: DLPack's code and bits; strides in elements."""
    dims = ctypes.c_int64 * max(len(shape), 1)
    return DLTensor(
        data,
        Device(*device),
        len(shape),
        DataType(*dtype, 1),
        dims(*shape),
        None if strides is None else dims(*strides),
        0,
    )


def _attribute(name, value):
    return AttributeValue(
        ctypes.sizeof(AttributeValue),
        _KINDS[type(value)],
        name.encode(),
        int(value) if isinstance(value, (bool, int)) else 0,
        value if isinstance(value, float) else 0.0,
        value.encode() if isinstance(value, str) else None,
    )


class Call:
    """A call with all its structs made once: calling it is twinops_run and nothing else.

    `tensors` maps an argument's name to a DLTensor or a list of them, `attributes` a name to a bool,
    int, float or str; `allocate` is an ALLOCATE. All memory stays the caller's, who keeps it alive.
    RuntimeError carries the library's message. `report` is of the last call.
    """

    def __init__(self, library, op, tensors, attributes=None, stream=None, threads=0, allocate=None):
        self._run, self._last_error = library.twinops_run, library.twinops_last_error
        self._last_error.restype = ctypes.c_char_p
        self._kept = []
        arguments = [self._argument(name, views) for name, views in tensors.items()]
        values = [_attribute(name, value) for name, value in (attributes or {}).items()]
        self.report = Report(struct_size=ctypes.sizeof(Report))
        execution = _Execution(
            struct_size=ctypes.sizeof(_Execution),
            threads=threads,
            stream=stream,
            allocate=allocate or ALLOCATE(),
            report=ctypes.pointer(self.report),
        )
        self._kept.append(execution)
        self._arguments = (
            op.encode(),
            (_Argument * len(arguments))(*arguments),
            ctypes.c_size_t(len(arguments)),
            (AttributeValue * max(len(values), 1))(*values),
            ctypes.c_size_t(len(values)),
            ctypes.byref(execution),
        )

    def _argument(self, name, views):
        views = views if isinstance(views, list) else [views]
        pointers = (ctypes.POINTER(DLTensor) * max(len(views), 1))(*map(ctypes.pointer, views))
        self._kept += [views, pointers]
        return _Argument(ctypes.sizeof(_Argument), name.encode(), pointers, len(views))

    def __call__(self):
        if self._run(*self._arguments) != 0:
            raise RuntimeError(self._last_error().decode())
