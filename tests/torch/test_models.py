"""Models that nobody here wrote, of packages that a machine may have: two lines put twinops into them; they
train, are saved, go on elsewhere and compile."""

import copy

import pytest
import torch
from core import assert_same_bits

import twinops.torch as tt

_HERE = "cuda" if torch.cuda.is_available() else "cpu"


def _bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=100
    )
    config._attn_implementation = "eager"  # softmax and dropout written out
    model = transformers.BertForSequenceClassification(config)
    return model, lambda m, x: m(input_ids=x, labels=x[:, 0] % 2).loss


def _vision():
    timm = pytest.importorskip("timm")
    timm.layers.set_fused_attn(False)  # scaled_dot_product_attention's dropout stays PyTorch's
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, num_classes=4, depth=2, drop_rate=0.1, attn_drop_rate=0.1
    )

    def loss(m, x):
        images = x.flatten().float().repeat(3 * 32 * 32).view(-1, 3, 32, 32)[: len(x)] / 100
        return torch.nn.functional.cross_entropy(m(images), x[:, 0] % 4)

    return model, loss


def _step(model, optimizer, loss, x):
    optimizer.zero_grad()
    value = loss(model, x)
    value.backward()
    optimizer.step()
    return value.item()


@pytest.mark.parametrize("made", [_bert, _vision], ids=["transformers", "timm"])
def test_it_trains_and_goes_on_on_the_other_device(made):
    with tt.patched():
        torch.manual_seed(0)
        model, loss = made()
        model.train().to(_HERE)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        x = torch.randint(100, (4, 16))
        torch.manual_seed(1)
        for _ in range(2):
            _step(model, optimizer, loss, x.to(_HERE))
        saved = copy.deepcopy(model.state_dict()), torch.get_rng_state()
        went_on = _step(model, optimizer, loss, x.to(_HERE))
        other = made()[0].train()  # on the CPU
        other.load_state_dict(saved[0])
        torch.set_rng_state(saved[1])
        resumed = _step(other, torch.optim.SGD(other.parameters(), 0.01), loss, x)
        assert resumed == pytest.approx(went_on, rel=1e-3)
        if _HERE == "cpu":
            for a, b in zip(model.parameters(), other.parameters()):
                assert_same_bits(a, b)


@pytest.mark.parametrize("made", [_bert, _vision], ids=["transformers", "timm"])
def test_it_compiles(made):
    with tt.patched():
        torch.manual_seed(0)
        model, loss = made()
        model.train().to(_HERE)
        x = torch.randint(100, (4, 16), device=_HERE)
        torch.manual_seed(1)
        expected = loss(model, x)
        expected.backward()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        compiled = torch.compile(model, backend="aot_eager")
        torch.manual_seed(1)
        made_now = loss(compiled, x)
        made_now.backward()
        torch.testing.assert_close(made_now, expected)
        for p, g in zip([p for p in model.parameters() if p.grad is not None], gradients):
            torch.testing.assert_close(p.grad, g, rtol=1e-3, atol=1e-5)
