"""The snippets of docs/hosts/torch.md."""

import pytest
from snippets import run, snippets_of


@pytest.mark.parametrize("code, expected", snippets_of("docs/hosts/torch.md"))
def test_it_runs_as_printed(code, expected, tmp_path):
    if "import onnxruntime" in code:
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    run(code, expected, tmp_path)
