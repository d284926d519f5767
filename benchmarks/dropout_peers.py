#!/usr/bin/env python3
"""Dropout beside PyTorch, torch.compile and Triton, in one process on one GPU.

  python3 benchmarks/dropout_peers.py [--library build/release/libtwinops.so] [--elements 2**28]

First the bits: what Triton's tutorial keeps (tl.rand(seed, i) > p) is what layout `triton` keeps,
over several p, seeds and sizes. Then the times, a line a kernel: microseconds, and the share of the
rate of a copy of the bytes that the job needs, in the same run.
"""
import argparse
import json

import torch
import triton
import triton.language as tl

import peers

SEED = 20261121


@triton.jit
def seeded_dropout_kernel(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside)
    tl.store(y_ptr + i, tl.where(tl.rand(seed, i) > p, x / (1 - p), 0.0), mask=inside)


def triton_dropout(x, y, p, seed):
    n = x.numel()
    seeded_dropout_kernel[(triton.cdiv(n, 1024),)](x, y, n, p, seed, BLOCK=1024)


def check_triton(twinops):
    """Whether the two keep the same elements; AssertionError says where not."""
    compared = 0
    for n in (1, 10, 1023, 1 << 20, (1 << 20) + 3):
        x = torch.ones(n, device="cuda")
        ours, theirs = torch.empty_like(x), torch.empty_like(x)
        for p in (0.1, 0.3, 0.5, 0.9, 2.0 ** -20, 1 - 2.0 ** -20):
            for seed in (0, 123, 512, 2 ** 31 - 1):
                twinops.call("dropout", {"p": p, "seed": seed, "layout": "triton"}, x=x, y=ours)()
                triton_dropout(x, theirs, p, seed)
                different = (ours != 0) != (theirs != 0)
                assert not different.any(), (n, p, seed, different.nonzero()[0].item())
                compared += n
    print(f"triton keeps what layout triton keeps: {compared} elements, none differs")
    x = torch.ones(10, device="cuda")
    for seed in (123, 512):
        y = x.clone()
        twinops.call("dropout", {"p": 0.5, "seed": seed, "layout": "triton"}, x=x, y=y)()
        print(f"  ten elements, p = 0.5, seed {seed}: keeps {y.nonzero().flatten().tolist()}")


