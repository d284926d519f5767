"""twinops.dropout(x), twinops.softmax(x) and the others: every operator of the table as a function of
arrays that have __dlpack__, made from the table when it is first asked for."""

import functools
import inspect
import operator

from twinops import _outputs
from twinops._native import find, library, operators

TVM_FFI = "0.1.15.post2"  # its ABI is not promised from one 0.1.x to the next
_INSTALL = f"`python -m pip install apache-tvm-ffi=={TVM_FFI}`"


@functools.cache
def _run():
    """The function of hosts/arrays/arrays.cpp."""
    try:
        import tvm_ffi
    except ImportError as error:
        raise ImportError(
            f"twinops' functions of arrays need apache-tvm-ffi ({error}): {_INSTALL}"
        ) from error
    if tuple(tvm_ffi.__version__.split(".")[:3]) != tuple(TVM_FFI.split(".")[:3]):
        raise ImportError(
            f"twinops' functions of arrays were built for apache-tvm-ffi {TVM_FFI}; this is "
            f"{tvm_ffi.__version__}: {_INSTALL}"
        )
    library()
    plugin = find("libtwinops_arrays.so", "the part of twinops for arrays")
    return tvm_ffi.load_module(str(plugin)).run


class _Plan:
    """What a call of an operator needs to know, worked out once."""

    def __init__(self, name):
        self.run = _run()  # says what is missing, before what follows needs it
        from twinops import _kinds

        self.op = operators()[name]
        self.kind_of, self.numpy, self.jax = _kinds.kind_of, _kinds.numpy, _kinds.JAX
        self.type_name = _kinds.type_name
        self.outputs = _outputs.outputs(name)
        places = {a.name: 3 + i for i, a in enumerate(self.op.arguments)}
        self.inputs = [(places[a.name], a, a.is_list, a.is_required) for a in self.op.inputs]
        names = [a.name for a in self.op.inputs]
        self.made = [
            (
                places[o.name],
                o,
                names.index(o.like) if o.like else None,
                o.like and o.shape == "same" and not o.type and not o.is_list,  # just like its input
            )
            for o in self.outputs
        ]
        self.blank = [self.op.address, None, None, *[None] * len(self.op.arguments)]
        self.fresh = [
            (list(self.op.attributes).index(k), v)
            for k, v in _outputs.FRESH.get(name, {}).items()
        ]


def _first(inputs):
    for value in inputs:
        if isinstance(value, (list, tuple)):
            value = value[0] if value else None
        if value is not None:
            return value
    return None


def _shape_of(shape):
    try:
        return (operator.index(shape),)
    except TypeError:
        return tuple(map(operator.index, shape))


def call(plan, inputs, asked, attributes, size=None, shape=None, like=None):
    """Calls an operator. `inputs` and `asked` are in the table's order; of an output "same" or a type
    asks for a new array, None leaves it out (one that is made on demand alone is then not among the
    results), and an array is written. An operator whose output is like no input takes its shape, and an
    array whose kind it is to be."""
    first = _first(inputs) if like is None else like
    if first is None and shape is None:
        raise TypeError(f"{plan.op.name}: expected an array; got none")
    kind = plan.kind_of(first) if first is not None else plan.numpy()
    if kind is plan.jax:
        from twinops.jax.functional import _for_arrays

        return _for_arrays(plan, inputs, asked, attributes, size, shape)
    arguments = plan.blank.copy()
    if first is not None:
        arguments[1], arguments[2] = kind.stream(first), kind.scratch(first)
    for (place, argument, is_list, is_required), value in zip(plan.inputs, inputs):
        if value is None:
            if is_required:
                raise TypeError(f"{plan.op.name}: {argument.name}: expected an array; got None")
        elif is_list:
            arguments[place] = tuple(plan.kind_of(v).give(v) for v in value)
        else:
            arguments[place] = plan.kind_of(value).give(value)
    results, is_fresh = [], bool(plan.fresh)
    for (place, output, model, is_alike), want in zip(plan.made, asked):
        if is_alike and isinstance(want, str) and want == "same":
            made = kind.empty(inputs[model], getattr(inputs[model], "shape", None), None)
            arguments[place] = kind.give(made)
        elif want is None:
            if output.is_required:
                raise TypeError(f"{plan.op.name}: {output.name}: cannot be left out")
            if output.on_demand:
                continue
            made = None
        else:
            if not isinstance(want, str):
                want = plan.type_name(want) or want
            if not isinstance(want, str):
                made, is_fresh = want, is_fresh and output.is_list
                _check_shape(plan.op, output, made, shape, size)
            elif output.is_list:
                made = [plan.kind_of(x).empty(x, x.shape, None) for x in inputs[model]]
            else:
                made = _new(kind, output, want, first if model is None else inputs[model], shape, size)
            if output.is_list:
                arguments[place] = tuple(plan.kind_of(x).give_output(x) for x in made)
            else:
                arguments[place] = plan.kind_of(made).give_output(made)
        results.append(made)
    if is_fresh:
        for place, value in plan.fresh:
            attributes[place] = value
    plan.run(*arguments, *attributes)
    return results[0] if len(results) == 1 else tuple(results)


