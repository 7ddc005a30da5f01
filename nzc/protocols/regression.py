"""Softmax regression from noisy sums: public rows give the other side of its likelihood equation.

    E_public[(softmax(Wφ) − g) ⊗ φ] = E_private[(y − g) ⊗ φ], which is released with noise

g are the shares of the classes. Where noise is small, public rows err more than noise does about
what is the same on both sides. Then the sums are released again, with the probabilities of the last
model in the place of g: both sides are nearly 0, and a difference of the rows matters little.

Everything here is post-processing of released sums, so it costs nothing further. The field calls it
sufficient statistic perturbation (Ferrando and Sheldon 2025, arXiv 2405.15002); here public rows
replace every other statistic, so noise touches features × classes numbers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from nzc.protocols.vectors import (
    PrivateSums,
    Recentred,
    code_reach,
    contrasts,
    counts_reach,
    members_of,
    scale_of,
)
from nzc.streams import Stream
from nzc.types import Floats, Ints

#: So often are the sums released where noise is small.
_RELEASES = 3
#: Widths of the prior of weights, among which the released matrix chooses.
_WIDTHS = np.geomspace(0.03, 300, 60)
#: Of the prior of the intercepts, around those of the guess.
_FREE = 3.0
#: The prior deviation of a weight grows like this power of the variance along its axis: classes
#: differ most along the axes on which public rows differ most.
_STEEPNESS = 0.1
#: The means of public rows err by more than as many other rows would, because weights are fitted to
#: them: twice is what Akaike's criterion takes.
_FITTED = 2.0
#: How often labels of public persons are drawn, to know how much of their vectors is cut. The model
#: decides the labels, so both are found in turn, until probabilities change by less than _STILL.
_DRAWS = 4
_ROUNDS = 10
_STILL = 1e-3


@dataclass(frozen=True, repr=False)
class PublicRows:
    """The public rows as the sums see rows.

    features  [rows, features], of length 1 at most
    persons   [rows] numbers from 0; None: it is not known whom a row is about
    """

    features: Floats
    persons: Ints | None = None

    @cached_property
    def most(self) -> float | None:
        """So many records of a person count in full: as many as 95 % of the rows' persons have."""
        if self.persons is None:
            return None
        return float(np.quantile(np.bincount(self.persons)[self.persons], 0.95))


@dataclass(frozen=True, repr=False)
class ReleasedCounts:
    """Noisy class counts, and what follows from them."""

    counts: Floats  # [classes]
    noise_std: float  # of one count
    least: int  # as many records as there are for sure
    known: bool  # whether there are exactly so many

    @classmethod
    def of(cls, released: Ints, noise_std: float, sums: PrivateSums) -> "ReleasedCounts":
        """Return the counts of what was released in multiples of 1/UNIT.

        noise_std  of the released numbers
        sums       of which they were released; only public facts of them count
        """
        scale = scale_of(len(released), counts_reach(sums.most))
        return cls(released / scale, noise_std / scale, sums.units, sums.most is None)

    @property
    def total(self) -> float:
        """How many records there are."""
        return self.least if self.known else max(self.least, float(self.counts.sum()))

    @property
    def guess(self) -> Floats:
        """Probabilities that centre labels: the shares of the classes, none that noise hides."""
        least = min(0.5 / len(self.counts), 3 * self.noise_std / self.total)
        guess = (self.counts / self.total).clip(least, 1)
        return guess / guess.sum()

    @property
    def code(self) -> Floats:
        """The vector of each class [classes, classes − 1], the label less the guess."""
        return (np.eye(len(self.counts)) - self.guess) @ contrasts(len(self.counts))

    def releases(self, public: PublicRows, sigma: float) -> int:
        """Return how often the matrix is released: again where the public rows err more than noise.

        Persons' vectors are cut together, so the codes of one depend on the labels of others: they
        are released once.

        sigma  of the noise in vectors of length 1
        """
        code = self.code
        noise_std = sigma * code_reach(code, labels_only=False) / self.total
        error = (public.features**2).mean() * (self.guess @ code**2).mean() / len(public.features)
        if public.persons is None and noise_std**2 < error:
            return _RELEASES
        return 1


@dataclass(frozen=True, repr=False)
class ReleasedMoments:
    """The noisy matrix, over the number of records: E[φ ⊗ code[y]]."""

    means: Floats  # [features, columns]
    noise_std: float  # of one mean
    centred: Recentred  # the labels of public rows as those of records were

    @classmethod
    def of(
        cls,
        released: Ints,
        noise_std: float,
        counts: ReleasedCounts,
        labels_only: bool,
        centre: Floats | None = None,
    ) -> "ReleasedMoments":
        """Return the means of what was released in multiples of 1/UNIT, as with the counts.

        centre  of public rows as of records (`PrivateSums.matrix`); None: the guess
        """
        scale = scale_of(released.size, code_reach(counts.code, labels_only)) * counts.total
        if centre is None:
            centre = counts.guess
        centred = Recentred(centre, code_reach(counts.code, labels_only=False))
        return cls(released / scale, noise_std / scale, centred)


