"""Runs an example of examples/ as a user does, and on every instruction set of this machine."""

import os
import pathlib
import re
import subprocess
import sys

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
    """Instruction sets of this build that this machine has."""
    info = subprocess.run([sys.executable, "-m", "twinops", "info"], capture_output=True, text=True)
    found = re.findall(r"^  cpu/(\w+) +available$", info.stdout, re.M)
    assert "scalar" in found and len(found) >= 2, info.stdout + info.stderr
    return found
