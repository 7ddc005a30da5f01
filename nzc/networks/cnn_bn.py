"""A small batch-normalised network for images of about 28 × 28: for students who learn from few labels, some wrong.

With it VAT forgets most wrong labels, which it keeps with `cnn`, at half as much work again.
"""

from torch import nn

from nzc.networks._conv import GlobalAverage, border


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """5 × 5 convolution (16) and 3 × 3 (32), each max-pooled by 2, 3 × 3 (64), then the global average and the logits.

    Each batch-normalised, after the pooling, which spares it work, then leaky ReLU 0.1. As for conv_small, a batch
    that is trained on needs two rows or more.
    """

    def layer(of: int, to: int, size: int, padding: int, *pool: nn.Module) -> list[nn.Module]:
        return [nn.Conv2d(of, to, size, padding=padding, bias=False), *pool, nn.BatchNorm2d(to), nn.LeakyReLU(0.1)]

    return nn.Sequential(
        *layer(shape[0], 16, 5, 2, nn.MaxPool2d(2)),
        *layer(16, 32, 3, 1, nn.MaxPool2d(2)),
        *layer(32, 64, 3, border(shape)),
        GlobalAverage(),
        nn.Linear(64, classes),
    )
