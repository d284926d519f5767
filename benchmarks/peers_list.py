#!/usr/bin/env python3
"""Times check_finite_and_unscale beside PyTorch's own on a GPU, in one process, on the same tensors.

The peer is torch._amp_foreach_non_finite_check_and_unscale_, what GradScaler calls. Ours goes through
the C ABI: DLTensors over torch's tensors, on torch's current stream. Both work in place. Before
anything is timed, the two must give the same bits on finite gradients, and the same found_inf.

  python3 benchmarks/peers_list.py --library build/release/libtwinops.so
  python3 benchmarks/peers_list.py --self-test       (no GPU, no torch: the binding, on the CPU)

Times are medians in microseconds with a cold L2 cache (triton.testing.do_bench); `of copy` is the
rate over that of a copy of as many bytes; `host` is how long one call keeps its caller.
"""
import argparse
import ctypes
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CPU, CUDA = 1, 2  # DLPack's device types


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Argument(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("tensors", ctypes.POINTER(ctypes.POINTER(DLTensor))), ("count", ctypes.c_size_t)]


class Report(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("launches", ctypes.c_int32),
                ("row", ctypes.c_char_p), ("fallback", ctypes.c_char_p),
                ("random_words", ctypes.c_uint64)]


class Execution(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("threads", ctypes.c_int32),
                ("stream", ctypes.c_void_p), ("row", ctypes.c_char_p),
                ("parallel_for", ctypes.c_void_p), ("parallel_context", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("release", ctypes.c_void_p),
                ("workspace_context", ctypes.c_void_p), ("report", ctypes.POINTER(Report))]


# A tensor for the binding: address, device, DLPack type (code, bits), shape.
class View:
    def __init__(self, data, device_type, device_id, code, bits, shape):
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.tensor = DLTensor(data, device_type, device_id, len(shape), code, bits, 1, self.shape,
                               None, 0)


class Twinops:
    """libtwinops, as far as it is needed here."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.twinops_last_error.restype = ctypes.c_char_p
        self.library.twinops_run.argtypes = [
            ctypes.c_char_p, ctypes.POINTER(Argument), ctypes.c_size_t, ctypes.c_void_p,
            ctypes.c_size_t, ctypes.POINTER(Execution)]

    def prepare(self, op, arguments, stream=None):
        """Returns a function that makes the call; all structs are made once, here."""
        kept = [arguments]
        c_arguments = (Argument * len(arguments))()
        for slot, (name, views) in zip(c_arguments, arguments):
            pointers = (ctypes.POINTER(DLTensor) * len(views))(
                *[ctypes.pointer(view.tensor) for view in views])
            kept.append(pointers)
            slot.struct_size = ctypes.sizeof(Argument)
            slot.name = name
            slot.tensors = pointers
            slot.count = len(views)
        report = Report(struct_size=ctypes.sizeof(Report))
        execution = Execution(struct_size=ctypes.sizeof(Execution), stream=stream,
                              report=ctypes.pointer(report))
        run, count, how = self.library.twinops_run, len(arguments), ctypes.byref(execution)
        kept.append((c_arguments, report, execution))

        def call():
            if run(op, c_arguments, count, None, 0, how) != 0:
                raise RuntimeError(self.library.twinops_last_error().decode())

        call.kept, call.report = kept, report
        return call


def self_test(library):
    """One call on the host's memory, checked by hand."""
    floats = (ctypes.c_float * 4)(1024.0, -512.0, float("inf"), 2048.0)
    scale, found = (ctypes.c_float * 1)(1024.0), (ctypes.c_float * 1)(0.0)
    view = lambda array, shape: View(ctypes.addressof(array), CPU, 0, 2, 32, shape)
    x = [view(floats, (2, 2))]
    call = Twinops(library).prepare(b"check_finite_and_unscale", [
        (b"x", x), (b"scale", [view(scale, ())]), (b"out", x), (b"found_inf", [view(found, (1,))])])
    call()
    assert list(floats) == [1.0, -0.5, float("inf"), 2.0], list(floats)
    assert found[0] == 1.0, found[0]
    print(f"self-test passed on {call.report.row.decode()}")


def shapes_of(name):
    """The shapes of tools/proof/lists/<name>.txt."""
    shapes = []
    with open(os.path.join(ROOT, "tools", "proof", "lists", name + ".txt"), encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words and words[0] != "total" and not words[0].startswith("#"):
                shapes.append(tuple(int(word) for word in words[1:]))
    return shapes


LISTS = {
    "resnet50": lambda: shapes_of("resnet50"),
    "bert_large": lambda: shapes_of("bert_large"),
    "300x1024": lambda: [(1024,)] * 300,
    "2000x256": lambda: [(256,)] * 2000,
    "100000x16": lambda: [(16,)] * 100000,
    "1x2^28": lambda: [(1 << 28,)],
}


def host_microseconds(torch, call, rounds=15):
    """The median time that a call keeps its caller, the device being idle before each."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


class Rival:
    """Both calls over the same tensors."""

    def __init__(self, torch, twinops, shapes, dtype):
        self.torch, self.dtype = torch, dtype
        device = torch.device("cuda", torch.cuda.current_device())
        torch.manual_seed(1)
        self.tensors = [torch.randn(shape, device=device).to(dtype) for shape in shapes]
        self.scale = torch.ones(1, device=device)
        self.inverse = torch.ones(1, device=device)
        self.found = torch.zeros(1, device=device)
        codes = {torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.float32: (2, 32),
                 torch.float64: (2, 64)}
        view = lambda t: View(t.data_ptr(), CUDA, device.index, *codes[t.dtype], tuple(t.shape))
        views = [view(t) for t in self.tensors]
        self.ours = twinops.prepare(
            b"check_finite_and_unscale",
            [(b"x", views), (b"scale", [view(self.scale)]), (b"out", views),
             (b"found_inf", [view(self.found)])],
            torch.cuda.current_stream().cuda_stream)

    def peer(self):
        self.torch._amp_foreach_non_finite_check_and_unscale_(self.tensors, self.found, self.inverse)

    def run(self, call, scale):
        """found_inf after a call with this scale."""
        self.scale.fill_(scale)
        self.inverse.fill_(1.0 / scale)
        self.found.zero_()
        call()
        return self.found.item()

    def peer_works(self):
        try:
            return self.run(self.peer, 1.0) == 0.0
        except RuntimeError:
            return False  # CUDA builds of PyTorch have no bfloat16 here

    def check(self, with_peer):
        """Same bits on finite gradients; an infinity in the last tensor is found."""
        torch = self.torch
        before = [t.clone() for t in self.tensors]
        flags = [self.run(self.ours, 1024.0)]
        ours = [t.clone() for t in self.tensors]
        self.restore(before)
        if with_peer:
            flags.append(self.run(self.peer, 1024.0))
            bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[self.dtype.itemsize]
            for i, (a, b) in enumerate(zip(ours, self.tensors)):
                if not torch.equal(a.view(bits), b.view(bits)):
                    raise AssertionError(f"tensor {i} differs from PyTorch's")
            self.restore(before)
        self.tensors[-1].view(-1)[-1] = float("inf")
        flags.append(1.0 - self.run(self.ours, 1.0))
        self.restore(before)
        if any(flags):
            raise AssertionError(f"found_inf is wrong: {flags}")
        self.run(self.ours, 1.0)  # and scale 1 from here on: a thousand runs change nothing

    def restore(self, before):
        for t, b in zip(self.tensors, before):
            t.copy_(b)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "release", "libtwinops.so"))
    parser.add_argument("--list", nargs="+", choices=list(LISTS), default=list(LISTS))
    parser.add_argument("--dtype", nargs="+", default=["float16", "bfloat16", "float32"],
                        choices=["float16", "bfloat16", "float32", "float64"])
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test(options.library)

    import torch
    import triton
    twinops = Twinops(options.library)
    # The median; do_bench flushes the L2 cache before each run.
    time_of = lambda call: triton.testing.do_bench(call, warmup=25, rep=200,
                                                   return_mode="median") * 1e3
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}")
    empty = torch.zeros(1, device="cuda")
    print(f"a kernel that does nothing to speak of: {time_of(lambda: empty.zero_()):.1f} us\n")
    print(f"{'list':12} {'dtype':9} {'peer us':>9} {'ours us':>9} {'copy us':>9} {'of copy':>8} "
          f"{'peer/ours':>9} {'launches':>8} {'host peer':>10} {'host ours':>10}")
    for name in options.list:
        shapes = LISTS[name]()
        for dtype_name in options.dtype:
            rival = Rival(torch, twinops, shapes, getattr(torch, dtype_name))
            with_peer = rival.peer_works()
            rival.check(with_peer)
            elements = sum(t.numel() for t in rival.tensors)
            source = torch.empty(elements, dtype=rival.dtype, device="cuda")
            target = torch.empty_like(source)
            copy = time_of(lambda: target.copy_(source))
            ours, host = time_of(rival.ours), host_microseconds(torch, rival.ours)
            if with_peer:
                peer = time_of(rival.peer)
                peer_texts = (f"{peer:9.1f}", f"{peer / ours:9.2f}",
                              f"{host_microseconds(torch, rival.peer):10.1f}")
            else:
                peer_texts = (f"{'-':>9}", f"{'-':>9}", f"{'-':>10}")
            print(f"{name:12} {dtype_name:9} {peer_texts[0]} {ours:9.1f} {copy:9.1f} "
                  f"{copy / ours:8.2f} {peer_texts[1]} {rival.ours.report.launches:8} "
                  f"{peer_texts[2]} {host:10.1f}", flush=True)
            del rival, source, target
            torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
