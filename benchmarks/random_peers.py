#!/usr/bin/env python3
"""The operators that draw random words beside their bounds and peers, in one process on one GPU.

usage: random_peers.py libtwinops.so [projection] [grad] [fill]

projection  random_projection and its gradient beside torch.matmul in float32 with R stored (no TF32),
            and beside a copy of x.
grad        bias_dropout_residual_grad with dbias beside a copy of the bytes that the job needs.
fill        philox_words and uniform beside torch's zero_() of the same bytes and its uniform_().

Microseconds: medians of CUDA events with a cold L2 (triton.testing.do_bench).
"""
import ctypes
import json
import sys

import torch
import triton


class DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32),
                ("dtype", DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Argument(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("tensors", ctypes.POINTER(ctypes.POINTER(DLTensor))), ("count", ctypes.c_size_t)]


class Attribute(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("kind", ctypes.c_int32), ("name", ctypes.c_char_p),
                ("int_value", ctypes.c_int64), ("float_value", ctypes.c_double),
                ("string_value", ctypes.c_char_p)]


ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class Execution(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("threads", ctypes.c_int32), ("stream", ctypes.c_void_p),
                ("row", ctypes.c_char_p), ("parallel_for", ctypes.c_void_p),
                ("parallel_context", ctypes.c_void_p), ("allocate", ALLOCATE),
                ("release", ctypes.c_void_p), ("workspace_context", ctypes.c_void_p),
                ("report", ctypes.c_void_p)]


CODES = {torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.float32: (2, 32),
         torch.float64: (2, 64), torch.uint32: (1, 32), torch.int32: (1, 32)}


class Twinops:
    """Calls with everything made ready, so that a timing holds the launch alone."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.twinops_last_error.restype = ctypes.c_char_p
        self.scratch = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
        self.allocate = ALLOCATE(lambda context, n, stream:
                                 self.scratch.data_ptr() if n <= self.scratch.numel() else None)

    def call(self, op, attributes=None, **tensors):
        keep, arguments = [], (Argument * len(tensors))()
        for i, (name, t) in enumerate(tensors.items()):
            shape = (ctypes.c_int64 * t.dim())(*t.shape)
            strides = (ctypes.c_int64 * t.dim())(*t.stride())
            code = (1, 32) if name in ("words", "mask") else CODES[t.dtype]
            view = DLTensor(t.data_ptr(), DLDevice(2, t.device.index or 0), t.dim(),
                            DLDataType(*code, 1), shape, strides, 0)
            pointer = (ctypes.POINTER(DLTensor) * 1)(ctypes.pointer(view))
            arguments[i] = Argument(ctypes.sizeof(Argument), name.encode(), pointer, 1)
            keep += [shape, strides, view, pointer, t]
        attributes = attributes or {}
        values = (Attribute * len(attributes))()
        for i, (name, v) in enumerate(attributes.items()):
            kind = 3 if isinstance(v, str) else 2 if isinstance(v, float) else 1
            values[i] = Attribute(ctypes.sizeof(Attribute), kind, name.encode(),
                                  v if kind == 1 else 0, v if kind == 2 else 0.0,
                                  v.encode() if kind == 3 else None)
        run, name = self.library.twinops_run, op.encode()
        n, m = ctypes.c_size_t(len(tensors)), ctypes.c_size_t(len(attributes))
        execution = Execution(size=ctypes.sizeof(Execution), allocate=self.allocate,
                              stream=torch.cuda.current_stream().cuda_stream)
        how = ctypes.byref(execution)

        def launch(_keep=(keep, execution)):
            if run(name, arguments, n, values, m, how) != 0:
                raise RuntimeError(self.library.twinops_last_error().decode())

        return launch


def us(f, repetitions=40):
    return 1e3 * triton.testing.do_bench(f, warmup=10, rep=repetitions, quantiles=[0.5])


def copy_us(moved):
    a = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return us(lambda: b.copy_(a))


def line(**values):
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in values.items()}),
          flush=True)


def projection(ours):
    torch.backends.cuda.matmul.allow_tf32 = False
    for rows, columns, k in ((1024, 4096, 256), (64, 65536, 64), (8192, 4096, 256), (128, 1024, 64)):
        words = torch.empty(columns, k, dtype=torch.int32, device="cuda")
        ours.call("philox_words", {"seed": 20261121}, words=words)()
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
                line(op=name, shape=f"{rows}x{columns}to{k}", type=str(dtype)[6:], us=us(call),
                     matmul_us=us(lambda: torch.matmul(wide, matrix, out=result)),
                     copy_x_us=copy_us(2 * x.numel() * x.element_size()), most_error=error)


def grad(ours):
    for shape in ((32, 512, 1024), (16384, 1024), (4096, 4096), (65536, 768), (1024, 65536)):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            dy = torch.randn(*shape, device="cuda").to(dtype)
            n = dy.numel()
            dx, dbias = torch.empty_like(dy), torch.empty(shape[-1], device="cuda", dtype=dtype)
            mask = torch.randint(-2**31, 2**31, ((n + 31) // 32,), dtype=torch.int32, device="cuda")
            moved = 2 * n * dy.element_size() + n // 8
            copy = copy_us(moved)
            what = {"p": 0.1, "seed": 1}
            masked = us(ours.call("bias_dropout_residual_grad", {"p": 0.1}, dy=dy, dx=dx,
                                  dbias=dbias, mask=mask))
            drawn = us(ours.call("bias_dropout_residual_grad", what, dy=dy, dx=dx, dbias=dbias))
            alone = us(ours.call("bias_dropout_residual_grad", {"p": 0.1}, dy=dy, dx=dx, mask=mask))
            line(op="bias_dropout_residual_grad", shape="x".join(map(str, shape)),
                 type=str(dtype)[6:], us=masked, of_copy=copy / masked, drawn_us=drawn,
                 drawn_of_copy=copy / drawn, without_dbias_us=alone, copy_us=copy)


def fill(ours):
    n = 1 << 28
    out = torch.empty(n, device="cuda")
    bytes_of = out.view(torch.uint8)
    zero = us(lambda: bytes_of.zero_())
    line(op="torch.zero_", us=zero, tbps=4 * n / zero / 1e6)
    line(op="torch.uniform_", us=us(lambda: out.uniform_()))
    for layout in ("contiguous", "strided", "triton"):
        for op, argument in (("philox_words", "words"), ("uniform", "out")):
            t = us(ours.call(op, {"layout": layout, "seed": 7}, **{argument: out}))
            line(op=op, layout=layout, us=t, of_zero_=zero / t)
    shifted = us(ours.call("philox_words", {"seed": 7, "element_offset": 1}, words=out))
    line(op="philox_words", layout="contiguous, element offset 1", us=shifted,
         of_zero_=zero / shifted)
    unaligned = us(ours.call("philox_words", {"seed": 7}, words=out[1:-3]))
    line(op="philox_words", layout="contiguous, unaligned", us=unaligned,
         of_zero_=zero / unaligned)
    odd = out[:4099 * 60000].view(60000, 4099)
    rows = us(ours.call("philox_words", {"seed": 7, "global_shape": "60000,5000", "start": "0,500"},
                        words=odd))
    line(op="philox_words", layout="contiguous, inner shard of odd rows", us=rows,
         of_zero_=zero * odd.numel() / n / rows)


def main():
    torch.manual_seed(20261121)
    ours = Twinops(sys.argv[1])
    asked = sys.argv[2:] or ["projection", "grad", "fill"]
    for name, run in (("projection", projection), ("grad", grad), ("fill", fill)):
        if name in asked:
            run(ours)


if __name__ == "__main__":
    main()
