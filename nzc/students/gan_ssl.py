"""GAN-SSL student: a GAN with feature matching (Salimans et al. 2016, arXiv 1606.03498), as in PATE 2017."""

import warnings
from dataclasses import dataclass
from functools import partial

import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from nzc import networks
from nzc.networks import as_input
from nzc.networks.gan import LATENT, generator
from nzc.settings import NotNegative, Positive, TwoOrMore
from nzc.students.config import StudentData, StudentSettings
from nzc.students.module import StudentModule, without_statistics
from nzc.students.network import StudentConfig
from nzc.training.optimizer import as_lightning
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError


@dataclass(frozen=True, kw_only=True)
class GANSSL(StudentConfig):
    """The classifier is also a discriminator: a generated row is one more class, whose logit is 0 (section 5).

    The discriminator's loss is the labeled cross-entropy + `unlabeled_loss`; the generator's is `feature_matching`.
    Each step moves both at once, by Adam with β₁ = 0.5, and generates as many rows as it draws from the pool. The
    learning rate is constant for the first half of the steps and then falls linearly to 0.

    lr_generator  learning rate of the generator; `lr` is the discriminator's
    entropy       weight of the entropy of class probabilities on the pool (Dai et al. 2017, arXiv 1705.09783); 0: none
    consistency   weight of KL(p ‖ q) on the pool, p held fixed; p and q are class probabilities for two draws of
                  augmentation and noise (after Wei et al. 2018, arXiv 1803.01541); 0: none
    """

    unlabelled: TwoOrMore  # the generator's batch normalisation needs two
    lr_generator: Positive
    entropy: NotNegative
    consistency: NotNegative

    def check(self, shape: tuple[int, ...], classes: int, trainer: TrainerSettings) -> None:
        super().check(shape, classes, trainer)
        assert self.network is not None
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            network = networks.build(self.network, shape, classes)
        if not (isinstance(network, nn.Sequential) and isinstance(network[-1], nn.Linear)):
            allowed = "must be a Sequential that ends in a Linear head: the generator matches the features below it"
            raise InputError("student.network", self.network, allowed)

    def student(self, data: StudentData, seed: int) -> "Adversaries":
        return Adversaries(self, data, seed, self.lr_generator)

    def losses(self, student: "Adversaries", x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        """Return the discriminator's losses and, as the last, the generator's. One pass gives the features of both."""
        assert isinstance(student.network, nn.Sequential)
        body, head = student.network[:-1], student.network[-1]
        again = without_statistics(body)
        with torch.no_grad():
            p = head(again(student.augmented(u))).softmax(1)
        real, generated = body(student.augmented(u)), again(student.generated(len(u)))
        logits = head(real)
        log_q = logits.log_softmax(1)
        return {
            "labelled": student.labeled_loss(head(again(x)), y),
            "unlabelled": unlabeled_loss(logits, head(generated)),
            "entropy": self.entropy * -(log_q.exp() * log_q).sum(1).mean(),
            "consistency": self.consistency * F.kl_div(log_q, p, reduction="batchmean"),
            "generator": feature_matching(real, generated),
        }


def unlabeled_loss(real: Tensor, generated: Tensor) -> Tensor:
    """Return the cross-entropy of real against generated rows, from logits [rows, classes] (section 5, l(K + 1) = 0).

    With Z the sum of the exponentials of a row's logits, the row is real with probability Z / (Z + 1).
    """
    return F.softplus(-real.logsumexp(1)).mean() + F.softplus(generated.logsumexp(1)).mean()


def feature_matching(real: Tensor, generated: Tensor) -> Tensor:
    """Return the mean squared difference between the mean features of both, [rows, features] (section 3.1)."""
    return (real.mean(0) - generated.mean(0)).square().mean()


class Adversaries(StudentModule):
    """A student as discriminator, and its generator, whose learning rate is `lr_generator`."""

    def __init__(self, config: StudentSettings, data: StudentData, seed: int, lr_generator: float) -> None:
        super().__init__(config, data, seed)
        assert config.network is not None
        self.automatic_optimization, self.lr_generator = False, lr_generator
        shape = tuple(self.x.shape[1:])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.generator = generator(config.network, shape)
        # Generated rows stay in the pool's range: column by column for tables, as a whole for images.
        dims = (0,) if len(shape) == 1 else tuple(range(self.x.ndim))
        self.low = nn.Buffer(as_input(self.x.amin(dims)), persistent=False)
        self.high = nn.Buffer(as_input(self.x.amax(dims)), persistent=False)

    def generated(self, rows: int) -> Tensor:
        """Return new generated rows [rows, ...] as networks take them."""
        z = torch.rand(rows, LATENT, generator=self.rng).to(self.device)
        x: Tensor = self.low + (self.high - self.low) * self.generator(z)
        return x

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        x, u = (as_input(self.x[rows]) for rows in batch)
        self.progress = batch_idx / self.config.steps
        losses = self.config.losses(self, self.augmented(x), self.y[batch[0]], u)
        self.losses = {name: loss.detach() for name, loss in losses.items()}  # keeps no graph until the next step
        *terms, matching = losses.values()
        optimizers: list[LightningOptimizer] = self.optimizers()  # type: ignore[assignment]
        players = (self.network, torch.stack(terms).sum()), (self.generator, matching)
        for (player, loss), optimizer in zip(players, optimizers, strict=True):
            optimizer.zero_grad()
            self.manual_backward(loss, inputs=list(player.parameters()), retain_graph=True)
        for optimizer in optimizers:
            optimizer.step()
        for schedule in self.lr_schedulers() or ():  # type: ignore[union-attr]
            schedule.step()

    def configure_optimizers(self) -> list[OptimizerLRSchedulerConfig]:  # type: ignore[override]
        steps, optimizers = self.config.steps, []
        falling = partial(LambdaLR, lr_lambda=lambda step: min(1, 2 - 2 * step / steps))
        for network, lr in ((self.network, self.config.lr), (self.generator, self.lr_generator)):
            made = self.config.make_optimizer(network.parameters(), steps, lr, falling, betas=(0.5, 0.999))
            optimizers.append(as_lightning(*made))
        return optimizers
