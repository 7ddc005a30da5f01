"""Conv-Small of Miyato et al. 2017, with their widths for SVHN (for CIFAR-10: 96, 192, 192); logits as for CIFAR-10,
without the batch normalisation that they have on SVHN."""

from torch import nn

from nzc.networks._conv import miyato


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Widths 64, 128, 128: 0.63 million parameters at 3 × 32 × 32 and 10 classes.

    Batch normalisation needs two rows or more where a batch is trained on, and running statistics of its own for every
    network under vmap (`torch.func.stack_module_state`'s buffers); dropout needs `randomness="different"` there.
    """
    return miyato(shape, classes, 64, 128, (128, 128, 128))