@dataclass(frozen=True, repr=False)
class LinearModel:
    """logits = features @ weights + bias."""

    weights: Floats  # [features, classes]
    bias: Floats  # [classes]

    def probabilities(self, features: Floats) -> Floats:
        """Return class probabilities [rows, classes]."""
        return softmax(features @ self.weights + self.bias, axis=1)


def fit(
    public: PublicRows,
    counts: ReleasedCounts,
    moments: Sequence[ReleasedMoments],
    seed: int,
    start: LinearModel | None = None,
) -> LinearModel:
    """Return the softmax regression that public rows, sums and the known noise determine.

    seed   of drawn labels, which tell how much of persons' vectors is cut
    start  a model that is nearly right; None: none is known
    """
    equation = _Equation(public.features, counts, moments)
    probs = np.tile(counts.guess, (len(public.features), 1))
    kept = np.ones_like(probs)
    varying = equation.most_varying
    if start is not None:
        varying = equation.varying(start.probabilities(public.features))
    model = equation.solve(kept, varying, start)
    for _ in range(_ROUNDS):
        before = probs
        probs = model.probabilities(public.features)
        if np.abs(probs - before).mean() < _STILL:
            break
        if public.persons is not None:
            rng = np.random.default_rng([seed, Stream.PERSONS])
            kept = shares_kept(public.features, public.persons, probs, counts.code, rng)
        varying = equation.varying(probs * kept)
        equation.widen(model, probs, varying)
        model = equation.solve(kept, varying, model)
    return model


