import pytest
from seeded import SEED


@pytest.fixture(autouse=True)
def seeded():
    import paddle

    paddle.seed(SEED)
