"""Batch-normalised network for image students that also learn from unlabelled rows; fast on two cores."""

from torch import nn


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A 5 × 5 and two 3 × 3 convolutions (16, 32, 64), each max-pooled by 2, then the logits.

    29,000 parameters at 1 × 28 × 28 and 10 classes, 1.2 times the work of `cnn`. Batch normalisation learns in fewer
    steps. The head sees positions on the image, which suits digits better than a global average. A training batch
    needs two rows or more.
    """

    def layer(of: int, to: int, size: int) -> list[nn.Module]:
        # pooling first saves work; batch normalisation makes a bias redundant
        convolution = nn.Conv2d(of, to, size, padding=size // 2, bias=False)
        return [convolution, nn.MaxPool2d(2), nn.BatchNorm2d(to), nn.ReLU()]

    return nn.Sequential(
        *(*layer(shape[0], 16, 5), *layer(16, 32, 3), *layer(32, 64, 3), nn.Flatten()),
        nn.Linear(64 * (shape[1] // 8) * (shape[2] // 8), classes),
    )
