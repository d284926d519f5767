"""Layers over twinops.paddle.functional. Constructors, shapes and defaults are those of Paddle's layers
of the same names; what is computed is said in functional."""

from paddle import nn

from twinops.paddle import functional as F


class Softmax(nn.Softmax):
    """paddle.nn.Softmax, by functional.softmax."""

    def forward(self, x):
        return F.softmax(x, self._axis, self._dtype)


class LogSoftmax(nn.LogSoftmax):
    """paddle.nn.LogSoftmax, by functional.log_softmax."""

    def forward(self, x):
        return F.log_softmax(x, self._axis)


class Dropout(nn.Dropout):
    """paddle.nn.Dropout, by functional.dropout. `generator`: a twinops.paddle.Generator to draw from;
    None: the default one."""

    def __init__(self, p=0.5, axis=None, mode="upscale_in_train", name=None, *, generator=None):
        super().__init__(p, axis, mode=mode, name=name)
        self._generator = generator

    def forward(self, input):
        return F.dropout(
            input,
            self.p,
            self.axis,
            self.training,
            mode=self.mode,
            generator=self._generator,
        )


class BitmaskDropout(Dropout):
    """Dropout whose forward returns (output, mask), by functional.bitmask_dropout: the mask is int32,
    one bit an element."""

    def forward(self, input):
        return F.bitmask_dropout(
            input, self.p, self.axis, self.training, self.mode, generator=self._generator
        )


class Dropout2D(nn.Dropout2D):
    """paddle.nn.Dropout2D, by functional.dropout2d."""

    def forward(self, input):
        return F.dropout2d(input, self.p, self.training, self.data_format)


class Dropout3D(nn.Dropout3D):
    """paddle.nn.Dropout3D, by functional.dropout3d."""

    def forward(self, input):
        return F.dropout3d(input, self.p, self.training, self.data_format)


class FusedDropoutAdd(nn.Layer):
    """paddle.incubate.nn.FusedDropoutAdd, dropout(x) + y, by functional.fused_dropout_add."""

    def __init__(self, p=0.5, mode="upscale_in_train", name=None):
        super().__init__()
        self.p, self.mode, self.name = p, mode, name

    def forward(self, x, y):
        return F.fused_dropout_add(x, y, self.p, self.training, self.mode)

    def extra_repr(self):
        return f"p={self.p}, mode={self.mode}"
