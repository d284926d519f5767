"""Gradients: an operator `<op>` of the table is differentiated by its operator `<op>_grad`. What of the
forward pass that one takes, and what its outputs are gradients of, is read from their names."""

import functools

import jax
import numpy as np
from jax.custom_derivatives import SymbolicZero

from twinops import _outputs
from twinops._native import operators
from twinops.jax._plugin import Config, call

# Inputs whose gradient is that of the first output as it is.
_PASSED_ON = {("bias_dropout_residual", "residual")}

# Gradients that are linear in the first output's: the operator that is the gradient of the gradient.
# The others have no second derivative here, and XLA's refusal says so.
_ADJOINT = {
    "dropout_grad": "dropout_grad",
    "random_projection_grad": "random_projection",
    "random_projection": "random_projection_grad",
}


@functools.cache
def _sources(op):
    """What the inputs of the gradient are to the forward operator: ("input" | "output" | "gradient",
    name); None if it is nothing there."""
    table = operators()[op]
    first, found = table.outputs[0].name, {}
    outputs, inputs = {a.name for a in table.outputs}, {a.name for a in table.inputs}
    for argument in operators()[op + "_grad"].inputs:
        name = argument.name
        if name == "dy" or name[1:] in outputs and name[0] == "d":
            found[name] = ("gradient", first if name == "dy" else name[1:])
        elif name in outputs or name == "y":
            found[name] = ("output", name if name in outputs else first)
        elif name in inputs:
            found[name] = ("input", name)
        elif argument.is_required:
            raise NotImplementedError(f"{op}: {op}_grad takes {name}, which the operator has not")
    return found


@functools.cache
def _differentiable(op):
    """The inputs of an operator that have a gradient."""
    gradients = {a.name[1:] for a in operators()[op + "_grad"].outputs}
    names = [a.name for a in operators()[op].inputs]
    return {n for n in names if n in gradients or (op, n) in _PASSED_ON} | (
        {"bias"} if "dbias" in gradients else set()
    )


def has_gradient(op):
    return op + "_grad" in operators()


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def differentiable(config, inputs):
    """call(config, inputs) of an operator that has a gradient."""
    return call(config, inputs)


def _forward(config, inputs):
    _refuse(config.op, inputs)
    wanted = {name for name, x in inputs.items() if getattr(x, "perturbed", False)}
    inputs = jax.tree.map(lambda x: x.value, inputs, is_leaf=lambda x: hasattr(x, "perturbed"))
    outputs = differentiable(config, inputs)
    kept = {}
    for name, (kind, source) in _sources(config.op).items():
        value = {"input": inputs, "output": outputs, "gradient": {}}[kind].get(source)
        if value is not None and (name not in _outputs.MASKS or _reads_masks(config.op, wanted)):
            kept[name] = value
    shapes = {n: jax.ShapeDtypeStruct(v.shape, v.dtype) for n, v in inputs.items()}
    shardings = {n: _sharding(v) for n, v in inputs.items()}
    return outputs, (kept, _Static((shapes, shardings, wanted)))


def _reads_masks(op, wanted):
    return _outputs.needs_masks(op, not wanted.isdisjoint(_outputs.MASKS))


def _sharding(x):
    """The sharding that is part of x's type: along axes of a mesh that are Explicit. None if there is none."""
    sharding = jax.typeof(x).sharding
    types = getattr(sharding.mesh, "axis_types", ())
    return sharding if jax.sharding.AxisType.Explicit in types else None


class _Static:
    """What is kept beside arrays."""

    def __init__(self, value):
        self.value = value


jax.tree_util.register_pytree_node(_Static, lambda s: ((), s.value), lambda value, _: _Static(value))


def _refuse(op, inputs):
    """An input that somebody wants the gradient of, and that has none, would silently learn nothing."""
    for name, value in inputs.items():
        if getattr(value, "perturbed", False) and name not in _differentiable(op):
            if np.issubdtype(value.value.dtype, np.floating):
                raise TypeError(f"{op}: {name} has no gradient: pass jax.lax.stop_gradient({name})")


