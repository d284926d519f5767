"""Trains a two-layer network on scikit-learn's handwritten digits with NumPy alone: softmax, dropout,
loss scaling and their gradients are twinops' functions of arrays, the matrix products are NumPy's.

    python train.py                # all on the CPU
    python train.py --kind cupy    # twinops' part on a GPU: the same losses, to the last bit
"""

import argparse
import hashlib

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import twinops

HIDDEN, CLASSES, BATCH, RATE, P = 128, 10, 64, 0.2, 0.25


def arrays_of(kind):
    """(to that kind of array, back to NumPy)."""
    if kind == "numpy":
        return lambda x: x, lambda x: x
    import cupy

    return cupy.asarray, cupy.asnumpy


def data():
    digits = load_digits()
    pixels = (digits.data / 16).astype("float32")
    return train_test_split(pixels, digits.target, test_size=0.2, random_state=0)


class Network:
    def __init__(self, kind):
        self.to, self.back = arrays_of(kind)
        draw = {"seed": 1, "subsequence": 1}
        first = twinops.uniform((64, HIDDEN), **draw)
        second = twinops.uniform((HIDDEN, CLASSES), offset=64 * HIDDEN, **draw)
        self.weights = [first * 0.25 - 0.125, second * 0.5 - 0.25]
        self.state = {
            "scale": self.to(np.full(1, 2.0**10, "float32")),
            "good_steps": self.to(np.zeros(1, "int32")),
            "bad_steps": self.to(np.zeros(1, "int32")),
        }
        self.words = 0  # of the random sequence that are taken

    def logits(self, x):
        return np.maximum(x @ self.weights[0], 0) @ self.weights[1]

    def step(self, x, labels):
        """A step of gradient descent; the batch's loss."""
        hidden = np.maximum(x @ self.weights[0], 0)
        drop = {"p": P, "seed": 2, "offset": self.words}
        self.words += hidden.size  # a multiple of 4
        dropped, mask = twinops.dropout(self.to(hidden), **drop)
        dropped = self.back(dropped)
        logp = twinops.log_softmax(self.to(dropped @ self.weights[1]))
        pick = np.zeros(logp.shape, "float32")
        scale = self.back(self.state["scale"])[0]
        pick[np.arange(len(labels)), labels] = -scale / len(labels)
        dlogits = self.back(twinops.log_softmax_grad(logp, self.to(pick)))
        dhidden = twinops.dropout_grad(self.to(dlogits @ self.weights[1].T), mask=mask, **drop)
        dhidden = self.back(dhidden) * (hidden > 0)
        self.update([x.T @ dhidden, dropped.T @ dlogits])
        return -self.back(logp)[np.arange(len(labels)), labels].mean()

    def update(self, gradients):
        gradients = [self.to(g) for g in gradients]
        unscaled, found = twinops.check_finite_and_unscale(gradients, self.state["scale"])
        results = twinops.update_loss_scaling(
            unscaled, found, *self.state.values(), incr_every_n_steps=100
        )
        self.state = dict(zip(self.state, results[1:]))
        for weight, gradient in zip(self.weights, results[0]):
            weight -= np.float32(RATE) * self.back(gradient)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kind", choices=["numpy", "cupy"], default="numpy")
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    x, unseen, labels, unseen_labels = data()
    network, order, losses = Network(options.kind), np.random.default_rng(0), []
    for _ in range(options.epochs):
        rows = order.permutation(len(x))
        for i in range(0, len(rows) - BATCH + 1, BATCH):
            batch = rows[i : i + BATCH]
            losses.append(network.step(x[batch], labels[batch]))
    accuracy = (network.logits(unseen).argmax(1) == unseen_labels).mean()
    digest = hashlib.sha256(np.array(losses, "float32").tobytes()).hexdigest()[:16]
    print(f"{options.kind}: {len(losses)} steps, losses {digest}, held-out accuracy {accuracy:.3f}")


main()
