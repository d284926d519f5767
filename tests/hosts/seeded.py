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


def pytest_configure(config):
    line = "covers(what, *operators): what of docs/hosts/README.md's table a test shows"
    config.addinivalue_line("markers", line)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """With TWINOPS_RAN=FILE each test that passes and covers something adds lines to the file: host,
    operator, what. Without operators of its own a mark means the test's parameter `op`."""
    report = (yield).get_result()
    path = os.environ.get("TWINOPS_RAN")
    if not path or report.when != "call" or not report.passed:
        return
    parameters = getattr(item, "callspec", None)
    parameters = parameters.params if parameters else {}
    place = str(parameters.get("device", parameters.get("provider", ""))).lower()
    with open(path, "a") as ran:
        for mark in item.iter_markers("covers"):
            what, *names = mark.args
            what = "CUDA" if what == "CPU" and "cuda" in place else what
            for name in names or [parameters["op"]]:
                print(item.path.parent.name, name, what, file=ran)
