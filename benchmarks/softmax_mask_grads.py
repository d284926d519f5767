#!/usr/bin/env python3
"""What a mask costs the gradients of softmax on one GPU: microseconds without one and under each kind.

  python3 benchmarks/softmax_mask_grads.py [--library build/release/libtwinops.so] [--quick]
      [--types bfloat16,...] [--columns 128,...] [--operators softmax_grad,...] [--elements N]

y is [batch, 16 heads, 128 queries, columns]; `bool` and `added` are masks [batch, 1, queries, columns]
of bytes and of numbers of y's type. Every figure is the median of CUDA-event timings with a cold L2
(benchmarks/peers.py).
"""
import argparse
import json

import torch

import peers

HEADS, QUERIES = 16, 128


def main():
    parser = argparse.ArgumentParser()
    peers.add_softmax_options(parser)
    parser.add_argument("--columns", default="128,1024,4096")
    parser.add_argument("--operators", default="softmax_grad,log_softmax_grad")
    options = parser.parse_args()
    ours = peers.Twinops(options.library)
    torch.manual_seed(0)
    for type_name in options.types.split(","):
        for columns in map(int, options.columns.split(",")):
            dtype = getattr(torch, type_name)
            batch = max(1, options.elements // (HEADS * QUERIES * columns))
            shape = (batch, HEADS, QUERIES, columns)
            y = torch.softmax(torch.randn(shape, device="cuda", dtype=dtype), -1)
            dy, dx = torch.randn_like(y), torch.empty_like(y)
            out = torch.rand((batch, 1, QUERIES, columns), device="cuda") < 0.2
            added = torch.zeros(out.shape, device="cuda", dtype=dtype).masked_fill(out, -torch.inf)
            kinds = dict(none={}, bool=dict(mask=out), added=dict(mask=added), causal={})
            for op in options.operators.split(","):
                values = y.log() if op == "log_softmax_grad" else y
                line = dict(type=type_name, columns=columns, what=op)
                for kind, tensors in kinds.items():
                    attributes = dict(axis=-1, causal=True) if kind == "causal" else dict(axis=-1)
                    call = ours.call(op, attributes, y=values, dy=dy, dx=dx, **tensors)
                    line[kind] = round(peers.microseconds(call, 10 if options.quick else 60), 1)
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
