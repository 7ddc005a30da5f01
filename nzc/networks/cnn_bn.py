"""Batch-normalised, and still quick on two cores: for a student of images that learns from unlabelled rows."""

from torch import nn


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A 5 × 5 and two 3 × 3 convolutions (16, 32, 64), each max-pooled by 2, then the logits.

    29,000 parameters at 1 × 28 × 28 and 10 classes, 1.2 times the work of `cnn`. Batch normalisation makes few steps
    go further; logits that see where on the image something is make digits easier than the global average does, for
    as little work. Batch normalisation needs two rows or more where a batch is trained on.
    """

    def layer(of: int, to: int, size: int) -> list[nn.Module]:
        # pooling first spares the others work; no bias below batch normalisation
        convolution = nn.Conv2d(of, to, size, padding=size // 2, bias=False)
        return [convolution, nn.MaxPool2d(2), nn.BatchNorm2d(to), nn.ReLU()]

    features = 64 * (shape[1] // 8) * (shape[2] // 8)
    return nn.Sequential(
        *(*layer(shape[0], 16, 5), *layer(16, 32, 3), *layer(32, 64, 3)),
        nn.Flatten(),
        nn.Linear(features, classes),
    )
