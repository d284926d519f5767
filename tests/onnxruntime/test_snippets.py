"""The snippets of docs/hosts/onnxruntime.md. README.md's, which need apache-tvm-ffi, are in tests/arrays."""

import pytest
from snippets import run, snippets_of

SNIPPETS = snippets_of("docs/hosts/onnxruntime.md")


@pytest.mark.parametrize("code, expected", SNIPPETS)
def test_it_runs_as_printed(code, expected, tmp_path):
    run(code, expected, tmp_path)
