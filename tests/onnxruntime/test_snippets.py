"""The snippets of README.md, whose digest is the same on every machine, and of docs/hosts/onnxruntime.md."""

import pytest
from snippets import run, snippets_of

SNIPPETS = [s for page in ("README.md", "docs/hosts/onnxruntime.md") for s in snippets_of(page)]


@pytest.mark.parametrize("code, expected", SNIPPETS)
def test_it_runs_as_printed(code, expected, tmp_path):
    run(code, expected, tmp_path)
