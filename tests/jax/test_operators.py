"""Every operator of the table through XLA: its bits are those of the core called directly, on CPUs and
CUDA devices, inside jit and out; what is refused, and how."""

import core
import jax
import numpy as np
import pytest
from samples import TYPES, sample, sizes

import twinops
import twinops.jax as tj
from twinops import _outputs
from twinops.jax import _plugin

NAMES = list(twinops.operators())


def compare(op, results, expected):
    assert set(results) == set(expected)
    for name, value in expected.items():
        pairs = zip(results[name], value) if isinstance(value, list) else [(results[name], value)]
        for ours, theirs in pairs:
            assert isinstance(ours, jax.Array)
            core.assert_same(ours, theirs, f"{op}: {name}")


def run(s, op):
    return tj.run(op, s.inputs, s.attributes, asked=s.asked, shape=s.shape, size=s.size)


@pytest.mark.covers("CPU")
@pytest.mark.covers("compiled")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", NAMES)
def test_an_operator_gives_the_bits_of_the_core(op, dtype, rng, device):
    with jax.enable_x64(dtype == "float64"):
        s = sample(op, rng, dtype)
        there = s._replace(inputs=jax.device_put(s.inputs, device))
        expected = core.run(op, *s)
        results = run(there, op)
        assert all(x.devices() == {device} for x in jax.tree.leaves(results))
        compare(op, results, expected)
        compare(op, jax.jit(lambda inputs: run(s._replace(inputs=inputs), op))(there.inputs), expected)


@pytest.mark.parametrize("op", NAMES)
def test_a_program_names_the_operator(op, rng):
    s = sample(op, rng, "float32")
    text = jax.jit(lambda inputs: run(s._replace(inputs=inputs), op)).lower(s.inputs).as_text()
    assert f"custom_call @{_plugin.target(op)}" in text


def test_functions_of_arrays_take_jax_arrays(rng, device):
    pytest.importorskip("tvm_ffi")
    for op in NAMES:
        s = sample(op, rng, "float32")
        inputs = jax.device_put(s.inputs, device)
        where = sizes(op, s)
        if s.shape:
            where.update(shape=s.shape, like=jax.device_put(np.ones(1, "f4"), device))
        results = getattr(twinops, op)(**where, **inputs, **s.attributes, **s.asked)
        names = [o.name for o in _outputs.outputs(op) if not o.on_demand or o.name in s.asked]
        results = dict(zip(names, results if len(names) > 1 else (results,), strict=True))
        compare(op, {k: v for k, v in results.items() if v is not None}, core.run(op, *s))
    with pytest.raises(TypeError, match="cannot be written"):
        twinops.softmax(jax.numpy.ones(3), out=jax.numpy.ones(3))


@pytest.mark.parametrize("rows, columns", [(1, 300_000), (700, 1000), (40_000, 3)])
def test_work_that_threads_share(rows, columns, rng, device):
    x = rng.standard_normal([rows, columns]).astype("f4")
    core.assert_same(tj.softmax(jax.device_put(x, device)), core.run("softmax", {"x": x})["out"])
    y = tj.dropout(3, jax.device_put(x, device), 0.1)
    core.assert_same(y, core.run("dropout", {"x": x}, {"p": 0.1, "seed": 3})["y"])


def test_scratch_memory(rng, device):
    """Of a GPU's kernels, from XLA. In a command buffer it would be another's when the program runs again."""
    x = rng.standard_normal([2000, 64]).astype("f4")
    bias = rng.standard_normal([64]).astype("f4")
    row = rng.standard_normal([8, 200_000]).astype("f4")
    mask = rng.standard_normal([8, 1]).astype("f4")

    def program(x, bias, row, mask):
        loss = lambda x, b: (tj.bias_dropout_residual(3, x, bias=b, rate=0.1) * x).sum()  # noqa: E731
        masked = lambda m: (tj.log_softmax(row[:, :500], mask=m) * row[:, :500]).sum()  # noqa: E731
        dmask = jax.grad(masked)(mask)
        both = tj.softmax(row[:, :500], mask=mask, bias=row[0, :500])
        return jax.grad(loss, 1)(x, bias), tj.softmax(row), tj.random_projection(5, row, 4), dmask, both

    given = [jax.device_put(v, device) for v in (x, bias, row, mask)]
    compiled = jax.jit(program)
    expected = jax.tree.map(np.asarray, program(*given))
    core.assert_same(expected[1], core.run("softmax", {"x": row})["out"])
    for _ in range(4):
        results = compiled(*given)
        others = [jax.numpy.full_like(given[2], 7) for _ in range(3)]  # where freed memory was
        for ours, theirs in zip(compiled(*given), expected):
            core.assert_same(ours, theirs)
        del results, others


def test_many_calls_at_once(rng):
    """More calls that want threads than XLA's pool has: none waits for ever."""
    xs = [rng.standard_normal([300, 2000]).astype("f4") for _ in range(16)]
    program = jax.jit(lambda xs: [tj.softmax(x) for x in xs])
    for _ in range(3):
        results = program(xs)
    for x, y in zip(xs, results):
        core.assert_same(y, core.run("softmax", {"x": x})["out"])


def test_empty_arrays(device):
    for shape in ([0], [0, 5], [5, 0]):
        x = np.empty(shape, "f4")
        assert tj.softmax(x).shape == x.shape
        assert tj.dropout(1, x).shape == x.shape
        y, mask = tj.bitmask_dropout(1, x)
        assert mask.shape == (0,)
    _, found = tj.check_finite_and_unscale([np.empty([0], "f4")], np.float32(2))
    assert not found


X = np.ones([2, 3], "f4")


@pytest.mark.parametrize(
    "error, words, wrong",
    [
        (Exception, "dropout: p: expected a probability", lambda: tj.dropout(0, X, 1.5)),
        (Exception, "softmax: x: .*int32", lambda: tj.softmax(X.astype("i4"))),
        (ValueError, "axis 2 is not one", lambda: tj.softmax(X, axis=2)),
        (TypeError, r"axis: expected one int; got \(0, 1\)", lambda: tj.softmax(X, axis=(0, 1))),
        (ValueError, "axis 2 is not one", lambda: tj.dropout(0, X, broadcast_dims=(2,))),
        (TypeError, "p: .*static_argnames", lambda: jax.jit(lambda p: tj.dropout(0, X, p))(0.5)),
        (TypeError, "k: .*static", lambda: jax.jit(lambda k: tj.random_projection(0, X, k))(2)),
        (ValueError, "mask: expected 'bits'", lambda: tj.dropout(0, X, mask="word")),
        (ValueError, "where and mask", lambda: tj.softmax(X, where=X > 0, mask=X > 0)),
        (TypeError, "expected a JAX key or an int", lambda: tj.dropout(0.5, X)),
        (TypeError, "expected one JAX key", lambda: tj.dropout(jax.random.split(jax.random.key(0)), X)),
        (TypeError, "no operator is named soft_max", lambda: tj.run("soft_max", {"x": X})),
        (TypeError, "has no attribute axes", lambda: tj.run("softmax", {"x": X}, {"axes": 1})),
        (TypeError, "has no input y", lambda: tj.run("softmax", {"y": X})),
        (TypeError, "x: expected an array; got None", lambda: tj.run("softmax", {})),
        (TypeError, "out: cannot be left out", lambda: tj.run("softmax", {"x": X}, asked={"out": None})),
        (ValueError, "out: expected an array to write", lambda: tj.softmax(X, dtype="int32")),
    ],
)
def test_refusals(error, words, wrong):
    with pytest.raises(error, match=words):
        jax.block_until_ready(wrong())
