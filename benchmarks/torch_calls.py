"""The host's time of a small call from Python: twinops.torch beside PyTorch's own operators, in eager mode,
with and without autograd, and a list of 300 gradients as GradScaler unscales it. What bounds a plugin whose
gradients are Python's is measured too: PyTorch's own softmax by the way that twinops' goes, its OpOverload in
an autograd.Function.

usage: python benchmarks/torch_calls.py [--device cpu|cuda] [--rounds N]

Rounds of both take turns, and the shortest round of each counts: other work on the machine makes rounds
longer, never shorter. On a GPU nothing waits for the device, so what is timed is the host.
"""

import argparse
import time

import torch

import twinops.torch as tt

F, NN = tt.functional, torch.nn.functional


class AsAPlugin(torch.autograd.Function):
    """PyTorch's softmax along the last axis, without a gradient of use."""

    call = torch.ops.aten._softmax.default._op

    @staticmethod
    def forward(ctx, x):
        y = AsAPlugin.call(x, -1, False)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        return None


def cases(device):
    """name -> (ours, PyTorch's): functions of no argument."""
    x = torch.randn(8, 16, device=device)
    r = torch.randn(8, 16, device=device)
    bias = torch.randn(16, device=device)
    g = torch.randn(8, 16, device=device)
    leaf = x.clone().requires_grad_()
    ours_y, theirs_y = F.softmax(leaf, -1), torch.softmax(leaf, -1)
    ours_d, theirs_d = F.dropout(leaf, 0.1), NN.dropout(leaf, 0.1)

    def backward(y):
        return lambda: torch.autograd.grad(y, leaf, g, retain_graph=True)

    yield "softmax", lambda: F.softmax(x, -1), lambda: torch.softmax(x, -1)
    yield "softmax, with grad", lambda: F.softmax(leaf, -1), lambda: torch.softmax(leaf, -1)
    yield "PyTorch's as a plugin's", lambda: AsAPlugin.call(x, -1, False), lambda: torch.softmax(x, -1)
    yield "the same, with grad", lambda: AsAPlugin.apply(leaf), lambda: torch.softmax(leaf, -1)
    yield "softmax, backward", backward(ours_y), backward(theirs_y)
    yield "log_softmax", lambda: F.log_softmax(x, -1), lambda: torch.log_softmax(x, -1)
    yield "dropout", lambda: F.dropout(x, 0.1), lambda: NN.dropout(x, 0.1)
    yield "dropout, with grad", lambda: F.dropout(leaf, 0.1), lambda: NN.dropout(leaf, 0.1)
    yield "dropout, backward", backward(ours_d), backward(theirs_d)
    yield (
        "softmax_dropout, with grad",
        lambda: F.softmax_dropout(leaf, 0.1),
        lambda: NN.dropout(torch.softmax(leaf, -1), 0.1),
    )
    yield (
        "bias_dropout_residual, with grad",
        lambda: F.bias_dropout_residual(leaf, bias, r, 0.1),
        lambda: NN.dropout(leaf + bias, 0.1) + r,
    )
    gradients = [torch.randn(64, device=device) for _ in range(300)]
    scale, found = torch.ones((), device=device), torch.zeros((), device=device)
    yield (
        "300 gradients",
        lambda: tt.amp.unscale_(gradients, scale, found),
        lambda: torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale),
    )


def overridden(device):
    x = torch.randn(8, 16, device=device)
    leaf = x.clone().requires_grad_()
    yield "torch.softmax", lambda: torch.softmax(x, -1)
    yield "torch.softmax, with grad", lambda: torch.softmax(leaf, -1)
    yield "F.dropout, with grad", lambda: NN.dropout(leaf, 0.1)


def shortest(functions, rounds, calls=20):
    """The shortest round of each function, in microseconds a call."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            begin = time.perf_counter()
            for _ in range(calls):
                function()
            best[i] = min(best[i], (time.perf_counter() - begin) / calls * 1e6)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, {options.device}; microseconds a call, float32 [8, 16]")
    print(f"{'':34}{'twinops':>9}{'PyTorch':>9}{'ratio':>7}")
    for name, ours, theirs in cases(options.device):
        if "dropout" not in name and "gradients" not in name:  # whose masks and steps differ
            torch.testing.assert_close(ours(), theirs())
        calls = 2 if name.startswith("300") else 20
        a, b = shortest([ours, theirs], options.rounds, calls)
        print(f"{name:34}{a:9.2f}{b:9.2f}{a / b:7.2f}")
    print("under override()")
    before = [shortest([f], options.rounds)[0] for _, f in overridden(options.device)]
    with tt.override():
        for b, (name, f) in zip(before, overridden(options.device)):
            (a,) = shortest([f], options.rounds)
            print(f"{name:34}{a:9.2f}{b:9.2f}{a / b:7.2f}")


main()
