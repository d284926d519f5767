"""A transformer's encoder layer that reads scikit-learn's handwritten digits, as an ONNX graph: the rows of
a digit are eight tokens, which look at each other. The graph is run by ONNX Runtime as it is, and again
with twinops' nodes in the places of its Softmax nodes.

    python run.py                 # how far the two are apart, and the digest of each
    TWINOPS_ISA=sse2 python run.py

twinops' digest is the same on every instruction set. The layer's weights are random; what reads digits is
a linear layer on top of it, fitted by least squares.
"""

import hashlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import twinops.onnx

TOKENS, WIDTH, HEADS, CLASSES = 8, 64, 4, 10
FEATURES = TOKENS * WIDTH


def weights(rng):
    def random(rows, columns):
        return (rng.standard_normal([rows, columns]) / rows**0.5).astype("float32")

    names = {"embed": (8, WIDTH), "up": (WIDTH, WIDTH)}
    names.update({name: (WIDTH, WIDTH) for name in ("q", "k", "v", "o")})
    found = {name: random(*shape) for name, shape in names.items()}
    found["place"] = random(TOKENS, WIDTH)
    return found


def encoder(head=None):
    """The graph from pixels [batch, 8, 8] to features; with a head, to probabilities and scores."""
    values = weights(np.random.default_rng(0))
    split = np.array([0, TOKENS, HEADS, WIDTH // HEADS], "int64")
    values |= {"split": split, "joined": np.array([0, TOKENS, WIDTH], "int64")}
    values |= {"flat": np.array([0, FEATURES], "int64")}
    values |= {"scale": np.array((WIDTH // HEADS) ** -0.5, "float32")}
    nodes = []

    def add(op, *inputs, **attributes):
        output = f"{op}{len(nodes)}"
        nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def heads(x, weight, *order):
        return add("Transpose", add("Reshape", add("MatMul", x, weight), "split"), perm=order)

    x = add("Add", add("MatMul", "pixels", "embed"), "place")
    scores = add("MatMul", heads(x, "q", 0, 2, 1, 3), heads(x, "k", 0, 2, 3, 1))
    attention = add("Softmax", add("Mul", scores, "scale"), axis=-1)
    mixed = add("Transpose", add("MatMul", attention, heads(x, "v", 0, 2, 1, 3)), perm=[0, 2, 1, 3])
    x = add("Add", x, add("MatMul", add("Reshape", mixed, "joined"), "o"))
    x = add("Add", x, add("Relu", add("MatMul", x, "up")))
    result, width = add("Reshape", x, "flat"), FEATURES
    if head is not None:
        values["head"] = head
        result, width = add("Softmax", add("MatMul", result, "head"), axis=-1), CLASSES
    outputs = [(result, ["batch", width]), (attention, ["batch", HEADS, TOKENS, TOKENS])]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 8, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def run(model, pixels):
    options = twinops.onnx.register(onnxruntime.SessionOptions())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"pixels": pixels})


def main():
    digits = load_digits()
    pixels = (digits.images / 16).astype("float32")
    x, unseen, labels, unseen_labels = train_test_split(
        pixels, digits.target, test_size=0.2, random_state=0
    )
    features = run(encoder(), x)[0]
    targets = 10 * np.eye(CLASSES, dtype="float32")[labels]
    gram = features.T @ features + np.eye(FEATURES, dtype="float32")
    model = encoder(np.linalg.solve(gram, features.T @ targets).astype("float32"))

    replaced = twinops.onnx.replace(model)
    onnx.checker.check_model(replaced, full_check=True)
    own, ours = run(model, unseen), run(replaced, unseen)
    # The attention's probabilities: what comes before it is ONNX Runtime's in both graphs.
    digest = hashlib.sha256(ours[1].tobytes()).hexdigest()[:16]
    apart = np.abs(own[1] - ours[1]).max()
    accuracy = (ours[0].argmax(1) == unseen_labels).mean()
    count = sum(node.domain == "twinops" for node in replaced.graph.node)
    print(f"{count} nodes replaced, attention {digest}, apart at most {apart:.1e}, accuracy {accuracy:.3f}")


main()
