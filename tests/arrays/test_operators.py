"""Every operator of the table as a function of NumPy arrays: its bits are those of the core called
directly; its signature, its documentation and its refusals."""

import inspect
import pathlib
import runpy
import subprocess
import sys

import core
import ml_dtypes
import numpy as np
import pytest
from samples import TYPES, sample, sizes

import twinops
from twinops import _outputs

NAMES = list(twinops.operators())


def call(op, s, **more):
    where = sizes(op, s)
    where.update({"shape": s.shape} if s.shape else {})
    return getattr(twinops, op)(**where, **s.inputs, **s.attributes, **{**s.asked, **more})


def as_dict(op, results, asked=()):
    outputs = [o for o in _outputs.outputs(op) if not o.on_demand or o.name in asked]
    results = results if len(outputs) > 1 else (results,)
    return {o.name: r for o, r in zip(outputs, results, strict=True) if r is not None}


def compare(op, results, expected):
    assert set(results) == set(expected)
    for name, value in expected.items():
        pairs = zip(results[name], value) if isinstance(value, list) else [(results[name], value)]
        for ours, theirs in pairs:
            assert isinstance(ours, np.ndarray)
            core.assert_same(ours, theirs, f"{op}: {name}")


@pytest.mark.covers("CPU")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", NAMES)
def test_an_operator_gives_the_bits_of_the_core(op, dtype, rng):
    s = sample(op, rng, dtype)
    expected = core.run(op, *s)
    compare(op, as_dict(op, call(op, s), s.asked), expected)


