"""examples/arrays_digits: it learns to read, with the same losses on every instruction set, for every
number of threads and, where there is a GPU and CuPy, there."""

import re

import pytest
from examples import isas, run

PATTERN = r"(\w+): (\d+) steps, losses (\w+), held-out accuracy (\S+)"


def train(*arguments, **environment):
    return re.fullmatch(PATTERN, run("arrays_digits/train.py", *arguments, **environment).strip())


def test_it_reads_digits():
    found = train()
    assert int(found[2]) >= 500 and float(found[4]) >= 0.95


def test_the_same_losses_on_every_instruction_set_and_number_of_threads():
    few = ["--epochs", "2"]
    digests = {train(*few, TWINOPS_ISA=isa, TWINOPS_THREADS="1")[3] for isa in isas()}
    digests.add(train(*few, TWINOPS_THREADS="2")[3])
    assert len(digests) == 1


def test_the_same_losses_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("needs a GPU")
    few = ["--epochs", "2"]
    assert train("--kind", "cupy", *few)[3] == train(*few)[3]
