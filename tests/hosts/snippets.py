"""The Python snippets of a page of docs/: each runs as it is printed, in a process of its own, and a
text block that follows one is what it prints."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def snippets_of(document):
    """pytest parameters (code, what it prints or None)."""
    text = (ROOT / document).read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    found = []
    for i, (language, code) in enumerate(blocks):
        after = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
        if language == "python":
            expected = after[1] if after[0] == "text" else None
            found.append(pytest.param(code, expected, id=f"{document}-{i}"))
    assert found and found[0].values[1], f"{document}: its first snippet says what it prints"
    return found


def run(code, expected, folder):
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ,
    )
    assert process.returncode == 0, process.stderr
    if expected is not None:
        assert process.stdout == expected
