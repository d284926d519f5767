"""Log-probabilities of a policy, computed twice as reinforcement learning of language models does: by a
sampler that takes rows one by one, on a GPU where there is one, and by a trainer that takes them in a
batch, on the CPU. Where the two differ, the ratio of old and new policy is not 1 before anything was
learned, and the KL divergence between a policy and itself is not 0. With twinops both are exact.

usage: python examples/torch_rl/logprobs.py [--vocabulary N] [--rows N] [--type float32|bfloat16]
"""

import argparse

import torch

import twinops.torch as tt


def sampler(log_softmax, logits, device):
    """Row by row, as tokens are sampled."""
    return torch.cat([log_softmax(row[None].to(device), -1).cpu() for row in logits])


def trainer(log_softmax, logits):
    """All rows at once, on the CPU."""
    return log_softmax(logits, -1)


def divergence(old, new):
    """KL(old || new), summed over the vocabulary and averaged over the rows, in float64."""
    old, new = old.double(), new.double()
    return (old.exp() * (old - new)).sum(-1).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=151936)  # Qwen's
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--type", default="float32", choices=("float32", "bfloat16"))
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    logits = 3 * torch.randn(options.rows, options.vocabulary)
    logits = logits.to(getattr(torch, options.type))
    tokens = torch.randint(options.vocabulary, (options.rows, 1))

    print(f"sampler: rows one by one on {device}; trainer: {options.rows} rows on cpu; {options.type}")
    print(f"{'':9}{'KL(sampler || trainer)':>24}{'largest |ratio - 1|':>22}{'log-probs that differ':>24}")
    for name, function in (("twinops", tt.functional.log_softmax), ("PyTorch", torch.log_softmax)):
        old, new = sampler(function, logits, device), trainer(function, logits)
        ratio = (new.gather(1, tokens) - old.gather(1, tokens)).double().exp()
        print(f"{name:9}{divergence(old, new):24.3g}{(ratio - 1).abs().max().item():22.3g}"
              f"{(old != new).sum().item():24d}")


if __name__ == "__main__":
    main()
