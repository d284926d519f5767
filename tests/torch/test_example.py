"""The examples: the encoder's losses are the same on every instruction set and for every number of
twinops' threads; the policy's log-probabilities are those of the sampler."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def _run(program, *arguments, **variables):
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / program), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def _losses(output):
    return re.search(r"losses ([0-9a-f]{16})", output)[1]


def test_losses_are_those_of_the_scalar_reference(tmp_path):
    pytest.importorskip("sklearn")
    arguments = ("--steps", 3, "--batch", 4, "--device", "cpu")
    best = _run("torch_bert/train.py", *arguments)
    scalar = _run("torch_bert/train.py", *arguments, TWINOPS_ISA="scalar")
    assert _losses(best) == _losses(scalar)
    state = tmp_path / "state.pt"
    _run("torch_bert/train.py", "--steps", 2, "--batch", 4, "--device", "cpu", "--save", state)
    resumed = _run("torch_bert/train.py", *arguments, "--resume", state)
    assert best.split("the last ")[1] == resumed.split("the last ")[1]


def test_a_policy_is_no_distance_from_itself():
    output = _run("torch_rl/logprobs.py", "--rows", 5)
    (line,) = (line for line in output.splitlines() if line.startswith("twinops"))
    assert line.split()[1:] == ["0", "0", "0"]
