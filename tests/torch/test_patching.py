"""patch(): models and code that know nothing of twinops."""

import contextlib
import io
import os
import pickle
import subprocess
import sys
import threading
import types

import pytest
import torch
import torch._dynamo
from core import assert_same_bits, seeded
from torch import nn
from torch.fx.operator_schemas import normalize_function

import twinops.torch as tt
from twinops.torch import functional as F

NN = torch.nn.functional


def test_names_are_put_in_and_taken_out():
    before = (NN.softmax, NN.dropout, torch.softmax, torch.Tensor.softmax, torch.amp.GradScaler)
    report = tt.patch()
    assert tt.patch() == report  # twice is as good as once
    assert "torch.nn.functional.softmax" in report.replaced
    assert any("scaled_dot_product_attention" in line for line in report.left_alone)
    assert torch.amp.GradScaler is tt.GradScaler and NN.softmax is not before[0]
    tt.unpatch()
    assert before == (NN.softmax, NN.dropout, torch.softmax, torch.Tensor.softmax, torch.amp.GradScaler)
    assert "softmax" not in vars(torch.Tensor)  # it is of the base class


def test_blocks_may_overlap():
    original = NN.dropout
    first, second = tt.patched(), tt.patched()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert NN.dropout is not original
    tt.unpatch()  # of a patch() that nobody called
    assert NN.dropout is not original
    second.__exit__(None, None, None)
    assert NN.dropout is original


def test_threads_may_patch():
    original, interval, wrong = NN.dropout, sys.getswitchinterval(), []

    def patch_and_unpatch():
        try:
            for _ in range(30):
                tt.patch()
                tt.unpatch()
        except Exception as error:
            wrong.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=patch_and_unpatch) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == [] and NN.dropout is original


def test_both_names_of_the_scaler_are_ours():
    theirs = torch.GradScaler
    assert theirs is torch.amp.GradScaler
    with tt.patched():
        assert torch.GradScaler is torch.amp.GradScaler is tt.GradScaler
    assert torch.GradScaler is theirs


# Dynamo takes these for one call each and does not look into them.
_ATTENTION = nn.MultiheadAttention(16, 4, dropout=0.5)
_CALLERS = {
    "attention": lambda x: _ATTENTION(x, x, x)[1],
    "gumbel_softmax": lambda x: NN.gumbel_softmax(x, 0.7),
}


@pytest.mark.parametrize("call", _CALLERS.values(), ids=_CALLERS)
@pytest.mark.parametrize("first", [False, True], ids=["plain_first", "patched_first"])
def test_compiled_code_follows_patch_and_unpatch(call, first):
    torch._dynamo.reset()
    x = torch.randn(5, 2, 16)
    compiled = torch.compile(call, backend="aot_eager")
    for patched in (first, not first, first):
        with tt.patched() if patched else contextlib.nullcontext():
            assert_same_bits(seeded(compiled)(x), seeded(call)(x))


_KEPT = """
import sys, torch
attention, x = torch.nn.MultiheadAttention(16, 4, dropout=0.5), torch.ones(5, 2, 16)
if sys.argv[1] == "patch":
    import twinops.torch as tt
    tt.patch()
f = lambda x: attention(x, x, x)[1] != 0
torch.manual_seed(1)
compiled = torch.compile(f)(x)
torch.manual_seed(1)
assert sys.argv[1] == "plain" or torch.equal(compiled, f(x))  # inductor has masks of its own
"""


def test_graphs_on_disk_are_not_mixed_up(tmp_path):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    for how in ("plain", "patch"):
        subprocess.run([sys.executable, "-c", _KEPT, how], env=environment, check=True)


def test_a_dropout_is_exported_for_all_sizes():
    model, size = nn.Dropout(0.5), torch.export.Dim("size", min=2, max=1024)
    with tt.patched():
        program = torch.export.export(model, (torch.ones(4, 3),), dynamic_shapes=({0: size},)).module()
        x = torch.randn(70, 3)
        y = seeded(model)(x)
        assert y.eq(0).any()
        assert_same_bits(seeded(program)(x), y)


