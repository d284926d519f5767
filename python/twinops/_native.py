"""The native half of the package: where its files are, and the operator table of libtwinops.so, read
through the C ABI of include/twinops/twinops.h."""

import ctypes
import functools
import pathlib
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).parent / "native"
ABI_VERSION = 1


def find(name, what):
    """The path of a file of the native half; ImportError says what to do without it."""
    path = FOLDER / name
    if not path.exists():
        raise ImportError(
            f"{what} is missing: there is no {path}. Python found the sources of twinops, or a "
            "package that was installed in part. Install it with `python -m pip install .` in "
            "twinops' folder, and run Python elsewhere."
        )
    return path


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class AttributeValue(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("kind", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("int_value", ctypes.c_int64),
        ("float_value", ctypes.c_double),
        ("string_value", ctypes.c_char_p),
    ]

    def value(self):
        kinds = (
            lambda: bool(self.int_value),
            lambda: self.int_value,
            lambda: self.float_value,
            lambda: self.string_value.decode(),
        )
        return kinds[self.kind]()


class ArgumentInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("is_output", ctypes.c_int32),
        ("is_list", ctypes.c_int32),
        ("is_required", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("types", ctypes.POINTER(DataType)),
        ("type_count", ctypes.c_size_t),
    ]


class AttributeInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("doc", ctypes.c_char_p),
        ("choices", ctypes.c_char_p),
        ("default_value", AttributeValue),
    ]


class OperatorInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("arguments", ctypes.POINTER(ctypes.POINTER(ArgumentInfo))),
        ("argument_count", ctypes.c_size_t),
        ("attributes", ctypes.POINTER(ctypes.POINTER(AttributeInfo))),
        ("attribute_count", ctypes.c_size_t),
    ]


class Argument(NamedTuple):
    """An argument of an operator: a tensor or, if is_list, any number of them. `types` are the names of
    the element types that it may have, "float16"."""

    name: str
    doc: str
    is_output: bool
    is_list: bool
    is_required: bool
    types: tuple


class Attribute(NamedTuple):
    """`choices`: the words that a string may be; else empty."""

    doc: str
    choices: tuple


class Operator(NamedTuple):
    """A line of the operator table: `arguments` is a tuple of Argument, `attributes` maps each
    attribute's name to its default, a bool, int, float or str, and `attribute_info` to its Attribute.
    `address` is that of the operator's description in the library."""

    name: str
    doc: str
    arguments: tuple
    attributes: dict
    attribute_info: dict
    address: int

    @property
    def inputs(self):
        return [a for a in self.arguments if not a.is_output]

    @property
    def outputs(self):
        return [a for a in self.arguments if a.is_output]


@functools.cache
def library():
    """libtwinops.so, loaded and of the ABI version that this file speaks."""
    loaded = ctypes.CDLL(str(find(f"libtwinops.so.{ABI_VERSION}", "twinops' library")))
    if loaded.twinops_abi_version() != ABI_VERSION:
        raise ImportError(
            f"{FOLDER} holds a twinops of ABI version {loaded.twinops_abi_version()}; this package "
            f"speaks version {ABI_VERSION}. Install twinops again: `python -m pip install .`"
        )
    loaded.twinops_version.restype = ctypes.c_char_p
    loaded.twinops_operator_count.restype = ctypes.c_size_t
    loaded.twinops_operator_at.argtypes = [ctypes.c_size_t]
    loaded.twinops_operator_at.restype = ctypes.POINTER(OperatorInfo)
    loaded.twinops_type_name.argtypes = [DataType]
    loaded.twinops_type_name.restype = ctypes.c_char_p
    return loaded


def version():
    """The version of the library, "0.1.0". ImportError as operators()."""
    return library().twinops_version().decode()


def _argument(info):
    return Argument(
        info.name.decode(),
        info.doc.decode(),
        bool(info.is_output),
        bool(info.is_list),
        bool(info.is_required),
        tuple(
            library().twinops_type_name(info.types[i]).decode() for i in range(info.type_count)
        ),
    )


def _operator(info):
    arguments = (info.arguments[i].contents for i in range(info.argument_count))
    attributes = [info.attributes[i].contents for i in range(info.attribute_count)]
    defaults = {a.default_value.name.decode(): a.default_value.value() for a in attributes}
    rest = (
        Attribute(a.doc.decode(), tuple(a.choices.decode().split("|")) if a.choices else ())
        for a in attributes
    )
    return Operator(
        info.name.decode(),
        info.doc.decode(),
        tuple(map(_argument, arguments)),
        defaults,
        dict(zip(defaults, rest)),
        ctypes.addressof(info),
    )


@functools.cache
def operators():
    """The operator table of the library: a dict, name -> Operator. ImportError if the library is not
    there or has another ABI version."""
    table = (
        _operator(library().twinops_operator_at(i).contents)
        for i in range(library().twinops_operator_count())
    )
    return {op.name: op for op in table}
