#!/usr/bin/env python3
"""The softmax family beside PyTorch, torch.compile and Triton, in one process on one GPU.

usage: softmax_peers.py libtwinops.so [--quick] [--ours] [--types float32,...] [--columns 64,...]

Every figure is the median of CUDA-event timings with a cold L2 (triton.testing.do_bench). `share` is
the least traffic that the job needs (a row read once and written once; backward: two reads and a
write), over the rate of a device-to-device copy of as many bytes in the same run. Results are
compared with PyTorch's, in double, before they are timed.
"""
import argparse
import ctypes
import json

import torch
import triton
import triton.language as tl


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


class Execution(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("threads", ctypes.c_int32), ("stream", ctypes.c_void_p),
                ("row", ctypes.c_char_p), ("rest", ctypes.c_void_p * 6)]


CODES = {torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.float32: (2, 32),
         torch.float64: (2, 64)}


class Twinops:
    """Calls of an operator with everything made ready, so that a timing holds the launch alone."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.twinops_last_error.restype = ctypes.c_char_p

    def call(self, op, **tensors):
        keep, arguments = [], (Argument * len(tensors))()
        for i, (name, t) in enumerate(tensors.items()):
            shape = (ctypes.c_int64 * t.dim())(*t.shape)
            strides = (ctypes.c_int64 * t.dim())(*t.stride())
            view = DLTensor(t.data_ptr(), DLDevice(2, t.device.index or 0), t.dim(),
                            DLDataType(*CODES[t.dtype], 1), shape, strides, 0)
            pointer = (ctypes.POINTER(DLTensor) * 1)(ctypes.pointer(view))
            arguments[i] = Argument(ctypes.sizeof(Argument), name.encode(), pointer, 1)
            keep += [shape, strides, view, pointer, t]
        run, name, n = self.library.twinops_run, op.encode(), ctypes.c_size_t(len(tensors))
        execution = Execution(ctypes.sizeof(Execution), 0, torch.cuda.current_stream().cuda_stream)
        how = ctypes.byref(execution)

        def launch(_keep=(keep, execution)):
            if run(name, arguments, n, None, ctypes.c_size_t(0), how) != 0:
                raise RuntimeError(self.library.twinops_last_error().decode())

        return launch


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


def milliseconds(f, repetitions):
    return triton.testing.do_bench(f, warmup=10, rep=repetitions, quantiles=[0.5])


def copy_rate(moved, repetitions):
    """Bytes a millisecond, read plus written."""
    a = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return moved / milliseconds(lambda: b.copy_(a), repetitions)


class Shape:
    """The figures of one shape and type, a JSON line each."""

    def __init__(self, options, dtype, columns):
        self.options, self.dtype, self.columns = options, dtype, columns
        self.repetitions = 20 if options.quick else 60
        rows = max(1, (1 << 26) // columns)
        self.x = torch.randn(rows, columns, device="cuda", dtype=dtype) * 4
        self.y, self.dy = torch.empty_like(self.x), torch.randn_like(self.x)
        self.least = 2 * self.x.numel() * self.x.element_size()
        self.rate = copy_rate(self.least, self.repetitions)

    def line(self, **values):
        print(json.dumps(dict(type=str(self.dtype)[6:], columns=self.columns, **values)), flush=True)

    def time(self, what, peer, f, moved):
        try:
            t = milliseconds(f, self.repetitions)
        except Exception as error:  # a peer that cannot is a finding too
            return self.line(what=what, peer=peer, error=repr(error)[:120])
        self.line(what=what, peer=peer, us=round(t * 1e3, 1), gbps=round(moved / t / 1e6),
                  share=round(moved / t / self.rate, 3))

    def check(self, what, out, expected):
        error = (out[:64].double() - expected).abs().max().item()
        bound = 2e-2 if out.element_size() == 2 else 1e-5
        if not error < bound * max(1.0, expected.abs().max().item()):
            self.line(what=what, wrong=error)

    def operators(self, ours):
        x, y, dy = self.x, self.y, self.dy
        dx = torch.empty_like(x)
        for op, peer, peer_grad in (
            ("softmax", torch.softmax, torch._softmax_backward_data),
            ("log_softmax", torch.log_softmax, torch._log_softmax_backward_data)):
            forward = ours.call(op, x=x, out=y)
            backward = ours.call(op + "_grad", y=y, dy=dy, dx=dx)
            forward()
            backward()
            self.check(op, y, peer(x[:64].double(), -1))
            self.check(op + "_grad", dx,
                       peer_grad(dy[:64].double(), y[:64].double(), -1, torch.float64))
            self.time(op, "twinops", forward, self.least)
            self.time(op + "_grad", "twinops", backward, self.least * 3 // 2)
            if not self.options.ours:
                self.time(op, "torch", lambda: peer(x, -1), self.least)
                self.time(op + "_grad", "torch", lambda: peer_grad(dy, y, -1, self.dtype),
                          self.least * 3 // 2)

    def peers(self, compiled):
        self.time("softmax", "torch.compile", lambda: compiled(self.x), self.least)
        if self.columns <= 131072:
            self.time("softmax", "triton", lambda: triton_softmax(self.x, self.y), self.least)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--quick", action="store_true", help="a third of the repetitions")
    parser.add_argument("--ours", action="store_true", help="no peers")
    parser.add_argument("--types", default="float32,bfloat16,float16")
    parser.add_argument("--columns", default="64,128,256,512,1000,1024,2048,4096,8192,16384,32768,"
                        "50257,65536,131072,1048576")
    options = parser.parse_args()
    ours = Twinops(options.library)
    compiled = torch.compile(lambda x: torch.softmax(x, -1), dynamic=False)
    torch._dynamo.config.cache_size_limit = 256
    torch.manual_seed(0)
    for type_name in options.types.split(","):
        for columns in map(int, options.columns.split(",")):
            shape = Shape(options, getattr(torch, type_name), columns)
            shape.operators(ours)
            if not options.ours:
                shape.peers(compiled)
            del shape


if __name__ == "__main__":
    main()
