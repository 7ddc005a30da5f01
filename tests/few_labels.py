"""What the tests of all students share: settings, a quiet trainer, and rows around the mean of
their class.
"""

import numpy as np

from nzc.mechanisms import ABSTAIN
from nzc.students import FittedStudent, StudentConfig, StudentData
from nzc.training.trainer import TrainerSettings

QUIET = TrainerSettings(progress=False, accelerator="cpu", devices=1)
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


def fit(config: StudentConfig, data: StudentData) -> FittedStudent:
    return config.fit(data, 0, QUIET, "Student")
