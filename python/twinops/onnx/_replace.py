"""Puts twinops' nodes in the places of ONNX's and of ONNX Runtime's own."""

import itertools

import onnx
from onnx import numpy_helper

from twinops.onnx._nodes import DOMAIN, VERSION, make_node

_MICROSOFT = "com.microsoft"
_CONSTANTS = {"value", "value_float", "value_int"}  # what a node Constant says


class _Left(Exception):
    """Why a node stays."""


class _Graph:
    """What the rules ask of the graph that a node is in. `outer` is the one around it, whose names it sees."""

    def __init__(self, model, graph, seed, outer=None):
        self.opset = {o.domain or "ai.onnx": o.version for o in model.opset_import}
        self.seed = seed
        self.subsequences = outer.subsequences if outer else itertools.count(1)
        # From IR version 4 on, what is an input too is a default that a run may override.
        fed = {i.name for i in graph.input} if model.ir_version >= 4 else set()
        self.constants = {t.name: t for t in graph.initializer if t.name not in fed}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name in _CONSTANTS:
                self.constants[node.output[0]] = onnx.helper.get_attribute_value(node.attribute[0])
        self.used = _used(graph)
        shapes = [*graph.value_info, *graph.input, *graph.output]
        self.ranks = {
            v.name: len(v.type.tensor_type.shape.dim)
            for v in shapes
            if v.type.tensor_type.HasField("shape")
        }
        if outer:
            self.constants = {**outer.constants, **self.constants}
            self.ranks = {**outer.ranks, **self.ranks}

    def constant(self, node, place, what, default):
        """The value of an input that must be known when the graph is rewritten."""
        if place >= len(node.input) or not node.input[place]:
            return default
        value = self.constants.get(node.input[place])
        if value is None:
            raise _Left(f"its {what} is not a constant")
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value).reshape(-1)[0].item()
        return value

    def is_used(self, node, place):
        return place < len(node.output) and node.output[place] in self.used

    def drop(self, node, ratio, training=None):
        """Attributes of a dropout: each node draws from a subsequence of its own. The arguments are places
        of inputs; one without training_mode is always training."""
        attributes = _attributes(node)
        p = self.constant(node, ratio, "ratio", 0.5)
        if training is not None and not self.constant(node, training, "training_mode", False):
            raise _Left("it is not training: ONNX Runtime takes it out")
        seed = attributes.get("seed", self.seed)
        return {"p": p, "seed": seed, "subsequence": next(self.subsequences), "advance": 1}

    def drop_grad(self, node, ratio, training):
        p = self.constant(node, ratio, "ratio", 0.5)
        return {"p": p, "training": bool(self.constant(node, training, "training_mode", True))}


def _attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _names(node, *places):
    """Inputs by their places; those that are missing are left out."""
    return {
        name: node.input[i]
        for i, name in enumerate(places)
        if name and i < len(node.input) and node.input[i]
    }


def _softmax(op):
    def rule(graph, node):
        axis = _attributes(node).get("axis", -1 if graph.opset.get("ai.onnx", 13) >= 13 else 1)
        if graph.opset.get("ai.onnx", 13) < 13 and not _is_last(graph, node, axis):
            raise _Left("before opset 13 it flattens all axes from `axis` on")
        return make_node(op, {"x": node.input[0]}, {"out": node.output[0]}, node.name, axis=axis)

    return rule


def _is_last(graph, node, axis):
    return axis == -1 or graph.ranks.get(node.input[0]) == axis + 1


def _softmax_grad(op):
    def rule(graph, node):
        axis = _attributes(node).get("axis", -1)
        inputs = {"dy": node.input[0], "y": node.input[1]}
        return make_node(op, inputs, {"dx": node.output[0]}, node.name, axis=axis)

    return rule


def _outputs(graph, node, bits):
    """{"y": ..., "mask": ...}: a mask of bytes is nothing that twinops' node has."""
    if not bits and graph.is_used(node, 1):
        raise _Left("its mask of bytes is used: twinops' node has a mask of bits")
    outputs = {"y": node.output[0]}
    if graph.is_used(node, 1):
        outputs["mask"] = node.output[1]
    return outputs


def _dropout(bits):
    def rule(graph, node):
        outputs = _outputs(graph, node, bits)
        return make_node(
            "dropout", {"x": node.input[0]}, outputs, node.name, **graph.drop(node, 1, 2)
        )

    return rule


def _bias_dropout(bits):
    def rule(graph, node):
        inputs, outputs = _names(node, "x", "bias", "residual"), _outputs(graph, node, bits)
        attributes = graph.drop(node, 3, 4)
        return make_node("bias_dropout_residual", inputs, outputs, node.name, **attributes)

    return rule


