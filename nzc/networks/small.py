"""Small networks for a CPU: two cores train 250 of them in minutes."""

from math import prod

from torch import nn

from nzc.data.images import is_image
from nzc.networks._layers import size_after


def auto(shape: tuple[int, ...], classes: int, unlabeled: bool) -> nn.Module:
    """For any rows: `cnn` for images of 16 × 16 pixels or more, or `cnn_bn` if it learns without labels; else `mlp`."""
    network = mlp if not is_image(shape, 16) else cnn_bn if unlabeled else cnn
    return network(shape, classes)


def mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    """For small images and tables: any shape, flattened → 128 → classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 128), nn.ReLU(), nn.Linear(128, classes))


def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Default for images of about 28 × 28: 5 × 5 convolutions (16, 32), each max-pooled, then 64 hidden units."""
    body = nn.Sequential(  # pooling before ReLU saves work
        nn.Conv2d(shape[0], 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(16, 32, 5), nn.MaxPool2d(2), nn.ReLU()
    )
    hidden = nn.Linear(size_after(body, shape), 64)
    return nn.Sequential(body, nn.Flatten(), hidden, nn.ReLU(), nn.Linear(64, classes))


def cnn_bn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """For image students that also learn from unlabeled rows: convolutions (16, 32, 64), each max-pooled by 2.

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