class Table:
    """The timings of one type and size."""

    def __init__(self, dtype, n, as_json=False):
        self.dtype, self.n, self.as_json = dtype, n, as_json
        self.x = torch.randn(n, device="cuda", dtype=dtype)
        self.y = torch.empty_like(self.x)
        self.copies = {}

    def line(self, what, peer, call, mask_bytes=0):
        """`mask_bytes`: read or written beside an input and an output."""
        moved = 2 * self.n * self.x.element_size() + mask_bytes
        if moved not in self.copies:
            self.copies[moved] = peers.copy_microseconds(moved)
        try:
            time = peers.microseconds(call)
        except Exception as error:  # a peer that cannot is a finding too
            print(f"{str(self.dtype)[6:]:9} {self.n:10} {what:40} {peer:14} {error!r:.100}", flush=True)
            return
        share, name = self.copies[moved] / time, str(self.dtype)[6:]
        if self.as_json:
            print(json.dumps(dict(type=name, elements=self.n, what=what, peer=peer, us=round(time, 1),
                                  share=round(share, 3))), flush=True)
            return
        print(f"{name:9} {self.n:10} {what:40} {peer:14} {time:9.1f} us  of copy {share:.3f}",
              flush=True)

    def ours(self, twinops, what, op, attributes=None, mask_bytes=0, **more):
        attributes = {"p": 0.1, **({} if "seeds" in more else {"seed": SEED}), **(attributes or {})}
        names = ("x", "y") if op == "dropout" else ("dy", "dx")
        tensors = dict(zip(names, more.pop("both", (self.x, self.y))))
        self.line(what, "twinops", twinops.call(op, attributes, **tensors, **more), mask_bytes)

    def plain(self, twinops):
        n, bits = self.n, torch.empty((self.n + 31) // 32, device="cuda", dtype=torch.int32)
        bits = bits.view(torch.uint32)
        kept = torch.empty(n, device="cuda", dtype=torch.uint8)
        for op, what in (("dropout", "forward"), ("dropout_grad", "backward")):
            self.ours(twinops, what + ", no mask", op)
            self.ours(twinops, what + ", bit mask", op, mask_bytes=n // 8, mask=bits)
            self.ours(twinops, what + ", byte mask", op, mask_bytes=n, mask=kept)

    def layouts(self, twinops):
        self.ours(twinops, "layout strided", "dropout", {"layout": "strided", "period": 65536})
        self.ours(twinops, "layout triton", "dropout", {"layout": "triton"})

    def pieces(self, twinops, columns=1024):
        """What is not one aligned piece: forward and backward, with every kind of mask."""
        rows = self.n // columns
        matrix = self.x.view(rows, columns), self.y.view(rows, columns)
        wide = torch.randn(rows, columns + 64, device="cuda", dtype=self.dtype)
        views = wide[:, :columns], torch.empty_like(wide)[:, 32:32 + columns]
        seeds = torch.arange(rows, device="cuda", dtype=torch.int64)
        shard = {"global_shape": f"{rows},{4 * columns}", "start": f"0,{columns}"}
        odd_shard = {"global_shape": f"{rows},{4 * columns}", "start": f"0,{columns + 3}"}
        for what, both, attributes, more in (
                (f"a seed a row of {columns}", matrix, {}, {"seeds": seeds}),
                (f"shard, {columns} columns", matrix, shard, {}),
                ("shard from an odd one", matrix, odd_shard, {}),
                ("a wider matrix's columns", views, {}, {}),
                ("unaligned alike", (self.x[1:-7], self.y[1:-7]), {}, {}),
                ("unaligned apart", (self.x[1:-7], self.y[2:-6]), {}, {})):
            n = both[0].numel()
            bits = torch.empty((n + 31) // 32, device="cuda", dtype=torch.int32).view(torch.uint32)
            kept = torch.empty(both[0].shape, device="cuda", dtype=torch.uint8)
            for op, way in (("dropout", "forward"), ("dropout_grad", "backward")):
                self.ours(twinops, f"{what}, {way}", op, attributes, both=both, **more)
                self.ours(twinops, f"{what}, {way}, bits", op, attributes, n // 8, both=both,
                          mask=bits, **more)
                self.ours(twinops, f"{what}, {way}, bytes", op, attributes, n, both=both, mask=kept,
                          **more)

    def rivals(self, compiled):
        dropped, kept = torch.native_dropout(self.x, 0.1, True)
        backward = torch.ops.aten.native_dropout_backward
        self.line("forward, byte mask", "PyTorch", lambda: torch.native_dropout(self.x, 0.1, True),
                  self.n)
        self.line("backward, byte mask", "PyTorch", lambda: backward(dropped, kept, 1 / 0.9), self.n)
        self.line("forward, no mask", "torch.compile", lambda: compiled(self.x))
        self.line("forward, no mask", "Triton", lambda: triton_dropout(self.x, self.y, 0.1, SEED))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=peers.LIBRARY)
    parser.add_argument("--elements", nargs="+", default=["2**20", "2**24", "2**28"])
    parser.add_argument("--types", nargs="+", default=["float16", "bfloat16", "float32"])
    parser.add_argument("--ours", action="store_true", help="no peers")
    parser.add_argument("--json", action="store_true", help="a line of JSON a figure: record.py")
    parser.add_argument("--pieces", type=int, metavar="COLUMNS",
                        help="only what is not one aligned piece, rows of so many elements")
    options = parser.parse_args()
    twinops = peers.Twinops(options.library)
    torch._dynamo.config.cache_size_limit = 256
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}")
    check_triton(twinops)
    compiled = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.1, True), dynamic=False)
    for dtype in options.types:
        for elements in options.elements:
            base, _, power = elements.partition("**")
            table = Table(getattr(torch, dtype), int(base) ** int(power or 1), options.json)
            if options.pieces:
                table.pieces(twinops, options.pieces)
                continue
            table.plain(twinops)
            table.layouts(twinops)
            table.pieces(twinops)
            if not options.ours:
                table.rivals(compiled)


if __name__ == "__main__":
    main()
