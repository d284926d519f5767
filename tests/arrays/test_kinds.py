"""Kinds of arrays beside NumPy's: results are of the caller's kind, with NumPy's bits. Those that are
not installed here, or have no GPU, are skipped."""

import core
import numpy as np
import pytest
from examples import isas
from samples import sample, sizes
from snippets import run

import twinops
from twinops import _outputs


class Exported:
    """An array that has __dlpack__ and nothing else."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Standard(Exported):
    """One of a library that keeps the array API standard."""

    device = "cpu"
    float32, uint32 = np.float32, np.uint32

    def __init__(self, array):
        super().__init__(array)
        self.shape, self.dtype = array.shape, array.dtype

    def __array_namespace__(self):
        return Standard

    @classmethod
    def empty(cls, shape, dtype, device):
        assert device == "cpu"
        return cls(np.empty(shape, dtype))


def cupy():
    module = pytest.importorskip("cupy")
    try:
        module.empty(1)
    except Exception as error:
        pytest.skip(f"CuPy has no GPU: {error}")
    return module


def torch_devices():
    torch = pytest.importorskip("torch")
    return ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]


def test_what_can_only_be_looked_at_needs_its_outputs(rng):
    x = rng.standard_normal([3, 8]).astype("f4")
    out = np.empty_like(x)
    twinops.softmax(Exported(x), out=Exported(out))
    core.assert_same(out, twinops.softmax(x))
    with pytest.raises(TypeError, match="cannot make arrays of the kind .*Exported"):
        twinops.softmax(Exported(x))


def test_the_array_api_standard(rng):
    x = rng.standard_normal([3, 8]).astype("f4")
    y, mask = twinops.dropout(Standard(x), p=0.25, seed=3)
    assert type(y) is Standard and type(mask) is Standard
    expected = twinops.dropout(x, p=0.25, seed=3)
    core.assert_same(y._array, expected[0])
    core.assert_same(mask._array, expected[1])


SCRATCH = """
import numpy as np
import twinops
from tvm_ffi import convert
from twinops import _kinds

x = np.random.default_rng(1).standard_normal([1, 300_000]).astype("f4")
expected = twinops.softmax(x)
made = []

def empty(bytes):
    made.append(np.full(bytes, 0xCA, "u1"))
    return made[-1]

scratch = convert(empty)
_kinds.NumPy.scratch = lambda self, array: scratch
assert (twinops.softmax(x) == expected).all()
assert made
"""


def test_scratch_memory_is_made_as_the_kind_says(tmp_path, monkeypatch):
    """The core needs it on a GPU, and on the CPU for a long row that two threads share."""
    isas()  # the scalar kernels have one thread
    monkeypatch.setenv("TWINOPS_THREADS", "2")
    run(SCRATCH, None, tmp_path)


def test_cupy(rng):
    cp = cupy()
    for dtype in ("float16", "float32", "float64"):
        x = rng.standard_normal([7, 300]).astype(dtype)
        with cp.cuda.Stream(non_blocking=True):
            there = cp.asarray(x)
            y, mask = twinops.dropout(twinops.softmax(there), p=0.25, seed=3)
            ours = y.get(), mask.get()
        assert type(y) is cp.ndarray and y.device == there.device
        expected = twinops.dropout(twinops.softmax(x), p=0.25, seed=3)
        core.assert_same(ours[0], expected[0])
        core.assert_same(ours[1], expected[1])


@pytest.mark.covers("CUDA")
@pytest.mark.parametrize("op", list(twinops.operators()))
def test_cupy_has_every_operator(op, rng):
    cp = cupy()
    s = sample(op, rng, "float32")
    there = lambda v: list(map(cp.asarray, v)) if isinstance(v, list) else cp.asarray(v)  # noqa: E731
    where = {"shape": s.shape, "like": cp.empty(1)} if s.shape else {}
    inputs = {k: there(v) for k, v in s.inputs.items()}
    results = getattr(twinops, op)(**where, **sizes(op, s), **inputs, **s.attributes, **s.asked)
    results = results if isinstance(results, tuple) else (results,)
    expected = core.run(op, *s)
    made = [o for o in _outputs.outputs(op) if not o.on_demand or o.name in s.asked]
    for output, ours in zip(made, results, strict=True):
        pairs = zip(ours, expected[output.name]) if output.is_list else [(ours, expected[output.name])]
        for a, b in pairs:
            core.assert_same(a.get(), b, f"{op}: {output.name}")


def test_cupy_scratch_memory(rng):
    cp = cupy()
    dy = rng.standard_normal([4096, 1024]).astype("f4")
    dx, dbias = twinops.bias_dropout_residual_grad(cp.asarray(dy), seed=1)
    expected = twinops.bias_dropout_residual_grad(dy, seed=1)
    core.assert_same(dx.get(), expected[0])
    core.assert_same(dbias.get(), expected[1])


def test_cupy_is_made_of_nothing_on_a_device():
    cp = cupy()
    ours = twinops.uniform((5, 7), like=cp.empty(1), seed=3)
    assert type(ours) is cp.ndarray
    core.assert_same(ours.get(), twinops.uniform((5, 7), seed=3))


def test_torch(rng):
    devices = torch_devices()
    import torch

    x = rng.standard_normal([7, 300]).astype("f4")
    expected = twinops.dropout(twinops.softmax(x), p=0.25, seed=3)
    for device in devices:
        there = torch.from_numpy(x).to(device)
        y, mask = twinops.dropout(twinops.softmax(there), p=0.25, seed=3)
        assert type(y) is torch.Tensor and y.device == there.device and mask.dtype == torch.uint32
        core.assert_same(y.cpu().numpy(), expected[0])
        core.assert_same(mask.cpu().numpy(), expected[1])
    with pytest.raises(TypeError, match="no gradient"):
        twinops.softmax(there.requires_grad_())


def test_a_negated_view_of_torch_is_negative(rng):
    torch = pytest.importorskip("torch")
    z = torch.from_numpy(rng.standard_normal([3, 8]).astype("c8")).conj().imag
    assert z.is_neg()
    core.assert_same(twinops.softmax(z).numpy(), twinops.softmax(np.asarray(z.resolve_neg())))
    with pytest.raises(ValueError, match="negated view"):
        twinops.softmax(z.resolve_neg(), out=z)


def test_outputs_may_be_of_another_kind(rng):
    torch = pytest.importorskip("torch")
    x, out = rng.standard_normal([3, 8]).astype("f4"), torch.empty(3, 8)
    assert twinops.softmax(x, out=out) is out
    core.assert_same(out.numpy(), twinops.softmax(x))
    there = np.empty_like(x)
    core.assert_same(twinops.softmax(torch.from_numpy(x), out=there), out.numpy())
    there.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        twinops.softmax(torch.from_numpy(x), out=there)
    assert twinops.softmax(x, out=torch.float16).dtype == np.float16
    made, found = twinops.check_finite_and_unscale([x, out], np.float32(2))
    assert [type(a) for a in made] == [np.ndarray, torch.Tensor] and not found


def test_jax_beside_another_kind_is_refused():
    jnp = pytest.importorskip("jax.numpy")
    x = np.ones([3, 8], "f4")
    with pytest.raises(TypeError, match="a JAX array beside"):
        twinops.softmax(x, mask=jnp.zeros(8))
    with pytest.raises(TypeError, match="cannot be written"):
        twinops.softmax(x, out=jnp.zeros([3, 8]))
    assert twinops.softmax(jnp.asarray(x), mask=x[0], out=np.float16).dtype == np.float16
