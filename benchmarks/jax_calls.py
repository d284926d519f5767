"""What a call of a small array costs under jit, in microseconds of the host: twinops' functions and JAX's
own. Run with the package installed:

    python benchmarks/jax_calls.py           # a table
    python benchmarks/jax_calls.py --json    # a line of JSON for each, for benchmarks/record.py
"""

import json
import sys
import time

import jax
import jax.numpy as jnp

import twinops.jax as tj

SHAPE = (4, 8)


def microseconds(call, calls=50, rounds=400):
    """The best round's time of a call: other processes only add to it."""
    jax.block_until_ready(call())
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            result = call()
        jax.block_until_ready(result)
        best = min(best, (time.perf_counter() - begin) / calls)
    return best * 1e6


def own_dropout(key, x):
    return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)


def show(name, time):
    if "--json" in sys.argv:
        print(json.dumps({"call": name, "microseconds": round(time, 1)}))
    else:
        print(f"{name:28} {time:5.1f} us")


def main():
    x, key = jax.random.normal(jax.random.key(0), SHAPE), jax.random.key(7)
    programs = {
        "x + 1": (lambda x: x + 1, (x,)),
        "jax.nn.softmax": (jax.nn.softmax, (x,)),
        "twinops softmax": (tj.softmax, (x,)),
        "bernoulli and where": (own_dropout, (key, x)),
        "twinops dropout": (lambda key, x: tj.dropout(key, x, 0.1), (key, x)),
        "twinops dropout, int seed": (lambda x: tj.dropout(7, x, 0.1), (x,)),
    }
    for name, (f, arguments) in programs.items():
        program = jax.jit(f)
        show(name, microseconds(lambda: program(*arguments)))


main()
