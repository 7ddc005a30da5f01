"""Discriminator and generator of the GAN-SSL student (Salimans et al. 2016, arXiv 1606.03498)."""

from functools import partial

import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from nzc import networks
from nzc.networks import as_input
from nzc.networks._layers import LATENT
from nzc.students.config import StudentData, StudentSettings
from nzc.students.module import StudentModule
from nzc.training.optimizer import as_lightning


def unlabelled_loss(real: Tensor, generated: Tensor) -> Tensor:
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
            self.generator = networks.generator(config.network, shape)
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
