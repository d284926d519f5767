#!/usr/bin/env python3
"""The softmax family beside PyTorch, torch.compile and Triton, in one process on one GPU; beside QuACK
and Liger too where the packages quack-kernels and liger-kernel are installed.

  python3 benchmarks/softmax_peers.py [--library build/release/libtwinops.so] [--quick] [--ours]
                                      [--types float32,...] [--columns 64,...] [--inner 1,...]
                                      [--elements N]

Every figure is the median of CUDA-event timings with a cold L2 (benchmarks/peers.py). `share` is the
least traffic that the job needs (a row read once and written once; backward: two reads and a
write), over the rate of a device-to-device copy of as many bytes in the same run. Results are
compared with PyTorch's, in double, before they are timed. --inner n, n > 1: the rows lie along axis 1
of [rows / n, columns, n], neighbouring rows side by side.
"""
import argparse
import itertools
import json

import torch
import triton
import triton.language as tl

import peers


@triton.jit
def softmax_kernel(y_ptr, x_ptr, xs, ys, rows, cols, BLOCK: tl.constexpr):
    for r in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        c = tl.arange(0, BLOCK)
        inside = c < cols
        v = tl.load(x_ptr + r * xs + c, mask=inside, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(y_ptr + r * ys + c, e / tl.sum(e, axis=0), mask=inside)


def triton_softmax(x, y):
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    warps = 4 if block <= 2048 else 8 if block <= 8192 else 16 if block <= 16384 else 32
    programs = torch.cuda.get_device_properties(0).multi_processor_count * 8
    softmax_kernel[(min(rows, programs),)](y, x, x.stride(0), y.stride(0), rows, cols, BLOCK=block,
                                           num_warps=warps)


class Shape:
    """The figures of one shape and type, a JSON line each."""

    def __init__(self, options, dtype, columns, inner):
        self.options, self.dtype, self.columns, self.inner = options, dtype, columns, inner
        self.milliseconds = 10 if options.quick else 60
        rows = max(1, options.elements // columns)
        shape = (rows, columns) if inner == 1 else (max(1, rows // inner), columns, inner)
        self.axis = -1 if inner == 1 else 1
        self.checked = max(1, 64 // inner)  # of shape[0]
        self.x = torch.randn(shape, device="cuda", dtype=dtype) * 4
        self.y, self.dy = torch.empty_like(self.x), torch.randn_like(self.x)
        self.least = 2 * self.x.numel() * self.x.element_size()
        self.copy = peers.copy_microseconds(self.least, self.milliseconds)

    def line(self, **values):
        shape = dict(columns=self.columns, **(dict(inner=self.inner) if self.inner > 1 else {}))
        print(json.dumps(dict(type=str(self.dtype)[6:], **shape, **values)), flush=True)

    def time(self, what, peer, f, moved):
        try:
            t = peers.microseconds(f, self.milliseconds)
        except Exception as error:  # a peer that cannot is a finding too
            return self.line(what=what, peer=peer, error=repr(error)[:120])
        self.line(what=what, peer=peer, us=round(t, 1), gbps=round(moved / t / 1e3),
                  share=round(self.copy / t * moved / self.least, 3))

    def check(self, what, out, expected):
        error = (out[:self.checked].double() - expected).abs().max().item()
        bound = 2e-2 if out.element_size() == 2 else 1e-5
        if not error < bound * max(1.0, expected.abs().max().item()):
            self.line(what=what, wrong=error)

    def operators(self, ours):
        x, y, dy = self.x, self.y, self.dy
        dx, axis, checked = torch.empty_like(x), self.axis, slice(self.checked)
        for op, peer, peer_grad in (
            ("softmax", torch.softmax, torch._softmax_backward_data),
            ("log_softmax", torch.log_softmax, torch._log_softmax_backward_data)):
            forward = ours.call(op, dict(axis=axis), x=x, out=y)
            backward = ours.call(op + "_grad", dict(axis=axis), y=y, dy=dy, dx=dx)
            forward()
            backward()
            self.check(op, y, peer(x[checked].double(), axis))
            self.check(op + "_grad", dx,
                       peer_grad(dy[checked].double(), y[checked].double(), axis, torch.float64))
            self.time(op, "twinops", forward, self.least)
            self.time(op + "_grad", "twinops", backward, self.least * 3 // 2)
            if not self.options.ours:
                self.time(op, "torch", lambda: peer(x, axis), self.least)
                self.time(op + "_grad", "torch", lambda: peer_grad(dy, y, axis, self.dtype),
                          self.least * 3 // 2)

    def peers(self, compiled, packages):
        x, y, dy = self.x, self.y, self.dy
        self.time("softmax", "torch.compile", lambda: compiled(x, self.axis), self.least)
        if self.inner > 1:
            return
        if self.columns <= 131072:
            self.time("softmax", "triton", lambda: triton_softmax(x, y), self.least)
        torch.softmax(x, self.axis, out=y)
        for peer, (forward, backward) in packages.items():
            self.time("softmax", peer, lambda: forward(x), self.least)
            self.time("softmax_grad", peer, lambda: backward(dy, y), self.least * 3 // 2)


def installed_packages():
    """Softmax and its gradient, (x) and (dy, y), by QuACK and by Liger where they are installed."""
    packages = {}
    try:
        from quack.softmax import softmax_bwd, softmax_fwd
        packages["quack"] = softmax_fwd, softmax_bwd
    except ImportError:
        pass
    try:
        from liger_kernel.ops.softmax import _softmax_backward, _softmax_forward, calculate_settings
        packages["liger"] = (
            lambda x: _softmax_forward(x),
            lambda dy, y: _softmax_backward(dy, y, *calculate_settings(y.shape[-1]), False))
    except ImportError:
        pass
    return packages


def main():
    parser = argparse.ArgumentParser()
    peers.add_softmax_options(parser)
    parser.add_argument("--columns", default="64,128,256,512,1000,1024,2048,4096,8192,16384,32768,"
                        "50257,65536,131072,1048576")
    parser.add_argument("--inner", default="1", help="neighbouring rows that lie side by side")
    options = parser.parse_args()
    ours = peers.Twinops(options.library)
    compiled, packages = torch.compile(torch.softmax, dynamic=False), installed_packages()
    torch._dynamo.config.cache_size_limit = 256
    torch.manual_seed(0)
    for type_name in options.types.split(","):
        for columns, inner in itertools.product(map(int, options.columns.split(",")),
                                                map(int, options.inner.split(","))):
            shape = Shape(options, getattr(torch, type_name), columns, inner)
            shape.operators(ours)
            if not options.ours:
                shape.peers(compiled, packages)
            del shape


if __name__ == "__main__":
    main()
