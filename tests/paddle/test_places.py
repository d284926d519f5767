"""Tensors that lie elsewhere: refused with a message, nothing written, and the process goes on."""

import numpy as np
import paddle
import pytest

import twinops.paddle as tp
from twinops._call import CPU, CUDA, Call, view
from twinops._native import library

FLOAT32 = (2, 32)
EXTENSION = 12  # DLPack's kDLExtDev: neither a CPU's memory nor a GPU's


def softmax_on(x_device, out_device):
    """The message of a softmax whose tensors claim these devices; its memory is the host's."""
    x, out = np.zeros(8, np.float32), np.full(8, 7, np.float32)
    at = lambda array, device: view(array.ctypes.data, FLOAT32, array.shape, device=device)
    call = Call(library(), "softmax", {"x": at(x, x_device), "out": at(out, out_device)})
    with pytest.raises(RuntimeError) as refused:
        call()
    assert (out == 7).all(), "a refused call wrote"
    return str(refused.value)


def test_tensors_of_one_call_are_on_one_device():
    assert softmax_on((CPU, 0), (CUDA, 0)) == "softmax: out: is on cuda:0, but softmax: x is on cpu"
    assert softmax_on((CUDA, 1), (CUDA, 0)).endswith("softmax: x is on cuda:1")


def test_a_device_of_another_kind():
    message = softmax_on((EXTENSION, 0), (EXTENSION, 0))
    assert "softmax: x: expected memory of the CPU or of a CUDA device" in message
    assert str(EXTENSION) in message


@pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="this Paddle has CUDA")
def test_a_gpu_that_paddle_has_not():
    with pytest.raises(ValueError):
        tp.functional.softmax(paddle.to_tensor([1.0, 2.0], place=paddle.CUDAPlace(0)))
    # No CUDA kernel can be had for GPU tensors: said, not guessed.
    if not paddle.device.cuda.device_count():
        assert "cuda" in softmax_on((CUDA, 7), (CUDA, 7))
    out = tp.functional.softmax(paddle.to_tensor([1.0, 2.0]))
    np.testing.assert_allclose(out.numpy(), [0.26894143, 0.73105857], rtol=1e-6)
