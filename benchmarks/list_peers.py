#!/usr/bin/env python3
"""Times check_finite_and_unscale beside PyTorch's own on a GPU, in one process, on the same tensors.

The peer is torch._amp_foreach_non_finite_check_and_unscale_, what GradScaler calls. Ours goes through
the C ABI: DLTensors over torch's tensors, on torch's current stream. Both work in place. Before
anything is timed, the two must give the same bits on finite gradients, and the same found_inf.

  python3 benchmarks/list_peers.py --library build/release/libtwinops.so

Times are medians in microseconds with a cold L2 cache (benchmarks/peers.py). A launch with more than
a few parameters takes one of two times by turns of the launches in its process, whatever the kernel
does (1x1: one element): `ours us` is the longer, `or` the shorter. `of copy` is the rate of the longer
over that of a copy of as many bytes; `host` is how long one call keeps its caller.
"""
import argparse
import json
import os
import statistics
import time

import torch

import peers


def shapes_of(name):
    """The shapes of tools/proof/lists/<name>.txt."""
    shapes = []
    path = os.path.join(peers.ROOT, "tools", "proof", "lists", name + ".txt")
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words and words[0] != "total" and not words[0].startswith("#"):
                shapes.append(tuple(int(word) for word in words[1:]))
    return shapes


LISTS = {
    "resnet50": lambda: shapes_of("resnet50"),
    "bert_large": lambda: shapes_of("bert_large"),
    "1x1": lambda: [(1,)],
    "300x1024": lambda: [(1024,)] * 300,
    "300x1000": lambda: [(1000,)] * 300,  # torch's allocator leaves gaps; 1024 it puts side by side
    "2000x256": lambda: [(256,)] * 2000,
    "100000x16": lambda: [(16,)] * 100000,
    "1x2^28": lambda: [(1 << 28,)],
}


def host_microseconds(call, rounds=15):
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

    def __init__(self, twinops, shapes, dtype):
        self.dtype = dtype
        torch.manual_seed(1)
        self.tensors = [torch.randn(shape, device="cuda").to(dtype) for shape in shapes]
        self.scale = torch.ones(1, device="cuda")
        self.inverse = torch.ones(1, device="cuda")
        self.found = torch.zeros(1, device="cuda")
        self.ours = twinops.call("check_finite_and_unscale", x=self.tensors, scale=self.scale,
                                 out=self.tensors, found_inf=self.found)

    def peer(self):
        torch._amp_foreach_non_finite_check_and_unscale_(self.tensors, self.found, self.inverse)

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
    parser.add_argument("--library", default=peers.LIBRARY)
    parser.add_argument("--list", nargs="+", choices=list(LISTS), default=list(LISTS))
    parser.add_argument("--dtype", nargs="+", default=["float16", "bfloat16", "float32"],
                        choices=["float16", "bfloat16", "float32", "float64"])
    parser.add_argument("--json", action="store_true", help="a line of JSON a list: record.py")
    options = parser.parse_args()
    twinops = peers.Twinops(options.library)
    time_of = lambda call: peers.microseconds(call)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    empty = torch.zeros(1, device="cuda")
    print(f"a kernel that does nothing to speak of: {time_of(lambda: empty.zero_()):.1f} us\n")
    print(f"{'list':12} {'dtype':9} {'peer us':>9} {'ours us':>9} {'or':>9} {'copy us':>9} {'of copy':>8} "
          f"{'peer/ours':>9} {'launches':>8} {'host peer':>10} {'host ours':>10}")
    for name in options.list:
        shapes = LISTS[name]()
        for dtype_name in options.dtype:
            rival = Rival(twinops, shapes, getattr(torch, dtype_name))
            with_peer = rival.peer_works()
            rival.check(with_peer)
            elements = sum(t.numel() for t in rival.tensors)
            copy = peers.copy_microseconds(2 * elements * rival.dtype.itemsize)
            times = [time_of(rival.ours)]
            empty.zero_()  # one launch more, and the other turn
            times.append(time_of(rival.ours))
            ours, host = max(times), host_microseconds(rival.ours)
            peer = time_of(rival.peer) if with_peer else None
            peer_host = host_microseconds(rival.peer) if with_peer else None
            if options.json:
                line = dict(list=name, type=dtype_name, us=ours, us_shorter=min(times), peer_us=peer,
                            copy_us=copy, share=copy / ours, peer_share=peer and copy / peer,
                            launches=rival.ours.report.launches, host_us=host, host_peer_us=peer_host)
                print(json.dumps({key: round(value, 3) if isinstance(value, float) else value
                                  for key, value in line.items()}), flush=True)
            else:
                peer_texts = ((f"{peer:9.1f}", f"{peer / ours:9.2f}", f"{peer_host:10.1f}")
                              if with_peer else (f"{'-':>9}", f"{'-':>9}", f"{'-':>10}"))
                print(f"{name:12} {dtype_name:9} {peer_texts[0]} {ours:9.2f} {min(times):9.2f} "
                      f"{copy:9.2f} {copy / ours:8.2f} {peer_texts[1]} "
                      f"{rival.ours.report.launches:8} {peer_texts[2]} {host:10.1f}", flush=True)
            del rival
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