def test_functions_imported_before_are_told():
    module = types.ModuleType("somebodys_model")
    module.my_softmax = NN.softmax
    sys.modules["somebodys_model"] = module
    try:
        with tt.patched() as report:
            assert any("somebodys_model.my_softmax" in line for line in report.left_alone)
    finally:
        del sys.modules["somebodys_model"]


@pytest.mark.parametrize("name, call, ours", [
    ("F.softmax", lambda x: NN.softmax(x, dim=-1), lambda x: F.softmax(x, -1)),
    ("torch.softmax", lambda x: torch.softmax(x, 1, torch.float64), lambda x: F.softmax(x.double(), 1)),
    ("method", lambda x: x.log_softmax(0), lambda x: F.log_softmax(x, 0)),
    ("F.dropout", lambda x: NN.dropout(x, 0.3), lambda x: F.dropout(x, 0.3)),
    ("torch.dropout", lambda x: torch.dropout(x, 0.3, True), lambda x: F.dropout(x, 0.3)),
    ("nn.Dropout", nn.Dropout(0.3), lambda x: F.dropout(x, 0.3)),
    ("nn.Softmax", nn.Softmax(-1), lambda x: F.softmax(x, -1)),
    ("nn.Dropout1d", nn.Dropout1d(0.3), lambda x: F.dropout1d(x, 0.3)),
])
def test_patched_names_compute_by_twinops(name, call, ours, device):
    x = torch.randn(4, 5, 6, device=device)
    with tt.patched():
        given = seeded(call)(x)
    assert_same_bits(given, seeded(ours)(x))


def test_a_module_made_under_patch_is_pickled():
    with tt.patched():
        layer = nn.TransformerDecoderLayer(8, 2, 8, activation=NN.softmax)
        assert pickle.loads(pickle.dumps(layer)).activation is layer.activation


@pytest.mark.parametrize("function", [
    NN.softmax, NN.dropout, torch.softmax, torch.dropout, torch.Tensor.softmax, torch.Tensor.log_softmax,
])
def test_functions_are_pickled_by_pytorchs_names(function):
    found = [(o, n) for o in (NN, torch, torch.Tensor) for n in dir(o) if getattr(o, n) is function]
    with tt.patched():
        owner, name = found[0]
        ours = getattr(owner, name)
        kept = pickle.dumps(ours)
        assert ours is not function and pickle.loads(kept) is ours
    assert pickle.loads(kept) is function


@pytest.mark.parametrize("call", [NN.softmax, NN.log_softmax, NN.softmin], ids=lambda f: f.__name__)
def test_a_warning_is_of_the_callers_line(call):
    with tt.patched():
        with pytest.warns(UserWarning, match="Implicit dimension") as told:
            getattr(NN, call.__name__)(torch.ones(2, 3))
    assert told[0].filename == __file__


def test_forward_mode_under_patch_is_pytorchs():
    x = torch.randn(3, 4, dtype=torch.float64)

    def f(x):
        return (NN.dropout(x, 0.0).softmax(-1) * NN.log_softmax(x, 0)).sum()

    def results():
        return torch.func.hessian(f)(x), torch.func.jvp(f, (x,), (x,)), torch.func.jacfwd(f)(x)

    expected = results()
    with tt.patched():
        torch.testing.assert_close(results(), expected, rtol=0, atol=0)
        for backend in ("eager", "aot_eager"):  # whose graphs call PyTorch's functions by their names
            compiled = torch.compile(lambda x: torch.func.jvp(f, (x,), (x,)), backend=backend)
            torch.testing.assert_close(compiled(x), expected[1])


