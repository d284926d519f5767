"""A pytest plugin that the tests of the adapters share: random data from a seed that a failing test
prints. run_pytest.py loads it and puts this folder, with core and samples, on the path."""

import os

import numpy as np
import pytest

SEED = int(os.environ.get("TWINOPS_TEST_SEED", np.random.SeedSequence().entropy % 2**32))


def pytest_report_header(config):
    return f"TWINOPS_TEST_SEED={SEED}"


@pytest.fixture
def rng():
    print(f"TWINOPS_TEST_SEED={SEED}")  # shown if the test fails
    return np.random.default_rng(SEED)
