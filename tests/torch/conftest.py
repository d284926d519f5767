"""What all tests of the PyTorch plugin share: random data from a seed that a failing test prints, and
the devices that this machine has."""

import os
import random

import pytest
import torch

SEED = int(os.environ.get("TWINOPS_TEST_SEED", random.SystemRandom().getrandbits(31)))
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def pytest_report_header(config):
    return f"TWINOPS_TEST_SEED={SEED}, devices {', '.join(DEVICES)}"


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def seeded():
    print(f"TWINOPS_TEST_SEED={SEED}")  # shown if the test fails
    torch.manual_seed(SEED)


@pytest.fixture(autouse=True)
def traced_anew():
    yield
    torch._dynamo.reset()
