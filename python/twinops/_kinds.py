"""The kinds of arrays that twinops.dropout(x) and the others take: how each is handed on as a DLPack
view, how outputs of it are made, and on which stream it is computed."""

import functools
import sys

from tvm_ffi import convert, from_dlpack

_ON_NO_STREAM = -1  # __dlpack__: whoever takes the view keeps the order himself


def _bits(array):
    """An array of ml_dtypes' bfloat16, which DLPack exporters do not know, as the words that it is."""
    return array.view("uint16")


def _is_bfloat16(array):
    return getattr(array.dtype, "name", "") == "bfloat16"


def _ml_type(name):
    if name != "bfloat16":
        return name
    import ml_dtypes

    return ml_dtypes.bfloat16


class NumPy:
    """numpy.ndarray, also read-only and of ml_dtypes.bfloat16."""

    # By NumPy's letters, which are quicker asked for than types. "H", uint16, is not among them: it
    # would be taken for bfloat16.
    _KNOWN = frozenset("efdBILQilq?")

    def __init__(self, module):
        self._empty, self._dtype = module.empty, functools.cache(module.dtype)

    def give(self, array):
        if array.dtype.char not in self._KNOWN:
            if not _is_bfloat16(array):
                raise TypeError(f"twinops has no arrays of the type {array.dtype}")
            array = _bits(array)
        if array.flags.writeable:
            return array
        try:  # NumPy 2.1 says in the view that it is read-only
            return from_dlpack(array.__dlpack__(max_version=(1, 0)))
        except TypeError:
            return array.copy()

    def give_output(self, array):
        if not array.flags.writeable:
            raise ValueError("an array to be written is read-only")
        return self.give(array)

    def empty(self, like, shape, type):
        if type is None:
            return self._empty(shape, like.dtype)
        return self._empty(shape, self._dtype(_ml_type(type)))

    def type_of(self, array):
        return array.dtype.name

    def stream(self, array):
        return None

    def scratch(self, array):
        return None  # the library's own heap


class NumPyScalar(NumPy):
    """What indexing a NumPy array gives, such as numpy.float32(2): an array without dimensions."""

    def give(self, array):
        return super().give(array[...])


class CuPy:
    """cupy.ndarray, on CuPy's current stream of its device."""

    def __init__(self, module):
        self._cupy = module
        self._scratch = convert(lambda bytes: self.give(module.empty(bytes, "uint8")))

    def give(self, array):
        if _is_bfloat16(array):
            array = _bits(array)
        elif array.dtype == "uint16":
            raise TypeError("twinops has no arrays of the type uint16")
        return from_dlpack(array.__dlpack__(stream=_ON_NO_STREAM))

    give_output = give

    def empty(self, like, shape, type):
        with like.device:
            return self._cupy.empty(shape, like.dtype if type is None else _ml_type(type))

    def type_of(self, array):
        return array.dtype.name

    def stream(self, array):
        with array.device:
            return self._cupy.cuda.get_current_stream().ptr

    def scratch(self, array):
        return self._scratch


class Torch:
    """torch.Tensor, on PyTorch's current stream; without gradients (twinops.torch has them)."""

    def __init__(self, module):
        self._torch = module

    def give(self, array):
        if array.requires_grad and self._torch.is_grad_enabled():
            raise TypeError(
                "twinops' functions of arrays have no gradient: pass x.detach(), or use twinops.torch"
            )
        return array.detach().resolve_neg()  # the sign of a view may be no part of its memory

    def give_output(self, array):
        if array.is_neg():
            raise ValueError("an array to be written is a negated view: torch.empty_like(x)")
        return self.give(array)

    def empty(self, like, shape, type):
        dtype = like.dtype if type is None else getattr(self._torch, type)
        return self._torch.empty(shape, dtype=dtype, device=like.device)

    def type_of(self, array):
        return str(array.dtype).removeprefix("torch.")

    def stream(self, array):
        return None  # tvm-ffi asks PyTorch

    def scratch(self, array):
        return None if array.device.type == "cpu" else self._scratch(array.device)

    @functools.cache
    def _scratch(self, device):
        empty, byte = self._torch.empty, self._torch.uint8
        return convert(lambda bytes: from_dlpack(empty(bytes, dtype=byte, device=device)))


class ArrayApi:
    """Arrays of any library that keeps the Python array API standard."""

    def __init__(self, array):
        self._namespace = array.__array_namespace__()

    def give(self, array):
        return array

    give_output = give

    def empty(self, like, shape, type):
        dtype = like.dtype if type is None else getattr(self._namespace, type)
        return self._namespace.empty(shape, dtype=dtype, device=like.device)

    def type_of(self, array):
        return str(array.dtype).rsplit(".", 1)[-1]

    def stream(self, array):
        return None

    def scratch(self, array):
        return convert(lambda bytes: from_dlpack(self.empty(array, bytes, "uint8")))


class Views:
    """What can only be looked at (__dlpack__): its outputs must be given."""

    def give(self, array):
        return array

    give_output = give

    def empty(self, like, shape, type):
        raise TypeError(
            f"twinops cannot make arrays of the kind {_name(like)}: give the arrays to be written by "
            "the names of the outputs, or hand over a NumPy, CuPy or PyTorch array"
        )

    def type_of(self, array):
        return str(array.dtype)

    def stream(self, array):
        return None

    def scratch(self, array):
        return None


class Jax:
    """A JAX array, which is twinops.jax's."""

    def give(self, array):
        raise TypeError(
            "a JAX array beside arrays of another kind: hand over numpy.asarray(x), or make the first one JAX's"
        )

    def give_output(self, array):
        raise TypeError("JAX's arrays cannot be written")


JAX = Jax()


def _name(array):
    return f"{type(array).__module__}.{type(array).__qualname__}"


@functools.cache
def _made_once(kind, module):
    return kind(sys.modules[module])


_KINDS = {}  # type -> kind


def kind_of(array):
    """The kind of an array; TypeError if it is none."""
    found = _KINDS.get(type(array), False)
    if found is False:
        found = _KINDS[type(array)] = _find(array)
    return found


def _find(array):
    modules = {c.__module__.split(".")[0] for c in type(array).__mro__}
    if modules & {"jax", "jaxlib"}:
        return JAX
    if "numpy" in modules and hasattr(array, "dtype") and not hasattr(array, "__dlpack__"):
        return _made_once(NumPyScalar, "numpy")
    for module, kind in (("numpy", NumPy), ("cupy", CuPy), ("torch", Torch)):
        if module in modules and hasattr(array, "__dlpack__") and hasattr(array, "shape"):
            return _made_once(kind, module)
    if hasattr(array, "__array_namespace__"):
        return ArrayApi(array)
    if hasattr(array, "__dlpack__"):
        return Views()
    raise TypeError(
        f"expected an array that has __dlpack__; got {_name(array)}: lists and numbers are not converted, "
        'numpy.asarray(x, "float32") is one'
    )


def type_name(value):
    """The name of a type that is given as Python's, NumPy's or PyTorch's; None for what is no type."""
    if isinstance(value, type):
        import numpy

        value = numpy.dtype(value)
    if "dtype" not in type(value).__name__.lower():
        return None
    return getattr(value, "name", None) or str(value).removeprefix("torch.")


def numpy():
    """The kind of arrays that are made of nothing."""
    import numpy  # noqa: F401

    return _made_once(NumPy, "numpy")
