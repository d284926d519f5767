"""torch.ops.twinops.*: every operator of the table, its bits beside those of the C++ core, PyTorch's own
check of custom operators, meta tensors, refusals."""

import subprocess
import sys

import pytest
import torch
from core import assert_same_bits, run
from tensors import TYPES, sample, to

import twinops.torch
from twinops import operators
from twinops.torch import _plugin

ops = torch.ops.twinops
FUNCTIONAL = _plugin.functional_names()
# Each with what its sample has, and those whose samples have masks of all kinds without any.
CALLS = [(op, False) for op in FUNCTIONAL] + [("softmax", True), ("log_softmax", True)]
IN_PLACE = [op for op in operators() if _plugin.is_in_place(op)]
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def _copy(value):
    return [t.clone() for t in value] if isinstance(value, list) else value.clone()


def _core(op, tensors, attributes, outputs):
    """What the C++ core gives for the call: it writes into copies of `outputs`, by name."""
    table = operators()[op]
    known = {n: v for n, v in attributes.items() if n in table.attributes}
    given = {n: t for n, t in tensors.items() if any(a.name == n for a in table.arguments)}
    made = {n: torch.zeros_like(t) for n, t in outputs.items() if t is not None}
    words = [n for n in made if made[n].dtype == torch.int32]
    run(op, {**given, **made}, known, words)
    return made


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op, alone", CALLS)
def test_functional_operator_has_the_bits_of_the_core(op, alone, dtype, rng, device):
    tensors, attributes = sample(op, rng, dtype)
    if alone:
        tensors, attributes = {"x": tensors["x"]}, {}
    given = getattr(ops, op)(**to(device, tensors), **attributes)
    given = given if isinstance(given, tuple) else (given,)
    names = [r.name for r in _plugin.results(op)]
    asked = {
        name: result.cpu()
        for name, result in zip(names, given)
        if not (result.dtype == torch.uint8 and result.numel() == 0)
    }
    assert len(asked) == sum(
        not r.optional or attributes.get(r.type_attribute, "") != "" for r in _plugin.results(op)
    )
    for name, expected in _core(op, tensors, attributes, asked).items():
        assert_same_bits(asked[name], expected)
    # Without a gradient; its sizes are no part of the text.
    sizes = {r.shape.removeprefix("last:") for r in _plugin.results(op)} & attributes.keys()
    text = _plugin.packed({n: v for n, v in attributes.items() if n not in sizes})
    again = getattr(ops, f"_{op}")(**to(device, tensors), **{n: attributes[n] for n in sizes}, **text)
    for result, expected in zip(again if isinstance(again, tuple) else (again,), given):
        assert_same_bits(result, expected)


@pytest.mark.parametrize(
    "text, message",
    [
        ("axes=0", 'there is no "axes"'),
        ("axis", 'expected NAME=VALUE; got "axis"'),
        ("causal=true", 'causal: got "true"'),
        ("causal=True;axis=1.0", 'axis: got "1.0"'),
        ("axis=99999999999999999999", "axis: got"),
        ("scale=2.0", 'there is no "scale"'),  # a float has its own place
    ],
)
def test_an_attribute_text_that_cannot_be_read_is_refused(text, message, device):
    with pytest.raises(RuntimeError, match=message):
        ops._softmax(torch.randn(3, 4, device=device), attributes=text)


@pytest.mark.parametrize("op", FUNCTIONAL)
def test_out_writes_what_the_functional_operator_gives(op, rng, device):
    tensors, attributes = sample(op, rng, torch.float32)
    tensors = to(device, tensors)
    given = getattr(ops, op)(**tensors, **attributes)
    given = given if isinstance(given, tuple) else (given,)
    results = _plugin.results(op)
    outputs = {
        r.name: torch.full_like(t, 7)
        for r, t in zip(results, given)
        if not (t.dtype == torch.uint8 and t.numel() == 0)
    }
    own = {n: v for n, v in attributes.items() if n in operators()[op].attributes}
    before = {n: t._version for n, t in outputs.items()}
    operands = {n: t for n, t in tensors.items() if n != "like"}
    assert getattr(ops, op).out(**operands, **own, **outputs) is None
    for r, t in zip(results, given):
        if r.name in outputs:
            assert_same_bits(outputs[r.name], t)
            assert outputs[r.name]._version == before[r.name] + 1


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", IN_PLACE)
def test_list_operator_writes_what_the_core_writes(op, dtype, rng, device):
    tensors, attributes = sample(op, rng, dtype)
    here = to(device, {n: _copy(t) for n, t in tensors.items()})
    versions = [t._version for t in here["x"]]
    assert getattr(ops, f"{op}_")(**here, **attributes) is None
    assert [t._version for t in here["x"]] == [v + 1 for v in versions]
    there = {n: _copy(t) for n, t in tensors.items()}
    aliases = {"out": there["x"]}
    for a in operators()[op].arguments:
        if a.is_output and a.name.endswith("_out"):
            aliases[a.name] = there[a.name.removesuffix("_out")]
    run(op, {**there, **aliases}, attributes)
    for name, value in there.items():
        for x, y in zip(*([v] if not isinstance(v, list) else v for v in (here[name], value))):
            assert_same_bits(x.cpu(), y)


