"""The C++ core, called directly: twinops_run of the C ABI by ctypes, on NumPy arrays, with no host
between. What the adapters give is compared with what this gives, bit by bit."""

import ml_dtypes
import numpy as np

from twinops import _outputs
from twinops._call import Call, view
from twinops._native import library, operators

_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


def _view(array):
    code = 4 if array.dtype == ml_dtypes.bfloat16 else _CODES[array.dtype.kind]
    strides = [s // array.itemsize for s in array.strides]
    data = array.ctypes.data if array.size else None
    return view(data, (code, array.itemsize * 8), array.shape, strides)


def dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def bits(array):
    """An array's memory as unsigned words, in row-major order: what is compared. The shape remains."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    return array.view(f"u{array.itemsize}")


def assert_same(ours, expected, what=""):
    ours, expected = np.asarray(ours), np.asarray(expected)
    assert ours.dtype == expected.dtype, f"{what}: {ours.dtype}, expected {expected.dtype}"
    assert ours.shape == expected.shape, f"{what}: {ours.shape}, expected {expected.shape}"
    a, b = bits(ours).reshape(-1), bits(expected).reshape(-1)
    wrong = np.flatnonzero(a != b)
    if wrong.size:
        i = wrong[0]
        raise AssertionError(
            f"{what}: {wrong.size} of {a.size} differ, first at {i}: {a[i]:#x}, expected {b[i]:#x}"
        )


def run(op, inputs, attributes=None, asked=None, shape=None, size=None):
    """The outputs, name -> array or list of arrays. `inputs` maps names to arrays or lists; `asked` an
    output to its type, None to leave it out."""
    attributes, results = dict(attributes or {}), {}
    for output in _outputs.outputs(op):
        want = (asked or {}).get(output.name, output.default)
        if want is None:
            continue
        if output.is_list:
            results[output.name] = [np.empty_like(x) for x in inputs[output.like]]
            continue
        like = inputs[output.like] if output.like else np.empty(shape, "u1")
        name = output.type_for(want, like.dtype.name)
        results[output.name] = np.zeros(output.shape_for(name, like.shape, size), dtype(name))
    attributes.update(_outputs.FRESH.get(op, {}))
    known = {a.name for a in operators()[op].arguments}
    given = {**inputs, **results}
    assert set(given) <= known, set(given) - known
    tensors = {
        name: [_view(x) for x in value] if isinstance(value, list) else _view(value)
        for name, value in given.items()
        if value is not None
    }
    Call(library(), op, tensors, attributes)()
    return results
