"""Conv-Small of Miyato et al. 2017 (arXiv 1704.03976, appendix D) without the batch normalisation of its logits."""

from torch import nn

from nzc.networks._layers import GlobalAverage


def build(
    shape: tuple[int, ...], classes: int, widths: tuple[int, int, int, int, int] = (64, 128, 128, 128, 128)
) -> nn.Module:
    """Three stages of three convolutions without bias, each with batch normalisation and leaky ReLU 0.1.

    `widths` are the channels of the first stage, of the second, and of each convolution of the third; by default those
    for SVHN, with 0.63 million parameters at 3 × 32 × 32 and 10 classes. Convolutions are 3 × 3, but 1 × 1 at the end.
    The first two stages end in max-pooling by 2 and dropout 0.5. The third has no padding on maps of 3 × 3 or more, and
    ends in the global average.

    A training batch needs two rows or more. Under vmap each network needs its own running statistics, and dropout
    needs `randomness="different"`.
    """

    def layer(of: int, to: int, size: int = 3, padding: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(of, to, size, padding=padding, bias=False), nn.BatchNorm2d(to), nn.LeakyReLU(0.1)]

    border = 0 if min(shape[1:]) // 4 >= 3 else 1
    first, second, a, b, c = widths
    return nn.Sequential(
        *(*layer(shape[0], first), *layer(first, first), *layer(first, first), nn.MaxPool2d(2), nn.Dropout(0.5)),
        *(*layer(first, second), *layer(second, second), *layer(second, second), nn.MaxPool2d(2), nn.Dropout(0.5)),
        *(*layer(second, a, padding=border), *layer(a, b, 1, 0), *layer(b, c, 1, 0)),
        GlobalAverage(),
        nn.Linear(c, classes),
    )
