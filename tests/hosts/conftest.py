"""What the tests of the adapters share: random data from a seed that a failing test prints."""

import os
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # core, samples, snippets
SEED = int(os.environ.get("TWINOPS_TEST_SEED", np.random.SeedSequence().entropy % 2**32))


def pytest_report_header(config):
    return f"TWINOPS_TEST_SEED={SEED}"


@pytest.fixture
def rng():
    print(f"TWINOPS_TEST_SEED={SEED}")  # shown if the test fails
    return np.random.default_rng(SEED)
