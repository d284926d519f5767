#!/usr/bin/env python3
"""softmax under a scale and masks beside PyTorch and torch.compile, in one process on one GPU.

  python3 benchmarks/softmax_mask_peers.py [--library build/release/libtwinops.so] [--quick] [--ours]
      [--types bfloat16,...] [--columns 64,...] [--masks scale,...] [--elements N]

x is [batch, 16 heads, 128 queries, columns]. The masks: `scale` is a scale of 0.125 alone, which all
others have too; `causal`; `lengths`, [batch]; `bool` and `bool_keys`, bytes [batch, 1, queries,
columns] and [batch, 1, 1, columns]; `added` and `added_float32`, numbers of x's type and float32,
[batch, 1, queries, columns]. Every figure is the median of CUDA-event timings with a cold L2
(benchmarks/peers.py). `share`: x read once, the mask read once and the output written once, over the
rate of a device-to-device copy of as many bytes in the same run. Results are compared with PyTorch's,
in double, before they are timed.
"""
import argparse
import json

import torch

import peers

HEADS, QUERIES, SCALE = 16, 128, 0.125
MASKS = "scale,causal,lengths,bool,bool_keys,added,added_float32"


def masked(x, mask):
    """What softmax is taken of, as PyTorch says it; mask: None, bool (True: out) or numbers."""
    x = x * SCALE
    if mask is None:
        return x
    return x.masked_fill(mask, float("-inf")) if mask.dtype == torch.bool else x + mask


def softmax(x, mask):
    return torch.softmax(masked(x, mask), -1)


class Case:
    """x and a mask, as twinops takes it and as PyTorch does."""

    def __init__(self, dtype, columns, kind, elements):
        batch = max(1, elements // (HEADS * QUERIES * columns))
        shape = (batch, HEADS, QUERIES, columns)
        self.x = torch.randn(shape, device="cuda", dtype=dtype) * 4
        self.y = torch.empty_like(self.x)
        self.attributes, self.tensors, self.mask = dict(scale=SCALE), {}, None
        where = torch.arange(columns, device="cuda")
        if kind == "causal":
            offset = max(0, columns - QUERIES)
            self.attributes.update(causal=True, causal_offset=offset)
            rows = torch.arange(QUERIES, device="cuda")
            self.mask = where[None, None, None] > rows[None, None, :, None] + offset
        elif kind == "lengths":
            lengths = torch.randint(columns // 2, columns + 1, (batch,), device="cuda")
            self.tensors["lengths"] = lengths
            self.mask = where[None, None, None] >= lengths[:, None, None, None]
        elif kind != "scale":
            shape = (batch, 1, 1 if kind == "bool_keys" else QUERIES, columns)
            out = torch.rand(shape, device="cuda") < 0.25
            if kind.startswith("added"):
                self.mask = torch.randn(shape, device="cuda").masked_fill(out, float("-inf"))
                self.mask = self.mask.to(torch.float32 if kind == "added_float32" else dtype)
            else:
                self.mask = out
            self.tensors["mask"] = self.mask
        read = sum(t.numel() * t.element_size() for t in self.tensors.values())
        self.least = 2 * self.x.numel() * self.x.element_size() + read

    def check(self):
        expected = softmax(self.x[0].double(), self.mask if self.mask is None else self.mask[0])
        error = (self.y[0].double() - expected).abs().max().item()
        if not error < (2e-2 if self.y.element_size() == 2 else 1e-5):
            print(json.dumps(dict(wrong=error)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    peers.add_softmax_options(parser)
    parser.add_argument("--columns", default="64,128,512,1001,1024,2048,4096,16384")
    parser.add_argument("--masks", default=MASKS)
    options = parser.parse_args()
    milliseconds = 10 if options.quick else 60
    ours = peers.Twinops(options.library)
    compiled = torch.compile(softmax, dynamic=False)
    torch._dynamo.config.cache_size_limit = 1024
    torch.manual_seed(0)
    for type_name in options.types.split(","):
        for columns in map(int, options.columns.split(",")):
            for kind in options.masks.split(","):
                case = Case(getattr(torch, type_name), columns, kind, options.elements)
                call = ours.call("softmax", case.attributes, x=case.x, out=case.y, **case.tensors)
                call()
                case.check()
                copy = peers.copy_microseconds(case.least // 2 * 2, milliseconds)
                line = dict(type=type_name, columns=columns, mask=kind)
                runs = {"us": call}
                if not options.ours:
                    runs.update(torch=lambda: softmax(case.x, case.mask),
                                compile=lambda: compiled(case.x, case.mask))
                for name, run in runs.items():
                    t = peers.microseconds(run, milliseconds)
                    line[name] = round(t, 1)
                    line["share" if name == "us" else name + "_share"] = round(copy / t, 3)
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
