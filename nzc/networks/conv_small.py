"""Conv-Small of Miyato et al. 2017 with their widths for SVHN, without the batch normalisation of its logits."""

from torch import nn

from nzc.networks._conv import miyato


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Widths 64, 128, 128: 0.63 million parameters at 3 × 32 × 32 and 10 classes.

    A training batch needs two rows or more. Under vmap each network needs its own running statistics, and dropout
    needs `randomness="different"`.
    """
    return miyato(shape, classes, 64, 128, (128, 128, 128))
