"""Runs an example of examples/ as a user does, and on every instruction set of this machine."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(path, *arguments, **environment):
    """What the example prints."""
    process = subprocess.run(
        [sys.executable, ROOT / "examples" / path, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def isas():
    """Instruction sets of this build that this machine has. The test is skipped where there is one alone."""
    info = subprocess.run([sys.executable, "-m", "twinops", "info"], capture_output=True, text=True)
    found = re.findall(r"^  cpu/(\w+) +available$", info.stdout, re.M)
    assert "scalar" in found, info.stdout + info.stderr
    if len(found) < 2:
        pytest.skip("this build has the scalar kernels alone")
    return found
