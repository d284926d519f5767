"""The devices of JAX's tests: four simulated CPUs, and GPUs where there are some."""

import os

flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=4"
os.environ.setdefault("NPROC", "8")  # threads for devices that wait for one another
os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "0")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other tests share the GPU

import jax  # noqa: E402
import pytest  # noqa: E402


def devices():
    found = {"cpu": jax.devices("cpu")[0]}
    try:
        found["cuda"] = jax.devices("cuda")[0]
    except RuntimeError:
        pass
    return found


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """Each test that takes it runs on a CPU and on a GPU."""
    found = devices().get(request.param)
    if found is None:
        pytest.skip("JAX has no CUDA device here")
    with jax.default_device(found):
        yield found
