"""torch.onnx.export with twinops.onnx.translation_table: what ONNX Runtime computes of the graph has the bits
of PyTorch's eager mode."""

import warnings

import pytest
import torch
from core import assert_same_bits
from tensors import TYPES, sample

import twinops.torch as tt
from twinops.torch import _plugin
from twinops.torch import functional as F

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import twinops.onnx  # noqa: E402

ops = torch.ops.twinops


class _Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def export(module, inputs, seed=0, **more):
    if not isinstance(module, torch.nn.Module):
        module = _Module(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = twinops.onnx.translation_table(seed)
        program = torch.onnx.export(
            module, inputs, dynamo=True, verbose=False, custom_translation_table=table, **more
        )
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program.model_proto


def nodes(model):
    return [n.op_type for n in model.graph.node if n.domain == "twinops"]


def session(model):
    options = twinops.onnx.register(onnxruntime.SessionOptions())
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def run(session, inputs):
    names = [i.name for i in session.get_inputs()]
    results = session.run(None, {n: t.numpy() for n, t in zip(names, inputs)})
    return [torch.from_numpy(r.copy()) for r in results]


def compare(module, inputs, **more):
    expected = module(*inputs)
    model = export(module, inputs, **more)
    for given, wanted in zip(
        run(session(model), inputs), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        assert_same_bits(given, wanted.detach())
    return model


def _as_float(t):
    return t.float() if t.dtype == torch.bfloat16 else t  # NumPy has no bfloat16


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_operator_is_its_node(dtype, rng):
    samples = {op: sample(op, rng, dtype) for op in _plugin.functional_names()}
    inputs = tuple(t for tensors, _ in samples.values() for t in tensors.values())
    narrow = [t.dtype == torch.bfloat16 for t in inputs]

    def module(*inputs):
        given = iter([t.bfloat16() if n else t for t, n in zip(inputs, narrow)])
        found = []
        for op, (tensors, attributes) in samples.items():
            if attributes.get("mask_type") == "bool":  # a node's mask has one bit an element
                attributes["mask_type"] = "uint32"
            results = getattr(ops, op)(**{name: next(given) for name in tensors}, **attributes)
            found += results if isinstance(results, tuple) else (results,)
        return tuple(_as_float(t) for t in found if t.numel())

    model = compare(module, tuple(map(_as_float, inputs)))
    assert nodes(model) == list(samples)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_results_of_another_type(dtype):
    x = torch.randn(5, 70)

    def module(x):
        y = F.softmax(x.to(dtype), -1, dtype=torch.float32, scale=0.3)
        dx = ops.softmax_grad(y, x, dx_type=str(dtype).removeprefix("torch."))[0]
        z = F.log_softmax(x.to(dtype), -1, dtype=torch.float32, mask=x[0].to(dtype))
        return y, dx.float(), z

    compare(module, (x,))


class _Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = tt.Dropout(0.1)

    def forward(self, scores, lengths):
        weights = F.softmax_dropout(scores, 0.1, training=self.training, lengths=lengths, scale=0.25)
        return self.drop(weights), F.log_softmax(scores, 1)


def test_a_module_that_infers_at_any_size():
    inputs = torch.randn(2, 5, 16), torch.tensor([3, 5])
    sizes = {"scores": {0: "batch", 1: "rows"}, "lengths": {0: "batch"}}
    module = _Attention().eval()
    model = compare(module, inputs, dynamic_shapes=sizes)
    assert nodes(model) == ["softmax", "log_softmax"]
    inputs = torch.randn(3, 9, 16), torch.tensor([9, 1, 4])
    for given, wanted in zip(run(session(model), inputs), module(*inputs), strict=True):
        assert_same_bits(given, wanted)


def _seed(seed, subsequence, run):
    """What a draw of a graph gives: two words of a sequence of its own, as a number of 62 bits."""
    words = F.philox_words((2,), seed, 4 * run, subsequence=subsequence)
    low, high = ((w & 0xFFFF_FFFF) >> 1 for w in words.tolist())
    return low + (high << 31)


def test_dropouts_draw_from_run_to_run():
    x = torch.randn(4, 40)

    def module(x):
        return F.dropout(x, 0.5), F.bias_dropout_residual(x, x[0], x, 0.3)

    model = export(module, (x,), seed=9)
    for _ in range(2):  # a new session begins again
        s = session(model)
        for i in range(3):
            dropped, added = run(s, (x,))
            expected = ops.dropout(x, p=0.5, seed=_seed(9, 1, i))[0]
            assert_same_bits(dropped, expected)
            expected = ops.bias_dropout_residual(x, x[0], x, p=0.3, seed=_seed(9, 2, i))[0]
            assert_same_bits(added, expected)


def test_a_patched_model():
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)

    class Attention(torch.nn.Module):
        def forward(self, x):
            return layer.self_attn(x, x, x, need_weights=True)[1]

    x = torch.randn(2, 5, 16)
    with tt.patched():
        model = export(Attention().train(), (x,))
    assert {"softmax", "dropout"} <= set(nodes(model))
    weights = run(session(model), (x,))[0]
    assert weights.shape == (2, 5, 5) and torch.isfinite(weights).all()


@pytest.mark.parametrize(
    "words, function, dtype",
    [
        ("a node's mask has one bit an element", lambda x: ops.dropout(x, mask_type="bool")[1], None),
        ("an ONNX attribute is a float32", lambda x: F.dropout(x, 0.1), torch.float64),
    ],
)
def test_what_a_node_has_not_is_refused(words, function, dtype):
    with pytest.raises(Exception) as raised:
        export(function, (torch.randn(4, 8, dtype=dtype),))
    reasons, error = [], raised.value
    while error is not None:
        reasons.append(str(error))
        error = error.__cause__
    assert any(words in reason for reason in reasons), reasons