def _dropout_grad(graph, node):
    inputs = _names(node, "dy", "mask")
    attributes = graph.drop_grad(node, 2, 3)
    return make_node("dropout_grad", inputs, {"dx": node.output[0]}, node.name, **attributes)


def _bias_softmax(graph, node):
    axis = _attributes(node).get("axis", 1)
    if not _is_last(graph, node, axis):
        raise _Left("it flattens all axes from `axis` on")
    return make_node("softmax", _names(node, "x", "mask"), {"out": node.output[0]}, node.name)


def _bias_softmax_dropout(graph, node):
    if not _is_last(graph, node, _attributes(node).get("axis", 1)):
        raise _Left("it flattens all axes from `axis` on")
    _outputs(graph, node, False)
    outputs = {"y": node.output[0]}
    if graph.is_used(node, 2):
        outputs["probabilities"] = node.output[2]
    inputs, attributes = _names(node, "x", "mask"), graph.drop(node, 2)
    return make_node("softmax_dropout", inputs, outputs, node.name, **attributes)


_RULES = {
    ("", "Softmax"): _softmax("softmax"),
    ("", "LogSoftmax"): _softmax("log_softmax"),
    ("", "Dropout"): _dropout(bits=False),
    (_MICROSOFT, "BitmaskDropout"): _dropout(bits=True),
    (_MICROSOFT, "BiasDropout"): _bias_dropout(bits=False),
    (_MICROSOFT, "BitmaskBiasDropout"): _bias_dropout(bits=True),
    (_MICROSOFT, "DropoutGrad"): _dropout_grad,
    (_MICROSOFT, "BitmaskDropoutGrad"): _dropout_grad,
    (_MICROSOFT, "SoftmaxGrad_13"): _softmax_grad("softmax_grad"),
    (_MICROSOFT, "LogSoftmaxGrad_13"): _softmax_grad("log_softmax_grad"),
    (_MICROSOFT, "BiasSoftmax"): _bias_softmax,
    (_MICROSOFT, "BiasSoftmaxDropout"): _bias_softmax_dropout,
}


def _inside(graph):
    """The graphs in the graph's nodes (If, Loop, Scan)."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield attribute.g


def _used(graph):
    """The names that the graph, or one inside it, reads or gives."""
    used = {name for node in graph.node for name in node.input}
    used |= {output.name for output in graph.output}
    return used.union(*map(_used, _inside(graph)))


def _remove(graph, constants):
    """Takes out those of the constants that nothing reads any more."""
    unused = constants - _used(graph)
    for tensors in (graph.initializer, graph.input):
        for tensor in [t for t in tensors if t.name in unused]:
            tensors.remove(tensor)
    for node in [n for n in graph.node if n.op_type == "Constant" and n.output[0] in unused]:
        graph.node.remove(node)


def replace(model, seed=0, left=None):
    """A copy of an onnx.ModelProto with twinops' nodes in the places of others:

    Softmax, LogSoftmax; Dropout that is training; and of ONNX Runtime's own (domain com.microsoft)
    BitmaskDropout, BiasDropout, BitmaskBiasDropout, DropoutGrad, BitmaskDropoutGrad, SoftmaxGrad_13,
    LogSoftmaxGrad_13, BiasSoftmax, BiasSoftmaxDropout.

    seed: of dropouts that have none of their own; each draws from a subsequence of its own and goes on in
    it from run to run. left: a list to which (node, why it stays) is added for each of these that cannot be
    replaced, such as a dropout whose ratio is no constant.
    """
    replaced = onnx.ModelProto()
    replaced.CopyFrom(model)
    left = [] if left is None else left
    _replace(replaced, replaced.graph, seed, left)
    for function in replaced.functions:
        for node in function.node:
            if _rule(node):
                left.append((_name(node), "it is in a function: onnx.inliner.inline_local_functions(model)"))
    if not any(o.domain == DOMAIN for o in replaced.opset_import):
        replaced.opset_import.append(onnx.helper.make_opsetid(DOMAIN, VERSION))
    return replaced


def _replace(model, graph, seed, left, outer=None):
    """Replaces nodes of a graph of the model, and of those inside it."""
    known, constants = _Graph(model, graph, seed, outer), set()
    for node in graph.node:
        rule = _rule(node)
        if rule is None:
            continue
        before = set(node.input)
        try:
            node.CopyFrom(rule(known, node))
            constants |= before
        except _Left as reason:
            left.append((_name(node), str(reason)))
    for inside in _inside(graph):
        constants |= _replace(model, inside, seed, left, known)
    constants &= set(known.constants)
    _remove(graph, constants)
    return constants


def _rule(node):
    return _RULES.get((node.domain.replace("ai.onnx", ""), node.op_type))


def _name(node):
    return node.name or node.output[0]