@pytest.mark.parametrize("op", NAMES)
def test_inputs_may_be_read_only_and_strided(op, rng):
    def hidden(x):
        if x.size < 2:
            return x
        wide = np.empty((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        view = wide[..., 1::2]
        view[...] = x
        view.flags.writeable = False
        return view

    s = sample(op, rng, "float32")
    # A list is written in place by nobody: its outputs are new.
    inputs = {
        k: list(map(hidden, v)) if isinstance(v, list) else hidden(v) for k, v in s.inputs.items()
    }
    before = {k: np.copy(v) for k, v in inputs.items() if not isinstance(v, list)}
    compare(op, as_dict(op, call(op, s._replace(inputs=inputs)), s.asked), core.run(op, *s))
    for name, value in before.items():
        core.assert_same(inputs[name], value, f"{op} wrote into {name}")


@pytest.mark.parametrize("op", NAMES)
def test_outputs_may_be_given(op, rng):
    s = sample(op, rng, "float32")
    expected = core.run(op, *s)
    empty = {
        k: [np.full_like(x, 3) for x in v] if isinstance(v, list) else np.full_like(v, 0)
        for k, v in expected.items()
    }
    results = as_dict(op, call(op, s, **empty), {**s.asked, **empty})
    compare(op, results, expected)
    for name, value in empty.items():
        assert results[name] is value


@pytest.mark.parametrize("op", NAMES)
def test_signature_and_documentation_come_from_the_table(op):
    function, table = getattr(twinops, op), twinops.operators()[op]
    parameters = inspect.signature(function).parameters
    assert function.__name__ == op and function.__module__ == "twinops"
    for argument in table.arguments:
        assert argument.name in parameters
        assert argument.doc in function.__doc__
    for name, default in table.attributes.items():
        assert parameters[name].default == default
        assert table.attribute_info[name].doc in function.__doc__


def test_the_readme_example():
    x = np.ones([2, 8], "f4")
    y, mask = twinops.dropout(x, p=0.5, seed=7)
    assert y.dtype == np.float32 and mask.dtype == np.uint32 and mask.shape == (1,)
    kept = (int(mask[0]) >> np.arange(16) & 1).reshape(2, 8)
    assert np.array_equal(y, kept * np.float32(2))
    assert twinops.dropout(x, p=0.5, seed=7, mask=None)[1] is None


def test_in_place(rng):
    x = rng.standard_normal([5, 70]).astype("f4")
    expected = twinops.softmax(x)
    assert twinops.softmax(x, out=x) is x
    core.assert_same(x, expected)


def test_found_inf_of_the_caller_is_added_to():
    """One that we make begins as 0; the caller's own is reset by nobody but him."""
    gradients, scale = [np.ones(3, "f4")], np.full([1], 2, "f4")
    found = np.full([1], True)
    twinops.check_finite_and_unscale(gradients, scale, found_inf=found)
    assert found[0]
    assert not twinops.check_finite_and_unscale(gradients, scale)[1][0]
    twinops.check_finite_and_unscale(gradients, scale, found_inf=found, reset=True)
    assert not found[0]


def test_wider_types_can_be_asked_for(rng):
    x = rng.standard_normal([3, 9]).astype(ml_dtypes.bfloat16)
    wide = twinops.softmax(x, out="float32")
    core.assert_same(wide, core.run("softmax", {"x": x}, asked={"out": "float32"})["out"])
    narrow = twinops.softmax(x.astype("f4"), out="bfloat16")
    assert narrow.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("seed", [2**64 - 1, -1, np.uint64(2**64 - 1)])
def test_a_seed_is_its_lowest_64_bits(seed):
    words = twinops.philox_words(8, seed=seed)
    core.assert_same(words, core.run("philox_words", {}, {"seed": -1}, shape=(8,))["words"])


def test_axes_may_be_numbers(rng):
    x = rng.standard_normal([4, 3, 5]).astype("f4")
    a, _ = twinops.dropout(x, seed=1, shared_axes=(1, 2))
    b, _ = twinops.dropout(x, seed=1, shared_axes="1,2")
    core.assert_same(a, b)


X = np.ones([2, 3], "f4")


def test_types_may_be_numpys_and_pythons():
    for type in (np.float16, np.dtype("float16"), "float16"):
        assert twinops.softmax(X, out=type).dtype == np.float16
    assert twinops.softmax(X, out=ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    assert twinops.dropout(X, mask=bool)[1].dtype == bool


def test_numpys_scalars_are_arrays():
    out, found = twinops.check_finite_and_unscale([X], np.float32(4))
    assert (out[0] == 0.25).all() and not found and found.shape == ()
    assert twinops.dropout(np.float32(3), training=False)[0] == 3


def test_a_shape_may_be_any_integers():
    for shape in ((2, 3), [2, 3], np.array([2, 3])):
        assert twinops.uniform(shape).shape == (2, 3)
    assert twinops.uniform(np.int64(3)).shape == (3,)


@pytest.mark.parametrize(
    "error, words, wrong",
    [
        (ValueError, "dropout: p: expected a probability", lambda: twinops.dropout(X, p=2.0)),
        (ValueError, "axis", lambda: twinops.softmax(X, axis=5)),
        (ValueError, "mode", lambda: twinops.dropout(X, mode="up")),
        (ValueError, "mask: expected an array to write", lambda: twinops.dropout(X, mask="f4")),
        (ValueError, "read-only", lambda: twinops.softmax(X, out=np.broadcast_to(X, (2, 3)))),
        (ValueError, "float", lambda: twinops.softmax(X.astype("i4"))),
        (TypeError, "uint16", lambda: twinops.softmax(X.astype("u2"))),
        (TypeError, "expected an array", lambda: twinops.softmax(None)),
        (TypeError, "__dlpack__; got builtins.list", lambda: twinops.log_softmax([[1.0, 2.0]])),
        (TypeError, "__dlpack__; got builtins.float", lambda: twinops.softmax(1.0)),
        (TypeError, "out: cannot be left out", lambda: twinops.softmax(X, out=None)),
        (TypeError, "'float' object cannot be", lambda: twinops.softmax(X, axis=0.5)),
        (TypeError, "'float' object cannot be", lambda: twinops.uniform(3, seed=0.5)),
        (ValueError, "expected the shape .3.; got .4.", lambda: twinops.uniform(3, out=np.empty(4, "f4"))),
        (ValueError, "y: expected the shape .2, 5.; got", lambda: twinops.random_projection(X, 5, y=X.copy())),
        (TypeError, "unexpected keyword", lambda: twinops.softmax(X, axes=1)),
        (AttributeError, "no attribute 'soft_max'", lambda: twinops.soft_max),
    ],
)
def test_refusals(error, words, wrong):
    with pytest.raises(error, match=words):
        wrong()


def test_what_is_not_installed_is_named():
    program = """
import sys
sys.modules["tvm_ffi"] = None
import numpy, twinops
twinops.softmax(numpy.ones(3))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode != 0
    assert "need apache-tvm-ffi" in ran.stderr and "pip install" in ran.stderr.splitlines()[-1]


def test_a_build_finds_tvm_ffi_by_pythons_before_3_10_too(monkeypatch, capsys):
    monkeypatch.delattr("importlib.metadata.packages_distributions", raising=False)
    finder = pathlib.Path(__file__).parents[2] / "hosts" / "find_package.py"
    monkeypatch.setattr(sys, "argv", [str(finder), "tvm_ffi", "apache-tvm-ffi"])
    runpy.run_path(str(finder))
    folder, version = capsys.readouterr().out.split()
    assert pathlib.Path(folder).name == "tvm_ffi" and version.startswith("0.")
