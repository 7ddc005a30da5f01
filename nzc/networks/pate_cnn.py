"""The teacher network of PATE 2017: two convolutions with max-pooling and one ReLU layer (section 3)."""

from torch import nn

from nzc.networks._layers import size_after


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """5 × 5 convolutions (64, 128), 3 × 3 max-pooling by 2, 384 hidden units; without local response normalisation."""
    body = nn.Sequential(
        *(nn.Conv2d(shape[0], 64, 5, padding=2), nn.MaxPool2d(3, 2, padding=1), nn.ReLU()),
        *(nn.Conv2d(64, 128, 5, padding=2), nn.MaxPool2d(3, 2, padding=1), nn.ReLU()),
    )
    hidden = nn.Linear(size_after(body, shape), 384)
    return nn.Sequential(body, nn.Flatten(), hidden, nn.ReLU(), nn.Linear(384, classes))
