#!/usr/bin/env python3
"""Two builds of libtwinops.so by turns on one GPU: whether a change made the softmax family faster.

  python3 benchmarks/softmax_before_and_now.py BEFORE [--library build/release/libtwinops.so]
      [--types float32,bfloat16,float16] [--columns 64,...] [--masks scale,causal,...]
      [--mixed bfloat16:float32,...] [--elements N] [--quick] [--groups plain,masks,mixed,dropout]

A line is a call: microseconds of both, medians of runs that alternate, each with a cold L2 cache
(benchmarks/peers.py), `ratio`, the time before over the time now (above 1 it became faster), and
`copy`, the time of a copy of the same bytes over the time now. The last lines are the geometric mean
and the least ratio of each group: `plain` (softmax, log_softmax and their gradients), `masks` (softmax
under a scale and each mask), `mixed` (the plain four where x and y differ in type), and `dropout`
(softmax_dropout, which keeps a bit mask, and its gradient, from that mask and drawn again). Outputs of
both builds are compared bit for bit before they are timed; --other-bits says that they may differ.
"""
import argparse
import collections
import functools
import json
import math
import statistics

import torch

import peers
import softmax_mask_peers

# Multiples of eight between them, and the vocabularies of language models.
COLUMNS = ("64,72,80,96,128,136,192,256,320,384,512,576,640,768,1000,1024,1152,1280,1536,2048,2304,3072,"
           "4096,5120,6144,8192,10240,12288,16384,20480,24576,32768,"
           "30522,32000,50257,50304,128256,151936,262144")
MASK_COLUMNS = "64,128,512,1024,2048,4096,16384"
MIXED_COLUMNS = "1024,4096,30522,32000,50257,50304,128256,151936,262144"
DROPOUT_COLUMNS = "32,64,128,160,192,256,384,512,768,1000,1024,2048"


class Pair:
    """Both builds' calls on the same tensors."""

    def __init__(self, options):
        self.options = options
        self.builds = [peers.Twinops(options.before), peers.Twinops(options.library)]
        self.milliseconds = 5 if options.quick else 30
        self.ratios = collections.defaultdict(list)
        self.copy = functools.cache(lambda moved: peers.copy_microseconds(moved, self.milliseconds))

    def time(self, group, line, op, attributes, **tensors):
        output = next(tensors[name] for name in ("out", "dx", "y") if name in tensors)
        calls = [build.call(op, attributes, **tensors) for build in self.builds]
        results = []
        for call in calls:
            call()
            results.append(output.clone())
        bits = [r.view(torch.int16 if r.element_size() == 2 else torch.int32) for r in results]
        if not self.options.other_bits and not torch.equal(*bits):
            line["differs"] = int((bits[0] != bits[1]).sum())
        del results, bits
        before, now = self.microseconds(calls)
        copy = self.copy(sum(t.numel() * t.element_size() for t in tensors.values()))
        self.ratios[group].append((before / now, dict(line, what=op)))
        print(json.dumps(dict(line, what=op, before=round(before, 1), now=round(now, 1),
                              ratio=round(before / now, 3), copy=round(copy / now, 2))), flush=True)

    def microseconds(self, calls):
        """Of both, by turns."""
        times = ([], [])
        total = 0.0
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        while total < 2 * self.milliseconds or len(times[0]) < 9:
            for call, kept in zip(calls, times):
                peers._flush().zero_()
                begin.record()
                call()
                end.record()
                end.synchronize()
                kept.append(begin.elapsed_time(end))
                total += kept[-1]
        return [statistics.median(kept[2:]) * 1e3 for kept in times]

    def family(self, group, line, x_type, y_type, columns):
        shape = (max(1, self.options.elements // columns), columns)
        x = torch.randn(shape, device="cuda", dtype=x_type) * 4
        y = torch.empty(shape, device="cuda", dtype=y_type)
        dy, dx = torch.randn_like(y), torch.empty_like(x)
        for op in ("softmax", "log_softmax"):
            self.time(group, line, op, dict(axis=-1), x=x, out=y)
            self.time(group, line, op + "_grad", dict(axis=-1), y=y, dy=dy, dx=dx)

    def dropout(self, line, dtype, columns):
        shape = (max(1, self.options.elements // columns), columns)
        x = torch.randn(shape, device="cuda", dtype=dtype) * 4
        y, p, dy, dx = torch.empty_like(x), torch.empty_like(x), torch.randn_like(x), torch.empty_like(x)
        bits = torch.empty((x.numel() + 31) // 32, device="cuda", dtype=torch.int32).view(torch.uint32)
        attributes = dict(axis=-1, p=0.1, seed=1)
        self.time("dropout", line, "softmax_dropout", attributes, x=x, y=y, probabilities=p, dropout_mask=bits)
        gradient = dict(probabilities=p, dy=dy, dx=dx)
        self.time("dropout", dict(line, mask="drawn"), "softmax_dropout_grad", attributes, **gradient)
        self.time("dropout", dict(line, mask="bits"), "softmax_dropout_grad", attributes, dropout_mask=bits,
                  **gradient)

    def summary(self):
        for group, ratios in self.ratios.items():
            least, where = min(ratios, key=lambda pair: pair[0])
            mean = math.exp(statistics.mean(math.log(ratio) for ratio, _ in ratios))
            print(json.dumps(dict(group=group, calls=len(ratios), geometric_mean=round(mean, 3),
                                  least=round(least, 3), at=where)), flush=True)


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    peers.add_softmax_options(parser)
    parser.add_argument("--columns", default=COLUMNS)
    parser.add_argument("--masks", default=softmax_mask_peers.MASKS)
    parser.add_argument("--mask-columns", default=MASK_COLUMNS)
    parser.add_argument("--mixed", default="bfloat16:float32,float16:float32,float32:bfloat16")
    parser.add_argument("--mixed-columns", default=MIXED_COLUMNS)
    parser.add_argument("--dropout-columns", default=DROPOUT_COLUMNS)
    parser.add_argument("--groups", default="plain,masks,mixed,dropout")
    parser.add_argument("--other-bits", action="store_true", help="results may differ")
    options = parser.parse_args()
    torch.manual_seed(0)
    pair = Pair(options)
    groups = options.groups.split(",")
    if "plain" in groups:
        for name in options.types.split(","):
            for columns in numbers(options.columns):
                dtype = getattr(torch, name)
                pair.family(f"plain {name}", dict(type=name, columns=columns), dtype, dtype, columns)
    if "masks" in groups:
        for name in options.types.split(","):
            for columns in numbers(options.mask_columns):
                for kind in options.masks.split(","):
                    case = softmax_mask_peers.Case(getattr(torch, name), columns, kind,
                                                   options.elements)
                    pair.time("masks", dict(type=name, columns=columns, mask=kind), "softmax",
                              case.attributes, x=case.x, out=case.y, **case.tensors)
    if "mixed" in groups:
        for types in options.mixed.split(","):
            x_type, y_type = (getattr(torch, name) for name in types.split(":"))
            for columns in numbers(options.mixed_columns):
                pair.family(f"mixed {types}", dict(type=types, columns=columns), x_type, y_type, columns)
    if "dropout" in groups:
        for name in options.types.split(","):
            for columns in numbers(options.dropout_columns):
                pair.dropout(dict(type=name, columns=columns), getattr(torch, name), columns)
    pair.summary()


if __name__ == "__main__":
    main()