@pytest.mark.parametrize("op", list(operators()))
def test_pytorch_finds_nothing_wrong(op, rng, device):
    tensors, attributes = sample(op, rng, torch.float32)
    tensors = to(device, tensors)
    name = f"{op}_" if op in IN_PLACE else op
    if op in FUNCTIONAL:
        tensors = {
            n: t.requires_grad_() if t.is_floating_point() and n != "like" else t
            for n, t in tensors.items()
        }
    overload = getattr(ops, name).default
    names = [a.name for a in overload._schema.arguments]
    positional = [tensors.get(n) for n in names[: 1 + max(map(names.index, tensors))]]  # they come first
    torch.library.opcheck(overload, tuple(positional), attributes, test_utils=CHECKS)


@pytest.mark.parametrize("op", FUNCTIONAL)
def test_meta_tensors_have_the_shapes_of_real_ones(op, rng):
    tensors, attributes = sample(op, rng, torch.bfloat16)
    real = getattr(ops, op)(**tensors, **attributes)
    meta = getattr(ops, op)(**to("meta", tensors), **attributes)
    for r, m in zip(*(v if isinstance(v, tuple) else (v,) for v in (real, meta))):
        assert (r.shape, r.dtype, r.stride()) == (m.shape, m.dtype, m.stride())


@pytest.mark.parametrize("shape, permute", [((4, 3, 5, 6), (0, 2, 3, 1)), ((3, 4), (1, 0))])
def test_results_keep_the_order_of_axes(shape, permute, device):
    x = torch.randn(shape, device=device).permute(permute)
    for y in (ops.softmax(x, axis=-1), ops.dropout(x, seed=3)[0]):
        assert y.stride() == torch.empty_like(x).stride()
    assert_same_bits(ops.softmax(x, axis=1), ops.softmax(x.contiguous(), axis=1))


def test_strided_and_empty_tensors(device):
    x = torch.randn(6, 8, device=device)[::2, 1::2]
    assert_same_bits(ops.softmax(x), ops.softmax(x.contiguous()))
    y, mask = ops.dropout(torch.empty(0, 5, device=device), mask_type="uint32")
    assert y.shape == (0, 5) and mask.shape == (0,)


def _negated(x):
    """A view that is equal to x, and whose memory has -x."""
    y = torch.complex(torch.zeros_like(x), -x).conj().imag
    assert y.is_neg() and torch.equal(y, x)
    return y


def test_negated_views_are_written(device):
    x = torch.randn(6, 8, device=device)
    zeros = torch.zeros_like(x)
    for negated in (_negated(x), x):
        out, scale = _negated(zeros), torch.full((1,), 2.0, device=device)
        ops.softmax.out(negated, out=out)
        assert_same_bits(out, ops.softmax(x))
        assert out.is_neg() and out._version == 1
        y, mask = _negated(zeros), torch.zeros(2, dtype=torch.int32, device=device)
        ops.dropout.out(negated, p=0.5, seed=7, y=y, mask=mask)
        for given, expected in zip((y, mask), ops.dropout(x, p=0.5, seed=7, mask_type="uint32")):
            assert_same_bits(given, expected)
        written, found = _negated(x), _negated(scale)
        ops.check_finite_and_unscale_([written, x.clone()], scale, found, reset=True)
        assert_same_bits(written, x / 2)
        assert found.item() == 0
    y = _negated(x)
    assert twinops.torch.functional.dropout(y, 0.5, inplace=True) is y
    assert ((y == 0) | (y == 2 * x)).all() and (y == 0).any()


def test_refusals_carry_our_message_and_write_nothing(device):
    x = torch.randn(3, 4, device=device)
    with pytest.raises(RuntimeError, match="softmax: axis: expected -2 to 1; got 2"):
        ops.softmax(x, axis=2)
    with pytest.raises(RuntimeError, match="softmax: x: expected float16, bfloat16.*; got int64"):
        ops.softmax(torch.ones(3, dtype=torch.int64, device=device))
    with pytest.raises(RuntimeError, match="softmax: x: expected float16, .*; got another type"):
        ops.softmax(torch.ones(3, dtype=torch.complex64, device=device))
    out = torch.full((3, 5), 7.0, device=device)
    with pytest.raises(RuntimeError, match="out: expected the shape of x"):
        ops.softmax.out(x, out=out)
    assert (out == 7).all()
    with pytest.raises(RuntimeError, match=r'mask_type: expected "same", "" for none or a type'):
        ops.dropout(x, mask_type="float64")
    with pytest.raises(RuntimeError, match="requires grad"):
        ops.softmax.out(x.clone().requires_grad_(), out=torch.empty_like(x))


def test_the_reason_of_a_refusal_of_pytorchs_is_told(capfd):
    """Later versions of PyTorch keep it for whoever asks, earlier ones have printed it."""
    with pytest.raises(RuntimeError, match="PyTorch refused memory for a new tensor") as refusal:
        ops.softmax(torch.empty(1).expand(1 << 45))
    assert "you tried to allocate 140737488355328 bytes" in str(refusal.value) + capfd.readouterr().err


def test_an_old_pytorch_is_refused():
    with pytest.raises(ImportError, match="needs PyTorch 2.10 or later; this is 2.9.1"):
        _plugin.check_version((2, 9), "2.9.1")


def test_threads_of_pytorch_give_the_same_bits():
    x, threads = torch.randn(513, 257), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = ops.softmax(x), ops.dropout(x, seed=5)[0]
        torch.set_num_threads(2)
        two = ops.softmax(x), ops.dropout(x, seed=5)[0]
    finally:
        torch.set_num_threads(threads)
    for a, b in zip(one, two):
        assert_same_bits(a, b)

def test_the_process_ends_well():
    """PyTorch takes every operator out when a process ends; two that look alike would end it badly."""
    code = "import torch, twinops.torch; torch._C._jit_get_all_schemas()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert run.returncode == 0, run.stderr