def _check_shape(op, output, made, shape, size):
    """What the call says of an output's shape holds for an array that is given, too."""
    found = getattr(made, "shape", None)
    if found is None or not output.shape == "resized" and shape is None:
        return
    expected = (*found[:-1], size) if shape is None else shape
    if tuple(found) != tuple(expected):
        raise ValueError(
            f"{op.name}: {output.name}: expected the shape {list(expected)}; got {list(found)}"
        )


def _new(kind, output, want, model, shape, size):
    if want == "same":
        type = output.type or None
    else:
        type = output.type_for(want, "")
    like = getattr(model, "shape", ()) if shape is None else shape
    return kind.empty(model, output.shape_for(type, like, size), type)


# ---- the functions -------------------------------------------------------------------------------


def word(value):
    """An integer as the int64 that holds its lowest 64 bits. TypeError for what is none, 0.5."""
    value = operator.index(value)
    if not -(1 << 63) <= value < 1 << 63:
        value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    return value


def text(value):
    """A str, or integers as the text "2,3" that the operators take."""
    return value if isinstance(value, str) else ",".join(str(operator.index(v)) for v in value)


_CONVERT = {bool: "bool", int: "_word", float: "float", str: "_text"}


def _parameters(plan):
    """What the function takes: (name, default or None, documentation)."""
    op, parameters = plan.op, []
    no_model = all(not o.like for o in plan.outputs)
    if no_model:
        parameters.append(("shape", "", "int or tuple of int: the shape of the output."))
    for argument in op.inputs:
        if argument.is_required:
            kind = "list of arrays" if argument.is_list else "array"
            parameters.append((argument.name, "", f"{kind}, {_types(argument)}. {argument.doc}"))
    parameters += [
        (o.size, "", "int: the last dimension of the output.") for o in plan.outputs if o.size
    ]
    parameters.append(("*", "", ""))
    if no_model:
        parameters.append(("like", "None", "array: its kind and its device; else NumPy's."))
    for argument in op.inputs:
        if not argument.is_required:
            parameters.append((argument.name, "None", f"array, {_types(argument)}. {argument.doc}"))
    for argument, output in zip(op.outputs, plan.outputs):
        doc = f'"same", a type ({_types(argument)}) or the array to write'
        doc += ". " if output.is_required else ", or None to leave it out. "
        parameters.append((output.name, repr(output.default), doc + argument.doc))
    for name, default in op.attributes.items():
        info = op.attribute_info[name]
        choices = f"; {', '.join(info.choices)}" if info.choices else ""
        doc = f"{type(default).__name__}{choices}. {info.doc}"
        parameters.append((name, repr(default), doc))
    return parameters


def _types(argument):
    return ", ".join(argument.types)


def _doc(plan, parameters):
    lines = [plan.op.doc, "", "Parameters", "----------"]
    for name, default, doc in parameters:
        if name != "*":
            lines += [f"{name}" + (f" = {default}" if default else ""), f"    {doc}"]
    names = ", ".join(o.name for o in plan.outputs)
    lines += ["", "Returns", "-------", names, "    Of the kind and on the device of the inputs."]
    if any(not o.is_required for o in plan.outputs):
        lines.append("    What is left out is None.")
    lines += ["", "Raises", "------", "ValueError: a call that the operator refuses."]
    lines.append("TypeError: what is no array, or of a type that twinops has not.")
    return "\n".join(lines)


@functools.cache
def function(name):
    """The function of the operator `name`."""
    plan = _Plan(name)
    parameters = _parameters(plan)
    signature = ", ".join(n + (f"={d}" if d else "") for n, d, _ in parameters)
    inputs = "".join(a.name + ", " for a in plan.op.inputs)
    asked = "".join(o.name + ", " for o in plan.outputs)
    attributes = ", ".join(
        f"None if {n} == {d!r} else {_CONVERT[type(d)]}({n})" for n, d in plan.op.attributes.items()
    )
    size = next((o.size for o in plan.outputs if o.size), "None")
    no_model = all(not o.like for o in plan.outputs)
    more = ", _shape_of(shape), like" if no_model else ""
    source = (
        f"def {name}({signature}):\n"
        f"    return _call(_plan, ({inputs}), ({asked}), [{attributes}], {size}{more})\n"
    )
    scope = {"_call": call, "_plan": plan, "_word": word, "_text": text, "_shape_of": _shape_of}
    exec(compile(source, f"<twinops.{name}>", "exec"), scope)
    made = scope[name]
    made.__module__, made.__doc__ = "twinops", inspect.cleandoc(_doc(plan, parameters))
    return made
