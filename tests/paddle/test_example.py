"""examples/paddle_digits: it learns to read, and its losses have the same bits whichever instruction
set and number of threads compute twinops' operators."""

import os
import pathlib
import re
import subprocess
import sys

TRAIN = pathlib.Path(__file__).parents[2] / "examples" / "paddle_digits" / "train.py"


def train(*arguments, **environment):
    """The line that the example prints for each set of operators, as a dict."""
    out = subprocess.run(
        [sys.executable, TRAIN, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    ).stdout
    pattern = r"(\w+): (\d+) steps .* losses (\w+), held-out accuracy (\S+)"
    return {m[1]: (int(m[2]), m[3], float(m[4])) for m in re.finditer(pattern, out)}


def test_it_reads_digits():
    steps, _, accuracy = train()["twinops"]
    assert steps >= 500 and accuracy >= 0.95


def test_the_same_losses_on_every_instruction_set_and_number_of_threads():
    info = subprocess.run([sys.executable, "-m", "twinops", "info"], capture_output=True, text=True)
    isas = re.findall(r"^  cpu/(\w+) +available$", info.stdout, re.M)
    assert "scalar" in isas and len(isas) >= 2
    runs = [train("--epochs", "1", TWINOPS_ISA=isa, TWINOPS_THREADS="1") for isa in isas]
    runs.append(train("--epochs", "1", TWINOPS_ISA=isas[0], TWINOPS_THREADS="2"))
    assert len({run["twinops"][1] for run in runs}) == 1, runs


def test_beside_paddles_own_operators(tmp_path):
    both = train("--epochs", "1", "--plot", str(tmp_path / "losses.png"))
    assert both.keys() == {"twinops", "paddle"} and both["twinops"][0] == both["paddle"][0]
    assert both["twinops"][1] != both["paddle"][1]  # other masks, other losses
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