def test_function_modes_see_the_calls_of_pytorch():
    class Seen(torch.overrides.TorchFunctionMode):
        def __init__(self):
            self.seen = []

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.seen.append(function)
            return function(*args, **(kwargs or {}))

    x = torch.ones(4, 5)
    with tt.patched():
        for ours, dim in ((NN.softmax, 1), (torch.log_softmax, 0), (torch.Tensor.softmax, 1), (NN.dropout, 0.5)):
            expected = seeded(ours)(x, dim)
            torch.manual_seed(7)
            with Seen() as mode:
                given = ours(x, dim)
            assert mode.seen == [ours]
            assert_same_bits(given, expected)


def test_results_lie_as_pytorchs(device):
    """So that a model's `.view` of them works."""
    x = torch.randn(2, 3, 4, 5, device=device).permute(0, 2, 3, 1).requires_grad_()
    functions = [
        lambda: NN.softmax(x, -1), lambda: NN.log_softmax(x, 1), lambda: NN.softmin(x, -1),
        lambda: torch.softmax(x, 2), lambda: x.log_softmax(-1), lambda: NN.dropout(x, 0.5),
    ]
    for f in functions:
        expected = f()
        with tt.patched():
            given = f()
        assert given.stride() == expected.stride()
        given.sum().backward()


@pytest.mark.parametrize("call", [
    lambda x: torch.dropout(x, 1.5, True), lambda x: NN.dropout(x, 1.5), lambda x: NN.dropout1d(x[0, 0], 1.5),
    lambda x: NN.dropout2d(x, -0.5), lambda x: NN.dropout2d(x[0, 0], 0.5), lambda x: NN.dropout1d(x[None], 0.5),
    lambda x: NN.dropout(x, float("nan")),
    lambda x: x.log_softmax(None, torch.float32), lambda x: torch.softmax(x, 3), lambda x: NN.softmax(x, -4),
    lambda x: NN.softmax(x, True), lambda x: x.softmax("a"), lambda x: torch.log_softmax(x), lambda x: x.softmax(),
    lambda x: NN.dropout(x, 0.5, "yes"), lambda x: NN.dropout1d(x, 0.5, 1), lambda x: torch.dropout(x, 0.5, None),
    lambda x: NN.softmin(x > 0, 0, dtype=torch.float32),
])
@pytest.mark.filterwarnings("ignore:dropout2d. Received a")
def test_refusals_under_patch_are_pytorchs(call):
    x = torch.randn(2, 3, 4)
    with pytest.raises(Exception) as theirs:
        call(x)
    with tt.patched(), pytest.raises(theirs.type):
        call(x)


@pytest.mark.parametrize("call", [
    lambda x: NN.softmax(x, 1, torch.float64),  # the third argument is _stacklevel
    lambda x: NN.softmin(x.to(torch.uint8), 0, dtype=torch.float32),  # of whose negation softmax is taken
])
def test_odd_arguments_under_patch_are_pytorchs(call):
    x = torch.arange(12.0).view(3, 4)
    expected = call(x)
    with tt.patched():
        torch.testing.assert_close(call(x), expected)


@pytest.mark.parametrize("name, rank", [("dropout2d", 2), ("dropout3d", 2), ("dropout2d", 5), ("dropout3d", 6)])
def test_warnings_of_dimensions_are_pytorchs(name, rank):
    x = torch.ones([2] * rank)
    with pytest.warns(UserWarning) as theirs:
        getattr(NN, name)(x)
    with tt.patched(), pytest.warns(UserWarning) as ours:
        getattr(NN, name)(x)
    assert [(str(w.message), w.filename) for w in ours] == [(str(w.message), w.filename) for w in theirs]


def test_fx_finds_the_arguments_of_calls_under_patch():
    x = torch.ones(2, 3)
    with tt.patched():
        for f in (torch.softmax, torch.Tensor.log_softmax, NN.softmax):
            given = normalize_function(f, (x, -1), normalize_to_only_use_kwargs=True)
            assert given.kwargs["dim"] == -1 and given.kwargs["input"] is x


