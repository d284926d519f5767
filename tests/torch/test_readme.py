"""The Python snippets of docs/hosts/torch.md run as they are printed; a text block that follows one
is what it prints."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def snippets():
    text = (ROOT / "docs/hosts/torch.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    for i, (language, code) in enumerate(blocks):
        after = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
        if language == "python":
            expected = after[1] if after[0] == "text" else None
            yield pytest.param(code, expected, id=f"torch.md-{i}")


SNIPPETS = list(snippets())


def test_there_are_some():
    assert any(s.values[1] for s in SNIPPETS)


@pytest.mark.parametrize("code, expected", SNIPPETS)
def test_it_runs_as_printed(code, expected, tmp_path):
    if "import onnxruntime" in code:
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    if expected is not None:
        assert run.stdout == expected
