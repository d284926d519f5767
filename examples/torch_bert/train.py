"""A small BERT-like encoder, trained in mixed precision on the handwritten digits that scikit-learn ships:
each image is a sentence of 64 words, its pixels' levels from 0 to 16.

    python examples/torch_bert/train.py                     # twinops' softmax, dropout and GradScaler
    python examples/torch_bert/train.py --with torch        # PyTorch's own
    python examples/torch_bert/train.py --device cuda --save state.pt --steps 50
    python examples/torch_bert/train.py --device cpu --resume state.pt

With twinops the losses of a run on a CPU are the same to the last bit on every instruction set and for
every number of threads that twinops takes; the masks are the same on a GPU. Matrix products are PyTorch's
and differ from device to device.
"""

import argparse
import hashlib
import struct
import time

import torch
from sklearn.datasets import load_digits
from torch import nn

import twinops.torch as tt


class TwinopsParts:
    """Attention's scores and the ends of the residual branches, each by one operator."""

    scaler = tt.GradScaler

    @staticmethod
    def attend(scores, scale, p, training):
        return tt.functional.softmax_dropout(scores, p, training=training, scale=scale)

    @staticmethod
    def join(x, bias, residual, p, training):
        return tt.functional.bias_dropout_residual(x, bias.to(x.dtype), residual, p, training)


class TorchParts:
    """The same, by PyTorch's functions."""

    scaler = torch.amp.GradScaler

    @staticmethod
    def attend(scores, scale, p, training):
        return nn.functional.dropout(torch.softmax(scores * scale, -1), p, training)

    @staticmethod
    def join(x, bias, residual, p, training):
        return nn.functional.dropout(x + bias.to(x.dtype), p, training) + residual


class Layer(nn.Module):
    def __init__(self, width, heads, p, parts):
        super().__init__()
        self.heads, self.p, self.parts = heads, p, parts
        self.before = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project = nn.Linear(width, 3 * width)
        self.attended, self.wide = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width, bias=False)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(2))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.project(self.before[0](x)).view(batch, length, 3, self.heads, -1).unbind(2)
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1)
        scale = (width // self.heads) ** -0.5
        weights = self.parts.attend(scores, scale, self.p, self.training)
        y = (weights.to(v.dtype) @ v.transpose(1, 2)).transpose(1, 2).reshape(batch, length, width)
        y = self.attended(y)
        x = self.parts.join(y, self.biases[0], x.to(y.dtype), self.p, self.training)
        y = self.narrow(nn.functional.gelu(self.wide(self.before[1](x))))
        return self.parts.join(y, self.biases[1], x.to(y.dtype), self.p, self.training)


class Encoder(nn.Module):
    def __init__(self, parts, width=64, layers=2, heads=4, p=0.1):
        super().__init__()
        self.levels, self.places = nn.Embedding(17, width), nn.Embedding(64, width)
        self.layers = nn.Sequential(*(Layer(width, heads, p, parts) for _ in range(layers)))
        self.classes = nn.Linear(width, 10)

    def forward(self, images):
        x = self.levels(images) + self.places.weight
        return self.classes(self.layers(x).mean(1))


def batches(images, labels, size, steps, first):
    """Each step draws from a generator of its own: a resumed run sees what it would have seen."""
    for step in range(first, steps):
        rows = torch.randint(len(images), (size,), generator=torch.Generator().manual_seed(step))
        yield step, images[rows], labels[rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--with", dest="parts", default="twinops", choices=("twinops", "torch"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--save", help="a file for the state after the last step")
    parser.add_argument("--resume", help="a file to go on from, of any device")
    options = parser.parse_args()
    parts = TwinopsParts if options.parts == "twinops" else TorchParts

    digits = load_digits()
    images = torch.from_numpy(digits.images.reshape(-1, 64).astype("int64"))
    labels = torch.from_numpy(digits.target.astype("int64"))
    train, held_out = slice(0, 1500), slice(1500, None)
    torch.manual_seed(0)
    model = Encoder(parts)  # on the CPU: the same numbers on every device
    model.to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    scaler = parts.scaler(options.device)
    first = 0
    if options.resume:
        state = torch.load(options.resume, map_location=options.device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scaler.load_state_dict(state["scaler"])
        first = state["step"]
        torch.set_rng_state(state["random"].cpu())
    else:
        torch.manual_seed(1)

    losses, begin = [], time.perf_counter()
    for step, x, y in batches(images[train], labels[train], options.batch, options.steps, first):
        with torch.autocast(options.device, torch.bfloat16):
            logits = model(x.to(options.device))
        loss = nn.functional.cross_entropy(logits.float(), y.to(options.device))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        if step % 50 == 0:
            print(f"step {step:4}  loss {losses[-1]:.6f}")
    seconds = time.perf_counter() - begin
    model.eval()
    with torch.no_grad(), torch.autocast(options.device, torch.bfloat16):
        given = model(images[held_out].to(options.device)).argmax(-1).cpu()
    right = (given == labels[held_out]).float().mean().item()
    digest = hashlib.sha256(struct.pack(f"{len(losses)}f", *losses)).hexdigest()[:16]
    print(f"{options.parts} on {options.device}: {len(losses)} steps in {seconds:.1f} s, "
          f"{100 * right:.1f} % of the held-out digits right, losses {digest}, the last {losses[-1].hex()}")
    if options.device == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")
    if options.save:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state.update(scaler=scaler.state_dict(), step=options.steps, random=torch.get_rng_state())
        torch.save(state, options.save)


if __name__ == "__main__":
    main()
