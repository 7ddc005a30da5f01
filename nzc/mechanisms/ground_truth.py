"""The papers' upper baseline: the true labels, without privacy."""

from nzc.accounting.cost import Cost
from nzc.mechanisms.noise import NoNoise
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.types import Floats, Ints


class GroundTruth(NoisyArgmax):
    """The true labels, the papers' upper baseline: its votes are one-hot true labels. It has no privacy, ε = ∞."""

    def __init__(self) -> None:
        super().__init__(NoNoise())

    def cost(self, votes: Ints, labels: Ints, student_probs: Floats | None = None) -> Cost:
        return Cost(len(votes), None, (), self.pricing.worst_case(len(votes), len(votes)))

    def audit(self, *_: object, **__: object) -> None:
        return None