class _Equation:
    """The likelihood equation, solved as a least-squares problem: residuals by their noise.

    Σ |E_public[φ ⊗ code·p] − M|²/s² + |W|²/τ², over all releases of M, in the directions in which
    public rows vary. The intercepts follow from the class counts in the same way.
    """

    def __init__(
        self, features: Floats, counts: ReleasedCounts, moments: Sequence[ReleasedMoments]
    ) -> None:
        self.counts = counts
        self.moments = moments
        self.contrasts = contrasts(len(counts.counts))
        spread, directions = np.linalg.eigh(features.T @ features / len(features))
        self.spread = spread.clip(0)
        self.directions = directions
        self.rows = np.column_stack([features @ directions, np.ones(len(features))])
        self.means = [directions.T @ each.means for each in moments]
        self.steepness = (self.spread / self.spread.max()) ** _STEEPNESS
        self.width = self._width()

    def _width(self) -> float:
        """Return the width τ of the prior under which the first matrix is the likeliest.

        To first order in W the matrix is N(0, τ²λ²a² + s²) in each direction, λ being the variance
        of public rows and a that of labels.
        """
        guess = self.counts.guess
        labels = self.contrasts.T @ (np.diag(guess) - np.outer(guess, guess)) @ self.contrasts
        variances, directions = np.linalg.eigh(labels)
        squares = (self.means[0] @ directions) ** 2
        slopes = np.outer(self.spread * self.steepness, variances)
        expected = [(width * slopes) ** 2 + self.moments[0].noise_std ** 2 for width in _WIDTHS]
        likelihoods = [-(np.log(v) + squares / v).sum() for v in expected]
        return float(_WIDTHS[int(np.argmax(likelihoods))])

    def widen(self, model: LinearModel, probs: Floats, varying: Floats) -> None:
        """Set the width to the mean square of the weights that data decide (MacKay 1992)."""
        slopes = (self.rows**2).T @ (probs @ self.contrasts**2 - (probs @ self.contrasts) ** 2)
        precision = self.precisions(varying).sum(axis=0)
        told = (slopes[:-1] / len(probs)) ** 2 * precision
        decided = (told / (told + self.prior**-2.0)).sum()
        weights = self.directions.T @ model.weights / self.steepness[:, None]
        width = np.sqrt((weights**2).sum() / max(decided, 1e-9))
        self.width = float(np.clip(width, _WIDTHS[0], _WIDTHS[-1]))

    @property
    def prior(self) -> Floats:
        """The standard deviations of the weights, [features, 1]."""
        return self.width * self.steepness[:, None]

    def precisions(self, varying: Floats) -> Floats:
        """Return those of the means that each release tells, [releases, features, columns].

        All releases are compared with the same public rows, so their errors do not average out.
        """
        noise = np.array([each.noise_std for each in self.moments])[:, None, None]
        errors = _FITTED * len(self.moments) * varying[:, :-1] / len(self.rows)
        return np.asarray(1 / (noise**2 + errors))

    @property
    def most_varying(self) -> Floats:
        """The variance of a row's vector where a row tells its class, alike for all releases."""
        spread = np.append(self.spread, 1.0)
        most = np.outer(spread, self.counts.guess @ self.counts.code**2)
        return np.stack([most] * len(self.moments))

    def varying(self, kept: Floats) -> Floats:
        """Return the variance of public rows' vectors, [releases, features + 1, columns].

        kept  [rows, classes] probabilities times the shares of a row's vector that are left
        """
        found = []
        for each in self.moments:
            vectors = each.centred.codes(kept)
            means = self.rows.T @ vectors / len(vectors)
            found.append((self.rows**2).T @ vectors**2 / len(vectors) - means**2)
        return np.stack(found)

    def solve(self, kept: Floats, varying: Floats, start: LinearModel | None = None) -> LinearModel:
        """Return the model.

        kept     [rows, classes] the share of a row's vector that is left if it has that class
        varying  [releases, features + 1, columns] variance of a public row's vector: their means
                 err too
        start    where to start; None: the same probabilities everywhere
        """
        from scipy.optimize import minimize  # takes a fifth of a second to import

        counts = self.counts
        code = counts.code
        rows = len(self.rows)
        features = self.rows[:, :-1]
        columns = self.contrasts.shape[1]
        precisions = self.precisions(varying)
        of_counts = 1 / ((counts.noise_std / counts.total) ** 2 + varying[0, -1] / rows)
        prior = np.vstack([self.prior, [[_FREE]]]) ** -2.0
        shares = (counts.counts / counts.total - counts.guess) @ self.contrasts
        variance = np.trace(code.T @ (counts.guess[:, None] * code)) / columns
        slopes = np.append(self.spread, 1.0)[:, None] * variance
        precision = np.vstack([precisions.sum(axis=0), of_counts])
        scale = (precision * slopes**2 + prior) ** -0.5  # makes all directions alike to the solver
        centre = np.zeros((len(scale), columns))
        centre[-1] = np.log(counts.guess) @ self.contrasts

        def loss(point: Floats) -> tuple[float, Floats]:
            weights = point.reshape(centre.shape) * scale
            probs = softmax(self.rows @ weights @ self.contrasts.T, axis=1)
            apart = weights - centre
            residual = probs.mean(axis=0) @ code - shares
            value = (prior * apart**2).sum() + (of_counts * residual**2).sum()
            # The gradient, from residuals back to probabilities, logits and weights.
            by_class = np.tile(code @ (of_counts * residual), (rows, 1))
            for each, means, precision in zip(self.moments, self.means, precisions, strict=True):
                vectors = each.centred.codes(probs * kept)
                residual = features.T @ vectors / rows - means
                value += (precision * residual**2).sum()
                push = features @ (precision * residual)
                by_class += kept * each.centred.by_class(push)
            by_logit = probs * (by_class - (probs * by_class).sum(axis=1, keepdims=True)) / rows
            gradient = self.rows.T @ by_logit @ self.contrasts + prior * apart
            return value / 2, (gradient * scale).ravel()

        first = centre
        if start is not None:
            first = np.vstack([self.directions.T @ start.weights, start.bias]) @ self.contrasts
        found = minimize(
            loss,
            (first / scale).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 500, "ftol": 1e-10, "gtol": 1e-4},
        )
        weights = found.x.reshape(centre.shape) * scale @ self.contrasts.T
        return LinearModel(self.directions @ weights[:-1], weights[-1])


def shares_kept(
    features: Floats, persons: Ints, probs: Floats, code: Floats, rng: np.random.Generator
) -> Floats:
    """Return the share of a row's vector that is left, if it has a class, [rows, classes].

    Vectors of a person together are cut to the longest one of a record. How much is cut depends on
    the labels of the person's other rows, which are drawn from `probs` [rows, classes].
    """
    rows, classes = probs.shape
    longest = code_reach(code, labels_only=False)
    products = code @ code.T
    squares = (features**2).sum(axis=1)
    members = members_of(persons)
    kept = np.zeros((rows, classes))
    for _ in range(_DRAWS):
        drawn = (rng.random((rows, 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)
        with_classes = np.zeros((rows, classes))  # φ · the sum over the person's rows of a class
        for label in range(classes):
            of_class = members @ (features * (drawn == label)[:, None])
            with_classes[:, label] = np.einsum("nd,nd->n", features, of_class[persons])
        inner = with_classes @ products  # of the person's matrix and φ ⊗ code, by class
        own = np.take_along_axis(inner, drawn[:, None], axis=1)
        whole = (members @ own)[persons]
        apart = products.diagonal() - 2 * products[drawn] + products.diagonal()[drawn][:, None]
        lengths = whole + 2 * (inner - own) + squares[:, None] * apart
        kept += np.minimum(1, longest / np.sqrt(np.maximum(lengths, longest**2))) / _DRAWS
    return kept