def test_a_dropout_that_is_exported_in_eval_mode_is_a_node_under_patch():
    """Tools that put an exported model into training mode look for it."""
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout2d(0.5)).eval()
    with tt.patched():
        graph = torch.export.export(model, (torch.ones(2, 3, 4, 4),)).graph
    dropped = [n for n in graph.nodes if "dropout" in str(n.target)]
    assert len(dropped) == 2 and all(n.args[2] is False for n in dropped)


@pytest.mark.filterwarnings("ignore")
def test_the_older_onnx_exporter_gets_pytorchs_under_patch():
    model = nn.Sequential(nn.Softmax(-1), nn.Dropout(0.5)).eval()
    x = torch.ones(2, 3)
    with tt.patched():
        written = io.BytesIO()
        torch.onnx.export(model, (x,), written, dynamo=False)
        assert b"Softmax" in written.getvalue() and b"twinops" not in written.getvalue()
        assert "twinops::softmax" in str(torch.jit.trace(model, x).inlined_graph)


def test_scripts_under_patch_are_pytorchs():
    def attention(x: torch.Tensor):
        y = torch.softmax(x, -1) + NN.softmax(x, 0) + x.softmax(1) + torch.log_softmax(x, -1, torch.float64)
        return torch.dropout(y, 0.5, True) + NN.dropout(y, 0.5) + NN.log_softmax(x, 0)

    x = torch.randn(6, 5)
    for f in (attention, nn.Dropout(), nn.Softmax(-1)):
        with tt.patched():
            given = seeded(torch.jit.script(f))(x)
        assert_same_bits(given, seeded(f)(x))


def test_the_compiler_knows_pytorchs_functions_after_patch():
    """It looks them up by their names when it is imported; that has to be before these are ours."""
    code = """
import torch
import twinops.torch as tt
functions = [lambda x: torch.nn.functional.dropout(x, 0.5), lambda x: torch.log_softmax(x, -1)]
for around in (tt.patch, tt.unpatch):
    around()
    for f in functions:
        torch.compile(f, backend="eager", fullgraph=True)(torch.ones(4, 8))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_what_is_not_ours_goes_to_pytorch(device):
    x = torch.randn(4, 5, device=device)
    with tt.patched():
        out = torch.empty_like(x)
        assert torch.softmax(x, -1, out=out) is out
        with pytest.raises(RuntimeError):
            NN.softmax(torch.ones(3, dtype=torch.int64, device=device), 0)
        if device == "cpu":
            sparse = torch.sparse.softmax(torch.eye(3).to_sparse(), 1)
            assert sparse.is_sparse
            masked = torch.masked.masked_tensor(x, x > 0)
            assert type(masked.softmax(-1)) is type(masked)
        if device == "cpu" and hasattr(torch.Tensor, "has_names"):  # later versions of PyTorch have no names
            named = torch.ones(2, 3, names=("a", "b"))
            assert named.softmax("b").names == NN.softmax(named, 1).names == named.names
        trivial = torch.randn(3, 4, device=device).as_subclass(type("Trivial", (torch.Tensor,), {}))
        assert_same_bits(NN.softmax(trivial, -1).as_subclass(torch.Tensor), F.softmax(trivial + 0, -1))


def test_a_transformer_of_pytorchs_computes_by_twinops(device):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).to(device)
    x = torch.randn(2, 5, 16).to(device)

    def step():
        y = layer(x)
        weights = layer.self_attn(y, y, y, need_weights=True)[1]  # attention written out
        return torch.autograd.grad(weights.square().sum() + y.sum(), layer.linear1.weight)[0]

    with tt.patched(), torch.profiler.profile() as profile:
        given = seeded(step)()
    names = {e.key.replace("::_", "::") for e in profile.key_averages()}
    assert {"twinops::softmax", "twinops::dropout", "twinops::dropout_grad"} <= names
    with tt.patched():
        assert_same_bits(seeded(step)(), given)
