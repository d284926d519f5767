"""Modules over twinops.torch.functional, with the arguments of PyTorch's."""

from torch import nn

from twinops.torch import functional as F


class Softmax(nn.Softmax):
    """torch.nn.Softmax."""

    def forward(self, input):
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(nn.LogSoftmax):
    """torch.nn.LogSoftmax."""

    def forward(self, input):
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(nn.Softmax2d):
    """torch.nn.Softmax2d."""

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


# A module is in a model's state as PyTorch's is: it has no parameters. A generator is no part of a
# copy that is pickled, as torch.Generator is none.
class Dropout(nn.Dropout):
    """torch.nn.Dropout. `generator`: drawn from instead of PyTorch's default CPU generator."""

    def __init__(self, p=0.5, inplace=False, *, generator=None):
        super().__init__(p, inplace)
        self.generator = generator

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace, generator=self.generator)


class Dropout1d(nn.Dropout1d):
    """torch.nn.Dropout1d."""

    def forward(self, input):
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(nn.Dropout2d):
    """torch.nn.Dropout2d."""

    def forward(self, input):
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(nn.Dropout3d):
    """torch.nn.Dropout3d."""

    def forward(self, input):
        return F.dropout3d(input, self.p, self.training, self.inplace)


class BiasDropoutResidual(nn.Module):
    """dropout(x + bias) + residual in one pass, behind a linear layer without a bias of its own."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, input, bias=None, residual=None):
        return F.bias_dropout_residual(input, bias, residual, self.p, self.training)

    def extra_repr(self):
        return f"p={self.p}"


class SoftmaxDropout(nn.Module):
    """dropout(softmax(x)) in one pass, along `dim`; forward takes the masks of functional.softmax."""

    def __init__(self, p=0.5, dim=-1):
        super().__init__()
        self.p, self.dim = p, dim

    def forward(self, input, **masks):
        return F.softmax_dropout(input, self.p, self.dim, self.training, **masks)

    def extra_repr(self):
        return f"p={self.p}, dim={self.dim}"
