"""examples/jax_digits: it learns to read, with the same losses on two devices as on one, and on every
instruction set."""

import re

from examples import isas, run

PATTERN = r"(\d) devices: (\d+) steps, losses (\w+), held-out accuracy (\S+)"


def train(*arguments, **environment):
    return re.fullmatch(PATTERN, run("jax_digits/train.py", *arguments, **environment).strip())


def test_it_reads_digits():
    found = train()
    assert int(found[2]) >= 400 and float(found[4]) >= 0.95


def test_the_same_losses_on_two_devices_as_on_one_and_on_every_instruction_set():
    few = ["--epochs", "1"]
    best = isas()[0]
    digests = {train(*few, "--devices", devices, TWINOPS_ISA=best)[3] for devices in "12"}
    digests |= {train(*few, TWINOPS_ISA=isa)[3] for isa in isas()[1:]}
    assert len(digests) == 1
