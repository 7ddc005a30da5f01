"""What the tests of students and teachers share: settings, quiet trainers, and rows around the mean
of their class.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from nzc.data.augment import Affine, Strong
from nzc.mechanisms import ABSTAIN
from nzc.representation.contrastive import Contrastive
from nzc.representation.spectral import Spectral
from nzc.students import FittedStudent, NetworkStudent, StudentData
from nzc.students.gan_ssl import GANSSL
from nzc.teachers.ensemble import Ensemble
from nzc.training.trainer import TrainerSettings


def quiet(**options: Any) -> TrainerSettings:
    """Return a trainer of one process of the CPU that shows nothing, with these options."""
    return TrainerSettings(**{"progress": False, "accelerator": "cpu", "devices": 1} | options)


QUIET = quiet()
COMMON = {
    "network": "mlp",
    "steps": 60,
    "batch_size": 8,
    "lr": 0.01,
    "weight_decay": 0,
    "average": 0,
    "balance": 0,
    "folds": 1,
    "label_noise_rate": 0,
    "labeled_loss_decay": 0,
}
GAN = GANSSL(
    **COMMON | {"network": "gan_mlp"}, unlabeled=8, lr_generator=0.01, entropy=0, consistency=0
)
STRONG = Strong(None, stretch=1, contrast=0, brightness=0, cutout=0, mask=0.3, noise=0.1)
LEARNED = Contrastive(
    network="mlp",
    width=16,
    steps=20,
    batch_size=64,
    lr=0.005,
    temperature=0.2,
    seed=0,
    augment=STRONG,
)
SPECTRAL = Spectral(encoder=None, neighbours=5, dimensions=6, power=8)
ENSEMBLE = Ensemble(
    count=3, network="mlp", epochs=3, batch_size=16, lr=0.01, weight_decay=0.01, seed=3
)
#: Five teachers, in two epochs.
FIVE = replace(ENSEMBLE, count=5, epochs=2, augment=Affine(rotate=10))


def clouds(
    rows: int, labeled: int, classes: int = 3, shape: tuple[int, ...] = (6,)
) -> tuple[StudentData, np.ndarray]:
    """Return rows of classes in turns, of which the first are labeled, and their classes; features
    are unlike.
    """
    rng = np.random.default_rng(0)
    y = np.arange(rows) % classes
    x = (2 * rng.normal(size=(classes, *shape))[y] + rng.normal(size=(rows, *shape))).astype(
        np.float32
    )
    return StudentData(x, np.where(np.arange(rows) < labeled, y, ABSTAIN), classes), y


def fit(config: NetworkStudent, data: StudentData) -> FittedStudent:
    return config.fit(data, 0, QUIET, "Student")
