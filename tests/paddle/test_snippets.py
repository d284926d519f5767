"""The snippets of docs/hosts/paddle.md."""

import pytest
from snippets import run, snippets_of


@pytest.mark.parametrize("code, expected", snippets_of("docs/hosts/paddle.md"))
def test_it_runs_as_printed(code, expected, tmp_path):
    run(code, expected, tmp_path)
