#!/usr/bin/env python3
"""The operators that draw random words beside their bounds and peers, in one process on one GPU.

  python3 benchmarks/random_peers.py [--library build/release/libtwinops.so]
                                     [projection] [grad] [fill]

projection  random_projection and its gradient beside torch.matmul in float32 with R stored (no
            TF32), and beside a copy of x.
grad        bias_dropout_residual_grad with dbias beside a copy of the bytes that the job needs.
fill        philox_words and uniform beside torch's zero_() of the same bytes and its uniform_().

Microseconds: benchmarks/peers.py.
"""
import argparse
import json

import torch

import peers
from peers import copy_microseconds, microseconds


def line(**values):
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in values.items()}),
          flush=True)


def projection(ours):
    torch.backends.cuda.matmul.allow_tf32 = False
    for rows, columns, k in ((1024, 4096, 256), (64, 65536, 64), (8192, 4096, 256), (128, 1024, 64)):
        words = torch.empty(columns, k, dtype=torch.int32, device="cuda")
        ours.call("philox_words", {"seed": 20261121}, words=words.view(torch.uint32))()
        unsigned = words.to(torch.int64) & 0xffffffff
        ones = int(2 ** 31 / 3)
        r = (unsigned < ones).float() - ((unsigned >= ones) & (unsigned < 2 * ones)).float()
        for dtype in (torch.float32, torch.float16, torch.float64):
            if dtype != torch.float32 and rows == 8192:
                continue
            x = torch.randn(rows, columns, device="cuda", dtype=dtype)
            y = torch.empty(rows, k, device="cuda", dtype=dtype)
            what = {"s": 3.0, "seed": 20261121}
            for name, call, a, b, out in (
                ("random_projection", ours.call("random_projection", what, x=x, y=y), x, r, y),
                ("random_projection_grad", ours.call("random_projection_grad", what, dy=y, dx=x),
                 y, r.t(), x)):
                call()
                scale = (3.0 / k) ** 0.5
                error = (out.double() - scale * (a.double() @ b.double())).abs().max().item()
                wide, matrix = a.float().contiguous(), b.contiguous()
                result = torch.empty(rows, b.shape[1], device="cuda")
                line(op=name, shape=f"{rows}x{columns}to{k}", type=str(dtype)[6:],
                     us=microseconds(call),
                     matmul_us=microseconds(lambda: torch.matmul(wide, matrix, out=result)),
                     copy_x_us=copy_microseconds(2 * x.numel() * x.element_size()),
                     most_error=error)


def grad(ours):
    for shape in ((32, 512, 1024), (16384, 1024), (4096, 4096), (65536, 768), (1024, 65536)):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            dy = torch.randn(*shape, device="cuda").to(dtype)
            n = dy.numel()
            dx, dbias = torch.empty_like(dy), torch.empty(shape[-1], device="cuda", dtype=dtype)
            mask = torch.randint(-2**31, 2**31, ((n + 31) // 32,), dtype=torch.int32, device="cuda")
            mask = mask.view(torch.uint32)
            moved = 2 * n * dy.element_size() + n // 8
            copy = copy_microseconds(moved)
            what = {"p": 0.1, "seed": 1}
            masked = microseconds(ours.call("bias_dropout_residual_grad", {"p": 0.1}, dy=dy, dx=dx,
                                  dbias=dbias, mask=mask))
            drawn = microseconds(ours.call("bias_dropout_residual_grad", what, dy=dy, dx=dx,
                                           dbias=dbias))
            alone = microseconds(ours.call("bias_dropout_residual_grad", {"p": 0.1}, dy=dy, dx=dx,
                                           mask=mask))
            line(op="bias_dropout_residual_grad", shape="x".join(map(str, shape)),
                 type=str(dtype)[6:], us=masked, of_copy=copy / masked, drawn_us=drawn,
                 drawn_of_copy=copy / drawn, without_dbias_us=alone, copy_us=copy)


def fill(ours):
    n = 1 << 28
    out = torch.empty(n, device="cuda")
    words = out.view(torch.uint32)
    bytes_of = out.view(torch.uint8)
    zero = microseconds(lambda: bytes_of.zero_())
    line(op="torch.zero_", us=zero, tbps=4 * n / zero / 1e6)
    line(op="torch.uniform_", us=microseconds(lambda: out.uniform_()))
    for layout in ("contiguous", "strided", "triton"):
        for op, made in (("philox_words", {"words": words}), ("uniform", {"out": out})):
            t = microseconds(ours.call(op, {"layout": layout, "seed": 7}, **made))
            line(op=op, layout=layout, us=t, of_zero_=zero / t)
    shifted = microseconds(ours.call("philox_words", {"seed": 7, "element_offset": 1}, words=words))
    line(op="philox_words", layout="contiguous, element offset 1", us=shifted,
         of_zero_=zero / shifted)
    unaligned = microseconds(ours.call("philox_words", {"seed": 7}, words=words[1:-3]))
    line(op="philox_words", layout="contiguous, unaligned", us=unaligned,
         of_zero_=zero / unaligned)
    odd = words[:4099 * 60000].view(60000, 4099)
    shard = {"seed": 7, "global_shape": "60000,5000", "start": "0,500"}
    rows = microseconds(ours.call("philox_words", shard, words=odd))
    line(op="philox_words", layout="contiguous, inner shard of odd rows", us=rows,
         of_zero_=zero * odd.numel() / n / rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs = {"projection": projection, "grad": grad, "fill": fill}
    parser.add_argument("--library", default=peers.LIBRARY)
    parser.add_argument("jobs", nargs="*", help=", ".join(jobs) + "; none: all")
    options = parser.parse_args()
    torch.manual_seed(20261121)
    ours = peers.Twinops(options.library)
    for name in options.jobs or jobs:
        jobs[name](ours)


if __name__ == "__main__":
    main()
