"""Layout torch: what PyTorch's own dropout dropped on a GPU. On a machine with one, PyTorch is asked;
elsewhere the words are those of the C++ core, which tests/dropout_torch_test.cpp holds to the rule."""

import pytest
import torch
from core import assert_same_bits

from twinops.torch import functional as F
from twinops.torch.replay import DropoutReplay

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NN = torch.nn.functional


def _kept(words, p):
    """By the uniform numbers of int32 words, of a float tensor."""
    uniform = (words.to(torch.int64) % 2**32).to(torch.float32) * 2.0**-32 + 2.0**-33
    return uniform < torch.tensor(1.0 - p, dtype=torch.float32)


def test_it_draws_the_words_of_its_layout(device):
    replay = DropoutReplay((5, 8), multiprocessors=2, threads=1024)
    for n, offset in ((1000, 8), (70_001, 12), (3, 48)):
        assert replay.offset == offset
        y, mask = replay.dropout(torch.ones(n, device=device), 0.3)
        words = F.philox_words((n,), 5, offset, layout="torch", period=2048)
        assert torch.equal(mask.cpu(), _kept(words, 0.3))
        assert torch.equal(y != 0, mask)
    assert replay.offset == 52


def test_its_state_is_that_of_a_generator():
    state = torch.tensor([-3, 40], dtype=torch.int64).view(torch.uint8)
    replay = DropoutReplay(state, multiprocessors=132)
    assert (replay.seed, replay.offset, replay.threads) == (-3, 40, 132 * 2048)
    assert DropoutReplay((2**64 - 3, 40), 132).seed == -3
    with pytest.raises(ValueError, match="16 bytes"):
        DropoutReplay(torch.zeros(24, dtype=torch.uint8), 132)


def test_elements_are_drawn_in_the_order_of_memory():
    def masks(x):
        return DropoutReplay((5, 8), 4).dropout(x)[1]

    x = torch.ones(6, 10, 20, 4)
    for order in ((0, 2, 3, 1), (3, 1, 0, 2)):
        back = [order.index(i) for i in range(4)]
        plain = masks(x.permute(order).contiguous())
        assert torch.equal(masks(x.permute(order).contiguous().permute(back)).permute(order), plain)
    wide = torch.ones(6, 12)
    vectors_of_one = torch.ops.twinops.dropout(
        torch.ones(6, 10), p=0.5, seed=5, offset=8, layout="torch", period=8192, vector=1, mask_type="bool"
    )[1]
    assert torch.equal(masks(wide[:, 2:]), vectors_of_one.view(6, 10))


def test_nothing_is_drawn_at_the_ends():
    replay = DropoutReplay((5, 8), 4)
    x = torch.randn(64)
    for p, training, kept in ((0.0, True, 1.0), (1.0, True, 0.0), (0.3, False, 1.0)):
        y, mask = replay.dropout(x, p, training)
        assert torch.equal(y, x * kept) and bool(mask.all()) == bool(kept)
    assert replay.offset == 8
    with pytest.raises(ValueError, match="between 0 and 1"):
        replay.dropout(x, 1.5)


def test_its_gradient_has_the_same_mask():
    x = torch.randn(300, dtype=torch.float64, requires_grad=True)
    y, mask = DropoutReplay((5, 8), 4).dropout(x, 0.3)
    (dx,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(dx != 0, mask)


# ---- beside PyTorch on a GPU -----------------------------------------------------------------------------


def _of_this_gpu(state):
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    return DropoutReplay(state, gpu.multi_processor_count, gpu.max_threads_per_multi_processor)


def _compare(x, p):
    """The mask, the kept elements' bits and how far the generator moved."""
    replay = _of_this_gpu(torch.cuda.get_rng_state())
    theirs = NN.dropout(x, p)
    y, mask = replay.dropout(_on_the_cpu(x), p)
    what = f"{x.dtype}, {tuple(x.shape)}, strides {x.stride()}, p {p}"
    theirs = theirs.cpu()
    dropped = theirs == 0  # x has no zeros and no number so small that its scaled one is 0
    assert torch.equal(mask, ~dropped), f"{what}: {(mask == dropped).sum().item()} differ"
    assert_same_bits(y[mask], theirs[mask])
    after = torch.cuda.get_rng_state().view(torch.int64)[1].item()
    assert replay.offset == after, f"{what}: PyTorch's generator moved to {after}"


def _on_the_cpu(x):
    """With the strides and the place in its storage that x has."""
    there = torch.empty(x.untyped_storage().nbytes() // x.element_size(), dtype=x.dtype)
    there.copy_(torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage()))
    return there.as_strided(x.shape, x.stride(), x.storage_offset())


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def _values(*shape, dtype):
    return (torch.rand(*shape, device="cuda") + 0.5).to(dtype)


@needs_gpu
@pytest.mark.parametrize("dtype", TYPES)
def test_masks_of_pytorch_by_size(dtype):
    for n in (1, 2, 3, 4, 6, 8, 12, 255, 256, 257, 1000, 1022, 4096, 65_536, 270_336, 270_338, 1_081_344,
              2_162_688, 2_162_690, 2_162_692, 2_162_696, 3_000_001, 8_650_752, 16_777_216, 16_777_217):
        _compare(_values(n, dtype=dtype), 0.5)


@needs_gpu
@pytest.mark.parametrize("dtype", TYPES)
def test_masks_of_pytorch_by_probability(dtype):
    for p in (1e-20, 1e-9, 1e-3, 0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 0.9, 0.999, 1 - 1e-7):
        _compare(_values(4_000_000, dtype=dtype), p)


@needs_gpu
@pytest.mark.parametrize("dtype", TYPES)
def test_masks_of_pytorch_by_memory(dtype):
    x = _values(64, 96, 28, 30, dtype=dtype)
    _compare(x.contiguous(memory_format=torch.channels_last), 0.3)
    _compare(x.permute(3, 0, 2, 1), 0.3)
    _compare(x[:, 1:], 0.3)
    _compare(x[..., 1:], 0.3)
    flat = x.flatten()
    for begin in range(1, 9):
        _compare(flat[begin : begin + 1_000_000], 0.3)
    _compare(_values(32, 512, 1024, dtype=dtype), 0.1)


@needs_gpu
def test_a_whole_model_is_played_again():
    torch.manual_seed(4)
    x = [_values(n, dtype=torch.bfloat16) for n in (4096, 70_001, 5_000_000)]
    replay = _of_this_gpu(torch.cuda.get_rng_state())
    for t in x + x[::-1]:
        theirs = NN.dropout(t, 0.1)
        assert_same_bits(replay.dropout(t.cpu(), 0.1)[0], theirs.cpu())