def _backward(config, residuals, cotangents):
    kept, (shapes, shardings, wanted) = residuals[0], residuals[1].value
    first = operators()[config.op].outputs[0].name
    gradient = {}
    for name, (kind, source) in _sources(config.op).items():
        if kind == "gradient":
            gradient[name] = _instantiate(cotangents[source])
    results = _gradient(_gradient_config(config, kept, shapes, wanted), {**kept, **gradient})
    found = {}
    for name, shape in shapes.items():
        if (config.op, name) in _PASSED_ON:
            found[name] = _instantiate(cotangents[first])
        elif f"d{name}" in results:
            found[name] = results[f"d{name}"]
        elif name == "bias" and not _is_on_demand(config.op, "dbias"):  # of x's shape: its gradient is x's
            found[name] = results["dx"]
        else:
            found[name] = None
        if found[name] is not None and shardings[name] is not None:
            found[name] = jax.sharding.reshard(found[name], shardings[name])
    return (found,)


def _instantiate(cotangent):
    """The gradient of an output that nobody used is 0."""
    if isinstance(cotangent, SymbolicZero):
        return jax.numpy.zeros(cotangent.shape, cotangent.dtype)
    return cotangent


def _is_on_demand(op, name):
    return any(o.name == name and o.on_demand for o in _outputs.outputs(op + "_grad"))


def _gradient_config(config, kept, shapes, wanted):
    op = config.op + "_grad"
    known, asked = operators()[op].attributes, {}
    left = () if _reads_masks(config.op, wanted) else _outputs.CAUSAL
    attributes = tuple((n, v) for n, v in config.attributes if n in known and n not in left)
    size = shapes["x"].shape[-1] if config.size is not None else None
    on_demand = {o.name for o in _outputs.outputs(op) if o.on_demand}
    asked.update({name: "same" for name in on_demand if name[1:] in wanted})
    if "dbias" in {a.name for a in operators()[op].outputs} - on_demand:
        bias = shapes.get("bias")
        of_rows = bias is not None and bias.shape != shapes["x"].shape
        asked["dbias"] = "same" if of_rows else None
    # dx may be the gradient that it is made from: XLA knows whether that is still needed.
    if shapes["x"].dtype != kept.get("y", kept.get("probabilities", shapes["x"])).dtype:
        asked["dx"] = shapes["x"].dtype.name
    return Config(op, attributes, tuple(sorted(asked.items())), size, vmap=_vmap_of(op))


def _vmap_of(op):
    """Rows of the softmax family do not know of each other: a batch of calls is a call of more rows."""
    return "broadcast_all" if op in ("softmax_grad", "log_softmax_grad") else "sequential"


def _gradient(config, inputs):
    return linear(config, inputs) if config.op in _ADJOINT else call(config, inputs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def linear(config, inputs):
    """call(config, inputs) of an operator that is linear in its first input."""
    return call(config, inputs)


def _linear_forward(config, inputs):
    first = operators()[config.op].inputs[0].name
    others = {name: value for name, value in inputs.items() if name != first}
    return linear(config, inputs), (others, _Static(inputs[first].shape))


def _linear_backward(config, residuals, cotangents):
    others, shape = residuals[0], residuals[1].value
    adjoint = _ADJOINT[config.op]
    given, made = operators()[config.op], operators()[adjoint]
    size = shape[-1] if config.size is not None else None
    back = linear(
        config._replace(op=adjoint, size=size),
        {made.inputs[0].name: cotangents[given.outputs[0].name], **others},
    )
    found = dict.fromkeys(others)
    found[given.inputs[0].name] = back[made.outputs[0].name]
    return (found,)


differentiable.defvjp(_forward, _backward, symbolic_zeros=True)
linear.defvjp(_linear_forward, _linear_backward)
