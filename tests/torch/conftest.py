"""What all tests of the PyTorch plugin share: random data, and the devices that this machine has."""

import pytest
import torch
from seeded import SEED

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def pytest_report_header(config):
    return f"devices {', '.join(DEVICES)}"


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
