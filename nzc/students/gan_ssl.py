"""Semi-supervised learning with a GAN and feature matching (Salimans et al. 2016, arXiv 1606.03498): PATE 2017's
student."""

from dataclasses import dataclass

import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from nzc import networks
from nzc.errors import InputError, not_negative, positive, whole
from nzc.networks import as_input
from nzc.networks._gan import LATENT
from nzc.students.learner import Learner, Material
from nzc.students.student import Student, aside


@dataclass(frozen=True, kw_only=True)
class GANSSL(Learner):
    """The classifier is a discriminator too: a generated row is one more class, whose logit is 0 (section 5).

    The discriminator's loss is the labelled rows' cross-entropy among the classes + `unlabelled_loss`; the generator's
    is `feature_matching`. Both take turns, by Adam with β₁ = 0.5, at a rate that is constant for the first half of the
    steps and falls linearly to 0 in the second. As many rows are generated as are drawn from the pool.

    lr_generator is the generator's rate; lr the discriminator's. What later work adds, and 0 leaves out:

    entropy       weight of the entropy of the classes' probabilities on the pool (Dai et al. 2017, arXiv 1705.09783)
    consistency   weight of KL(p ‖ q) on the pool, p held fixed, where p and q are the classes' probabilities of two
                  draws of augmentation and noise (after the consistency term of Wei et al. 2018, arXiv 1803.01541)
    """

    lr_generator: float
    entropy: float
    consistency: float

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(2, unlabelled=self.unlabelled)  # the generator's batch normalisation needs two
        positive(lr_generator=self.lr_generator)
        not_negative(entropy=self.entropy, consistency=self.consistency)

    def student(self, material: Material, seed: int) -> Student:
        return Adversaries(self, material, seed)

    def losses(self, student: Student, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        """Those of the discriminator. The generator learns nothing from them."""
        assert isinstance(student, Adversaries)
        again = aside(student.network)
        with torch.no_grad():
            generated = student.generated(len(u))
            p = again(student.augmented(u)).softmax(1)
        real = student.network(student.augmented(u))
        log_q = real.log_softmax(1)
        return {
            "labelled": student.labelled_loss(again(x), y),
            "unlabelled": unlabelled_loss(real, again(generated)),
            "entropy": self.entropy * -(log_q.exp() * log_q).sum(1).mean(),
            "consistency": self.consistency * F.kl_div(log_q, p, reduction="batchmean"),
        }


def unlabelled_loss(real: Tensor, generated: Tensor) -> Tensor:
    """Cross-entropy of telling real rows from generated ones, by logits [rows, classes] (section 5, with l(K + 1) = 0).

    With Z the sum of the exponentials of a row's logits, it is real with probability Z / (Z + 1).
    """
    return F.softplus(-real.logsumexp(1)).mean() + F.softplus(generated.logsumexp(1)).mean()


def feature_matching(real: Tensor, generated: Tensor) -> Tensor:
    """Mean squared difference of the means of features [rows, features] (section 3.1)."""
    return (real.mean(0) - generated.mean(0)).square().mean()


class Adversaries(Student):
    """A student and the generator it plays against."""

    learner: GANSSL

    def __init__(self, learner: GANSSL, material: Material, seed: int) -> None:
        super().__init__(learner, material, seed)
        self.automatic_optimization = False
        if not (isinstance(self.network, nn.Sequential) and isinstance(self.network[-1], nn.Linear)):
            raise InputError("student.network", learner.network, "must be a Sequential that ends in a Linear head: "
                             "its generator matches the features below")  # fmt: skip
        shape = tuple(self.x.shape[1:])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.generator = networks.generator(learner.network, shape)
        # Generated rows keep to the pool's range: a table's column by column, an image's as a whole.
        dims = (0,) if len(shape) == 1 else tuple(range(self.x.ndim))
        self.low: Tensor
        self.high: Tensor
        self.register_buffer("low", as_input(self.x.amin(dims)), persistent=False)
        self.register_buffer("high", as_input(self.x.amax(dims)), persistent=False)

    def generated(self, rows: int) -> Tensor:
        """Fresh rows [rows, ...] as networks take them."""
        z = torch.rand(rows, LATENT, generator=self.rng).to(self.device)
        x: Tensor = self.low + (self.high - self.low) * self.generator(z)
        return x

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        x, u = (as_input(self.x[rows]) for rows in batch)
        x = self.augmented(x)
        self.progress = batch_idx / self.learner.steps
        for_discriminator, for_generator = self.optimizers()  # type: ignore[attr-defined]
        with for_discriminator.toggle_model():
            self.losses = self.learner.losses(self, x, self.y[batch[0]], u)
            self._step(for_discriminator, torch.stack(list(self.losses.values())).sum())
        with for_generator.toggle_model():
            features = aside(self.network[:-1])  # type: ignore[index]
            self.losses["generator"] = feature_matching(features(self.augmented(u)), features(self.generated(len(u))))
            self._step(for_generator, self.losses["generator"])
        for schedule in self.lr_schedulers():  # type: ignore[union-attr]
            schedule.step()

    def _step(self, optimizer: LightningOptimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()

    def configure_optimizers(self) -> list[OptimizerLRSchedulerConfig]:  # type: ignore[override]
        learner = self.learner
        settings = {"betas": (0.5, 0.999), "weight_decay": learner.weight_decay, "fused": True}
        adams = [
            torch.optim.AdamW(network.parameters(), lr, **settings)  # type: ignore[arg-type]
            for network, lr in ((self.network, learner.lr), (self.generator, learner.lr_generator))
        ]
        schedules = [LambdaLR(adam, lambda step: min(1, 2 - 2 * step / learner.steps)) for adam in adams]
        return [{"optimizer": a, "lr_scheduler": {"scheduler": s}} for a, s in zip(adams, schedules, strict=True)]
