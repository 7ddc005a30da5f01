"""Turn texts into vectors by a model that others trained: public knowledge costs no ε.

Students are published with this file where they need it: it needs NumPy, and for a model by its
name sentence-transformers.
"""

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: So many texts are turned into vectors at once: always, so that no text decides how another one is
#: rounded.
BATCH = 32
#: Models that are in memory, by digest.
_LOADED: dict[str, "Sentences"] = {}


class ModelError(ValueError):
    """A model cannot be loaded, or is another one."""


class Sentences:
    """A model that turns texts into vectors of length 1, each by itself alone.

    name    of a model of sentence-transformers, its folder, or the name of a function
    encode  texts → vectors [texts, dimensions]; None: what `name` says
    digest  of the weights
    """

    def __init__(
        self, name: str, encode: Callable[[list[str]], Any] | None = None, digest: str = ""
    ) -> None:
        self.name = name
        self.digest = digest
        self._tokens: Any = None
        if encode is None:
            model = _model(name)
            self.digest = _digest(model)
            self._tokens = model.preprocess

            def encode(texts: list[str]) -> Any:
                return model.encode(texts, batch_size=BATCH, show_progress_bar=False)

        self._encode = encode
        _LOADED[self.digest] = self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sentences) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __call__(
        self, texts: Sequence[str], told: Callable[[int], object] = lambda done: None
    ) -> Array:
        """Return float32 vectors [texts, dimensions].

        told  receives how many texts are done

        Texts of one length share a batch, and batches have one size, so the same is computed for a
        text whatever the others are.
        """
        lengths = self._lengths(texts)
        order = np.argsort(lengths, kind="stable")
        found: dict[int, Array] = {}
        for alike in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
            for start in range(0, len(alike), BATCH):
                places = alike[start : start + BATCH]
                batch = [texts[place] for place in np.resize(places, BATCH).tolist()]
                vectors = np.asarray(self._encode(batch), np.float32)
                lengths_of = np.linalg.norm(vectors, axis=1, keepdims=True)
                found |= dict(zip(places, vectors / np.maximum(lengths_of, 1e-12), strict=False))
                told(len(found))
        return np.array([found[place] for place in range(len(texts))])

    def check(self) -> None:
        """Raise ModelError unless the vector of a text depends on that text alone."""
        texts = ["a text", "another text of another length"]
        try:
            both, alone = (np.asarray(self._encode(part)) for part in (texts, texts[:1]))
            alike = both.ndim == 2 and np.allclose(both[:1], alone, atol=1e-3)
        except Exception as error:  # models raise many types
            raise ModelError(f"must turn a list of texts into vectors ({error})") from error
        if not alike:
            raise ModelError("must make a vector of each text, whatever the texts beside it")

    def _lengths(self, texts: Sequence[str]) -> Array:
        """Return the numbers of tokens [texts]; 0: the model has none, or they are not known."""
        lengths = np.zeros(len(texts), np.int64)
        if self._tokens is not None:
            for start in range(0, len(texts), 1000):
                tokens = self._tokens(list(texts[start : start + 1000]))
                if "attention_mask" in tokens:
                    lengths[start : start + 1000] = tokens["attention_mask"].sum(dim=1)
        return lengths


def loaded(name: str, digest: str) -> Sentences:
    """Return the model of this name. ModelError: its weights have another digest, or it is absent.

    A function of one's own must have been given to `Sentences` with its digest before.
    """
    if digest not in _LOADED:
        found = Sentences(name)
        if found.digest != digest:
            raise ModelError(f"{name} has other weights than the run had")
    return _LOADED[digest]


@cache
def _model(name: str) -> Any:
    try:
        import sentence_transformers
    except ImportError:
        raise ModelError(
            f"{name} needs sentence-transformers: pip install sentence-transformers"
        ) from None
    try:
        return sentence_transformers.SentenceTransformer(name)
    except Exception as error:  # it raises many types
        why = " ".join(str(error).split())[:120]
        raise ModelError(
            f"must be a model of sentence-transformers, by name or folder ({why}); without a "
            "network, name a folder that SentenceTransformer.save wrote elsewhere"
        ) from None


@cache
def _digest(model: Any) -> str:
    digest = sha256(repr(model).encode())
    for name, weights in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(weights.cpu().numpy().tobytes())
    return digest.hexdigest()
