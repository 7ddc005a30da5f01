"""Conv-Large of Miyato et al. 2017: nine convolutions, for a VAT student on a GPU."""

from torch import nn

from nzc.networks._conv import miyato


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Widths 128, 256, then 512, 256, 128: 3.1 million parameters at 3 × 32 × 32 and 10 classes.

    Batch normalisation and dropout as in conv_small.
    """
    return miyato(shape, classes, 128, 256, (512, 256, 128))
