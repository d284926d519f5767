"""Trains a small transformer encoder on scikit-learn's handwritten digits, and says how well it reads
digits that it has not seen.

    python train.py                       # twinops' softmax, dropout and loss scaling
    python train.py --operators paddle    # the same model with Paddle's own
    python train.py --plot losses.png     # both, beside each other

With twinops the losses are the same to the last bit for every TWINOPS_ISA and TWINOPS_THREADS: the
digest that it prints says so. (Paddle's own matrix products are kept to one thread.)
"""

import argparse
import hashlib
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # Paddle's

import numpy as np
import paddle
from paddle import nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import twinops.paddle as tp


class PaddleOperators:
    """The same by Paddle."""

    softmax = staticmethod(nn.functional.softmax)
    dropout = staticmethod(nn.functional.dropout)

    @staticmethod
    def dropout_add(x, y, p, training):
        return nn.functional.dropout(x, p, training=training) + y

    @staticmethod
    def scaler():
        return None  # Paddle's GradScaler switches itself off on a CPU


class TwinopsOperators:
    """What of the model twinops computes."""

    softmax = staticmethod(tp.functional.softmax)
    dropout = staticmethod(tp.functional.dropout)
    dropout_add = staticmethod(tp.functional.fused_dropout_add)

    @staticmethod
    def scaler():
        return tp.GradScaler(init_loss_scaling=1024.0, incr_every_n_steps=200)


OPERATORS = {"twinops": TwinopsOperators, "paddle": PaddleOperators}


class Block(nn.Layer):
    """Attention and a feed-forward network, each with dropout and a residual."""

    def __init__(self, width, heads, p, operators):
        super().__init__()
        self.heads, self.p, self.operators = heads, p, operators
        self.norms = nn.LayerList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def attend(self, x):
        rows, length, width = x.shape
        split = self.qkv(x).reshape([rows, length, 3, self.heads, width // self.heads])
        q, k, v = split.transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = paddle.matmul(q, k, transpose_y=True) * (width // self.heads) ** -0.5
        weights = self.operators.softmax(scores)
        weights = self.operators.dropout(weights, self.p, training=self.training)
        joined = paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([rows, length, width])
        return self.out(joined)

    def forward(self, x):
        add = self.operators.dropout_add
        x = add(self.attend(self.norms[0](x)), x, self.p, self.training)
        hidden = nn.functional.gelu(self.up(self.norms[1](x)))
        return add(self.down(hidden), x, self.p, self.training)


class Encoder(nn.Layer):
    """Reads an 8 x 8 image as 16 patches of 2 x 2 pixels."""

    def __init__(self, operators, width=48, heads=4, blocks=2, p=0.2):
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.position = self.create_parameter([1, 16, width])
        self.blocks = nn.Sequential(*(Block(width, heads, p, operators) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, 10)

    def forward(self, images):
        patches = images.reshape([-1, 4, 2, 4, 2]).transpose([0, 1, 3, 2, 4]).reshape([-1, 16, 4])
        x = self.blocks(self.embed(patches) + self.position)
        return self.classify(self.norm(x).mean(1))


def digits():
    """(training images, held-out images, training labels, held-out labels)."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 8 - 1).astype("float32").reshape([-1, 8, 8])
    return train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)


def train(operators, epochs, batch=64, seed=7):
    """(losses, accuracy on held-out images)."""
    train_x, test_x, train_y, test_y = digits()
    paddle.seed(seed)
    order = np.random.default_rng(seed)
    model = Encoder(operators)
    steps = epochs * (len(train_x) // batch)
    rate = paddle.optimizer.lr.CosineAnnealingDecay(3e-3, T_max=steps)
    optimizer = paddle.optimizer.AdamW(rate, parameters=model.parameters(), weight_decay=0.01)
    scaler = operators.scaler()
    losses = []
    for _ in range(epochs):
        shuffled = order.permutation(len(train_x))
        for start in range(0, len(train_x) - batch + 1, batch):
            some = shuffled[start : start + batch]
            logits = model(paddle.to_tensor(train_x[some]))
            loss = nn.functional.cross_entropy(logits, paddle.to_tensor(train_y[some]))
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            optimizer.clear_grad()
            rate.step()
            losses.append(loss.item())
    model.eval()
    with paddle.no_grad():
        read = model(paddle.to_tensor(test_x)).numpy().argmax(1)
    return np.float32(losses), float((read == test_y).mean())


def plot(curves, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, losses in curves.items():
        smooth = np.convolve(losses, np.ones(21) / 21, "valid")
        axes.plot(np.arange(len(smooth)) + 10, smooth, label=name)
    axes.set(xlabel="step", ylabel="training loss, mean of 21 steps", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=150)
    print(f"plot in {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operators", choices=OPERATORS, default="twinops")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--plot", metavar="FILE", help="train with both, and draw their losses")
    arguments = parser.parse_args()
    curves = {}
    for name in OPERATORS if arguments.plot else [arguments.operators]:
        begin = time.perf_counter()
        losses, accuracy = train(OPERATORS[name], arguments.epochs)
        digest = hashlib.sha256(losses.tobytes()).hexdigest()[:16]
        print(
            f"{name}: {len(losses)} steps in {time.perf_counter() - begin:.0f} s, "
            f"last loss {losses[-21:].mean():.4f}, losses {digest}, held-out accuracy {accuracy:.4f}"
        )
        curves[name] = losses
    if arguments.plot:
        plot(curves, arguments.plot)


if __name__ == "__main__":
    main()
