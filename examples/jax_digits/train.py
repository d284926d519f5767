"""Trains a two-layer network on scikit-learn's handwritten digits, each batch cut over devices, and says
how well it reads digits that it has not seen.

    python train.py                # two devices (simulated where there is no second one)
    python train.py --devices 1    # the same parts one after the other: the same losses, to the last bit

A part of a batch drops what the whole batch would drop there: on its own device by the keyword `spec` of
twinops.jax.dropout, and one after the other by skipping the words of the parts before.
"""

import argparse
import functools
import hashlib
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
# Simulated devices wait for one another in XLA's threads: on a machine with two processors they would
# have two, which a step that is dispatched ahead can take.
os.environ.setdefault("NPROC", "8")
os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "0")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import twinops.jax as tj

PARTS, PART, HIDDEN, CLASSES, RATE = 2, 32, 128, 10, 0.5


def data():
    digits = load_digits()
    pixels = (digits.data / 16).astype("float32")
    return train_test_split(pixels, digits.target, test_size=0.2, random_state=0)


def initial():
    shapes = {"hidden": (64, HIDDEN), "out": (HIDDEN, CLASSES)}
    keys = jax.random.split(jax.random.key(1), len(shapes))
    return {
        name: (tj.uniform(key, shape) - 0.5) / shape[0] ** 0.5
        for key, (name, shape) in zip(keys, shapes.items())
    }


def logits(weights, x, drop=lambda x: x):
    return drop(jax.nn.relu(x @ weights["hidden"])) @ weights["out"]


def loss_of_part(weights, x, labels, drop):
    """The part's share of the batch's loss."""
    logp = tj.log_softmax(logits(weights, x, drop))
    return -jnp.take_along_axis(logp, labels[:, None], 1).sum() / (PARTS * PART)


def one_after_the_other(weights, key, x, labels):
    results = []
    for i in range(PARTS):
        rows = slice(i * PART, (i + 1) * PART)
        drop = lambda x, i=i: tj.dropout(key, x, 0.25, offset=i * x.size)  # noqa: E731
        results.append(jax.value_and_grad(loss_of_part)(weights, x[rows], labels[rows], drop))
    return jax.tree.map(lambda *parts: sum(parts[1:], parts[0]), *results)


def on_devices(weights, key, x, labels):
    @functools.partial(
        jax.shard_map, in_specs=(P(), P(), P("batch"), P("batch")), out_specs=P(), check_vma=False
    )
    def parts(weights, key, x, labels):
        drop = lambda x: tj.dropout(key, x, 0.25, spec=P("batch"))  # noqa: E731
        results = jax.value_and_grad(loss_of_part)(weights, x, labels, drop)
        return jax.lax.psum(results, "batch")

    return parts(weights, key, x, labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", type=int, choices=[1, PARTS], default=PARTS)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    devices = jax.devices() if len(jax.devices()) >= PARTS else jax.devices("cpu")
    auto = (jax.sharding.AxisType.Auto,)
    jax.set_mesh(jax.make_mesh((options.devices,), ("batch",), auto, devices=devices[: options.devices]))
    compute = one_after_the_other if options.devices == 1 else on_devices

    @jax.jit
    def step(weights, key, x, labels):
        loss, gradients = compute(weights, key, x, labels)
        return jax.tree.map(lambda w, g: w - RATE * g, weights, gradients), loss

    x, unseen, labels, unseen_labels = data()
    weights, key, losses = initial(), jax.random.key(2), []
    for epoch in range(options.epochs):
        rows = np.random.default_rng(epoch).permutation(len(x))
        for i in range(0, len(rows) - PARTS * PART + 1, PARTS * PART):
            batch = rows[i : i + PARTS * PART]
            key, now = jax.random.split(key)
            weights, loss = step(weights, now, x[batch], labels[batch])
            losses.append(loss)
    accuracy = (logits(weights, unseen).argmax(1) == unseen_labels).mean()
    digest = hashlib.sha256(np.array(losses, "float32").tobytes()).hexdigest()[:16]
    print(
        f"{options.devices} devices: {len(losses)} steps, losses {digest}, held-out accuracy {accuracy:.3f}"
    )


main()
