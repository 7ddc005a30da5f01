"""Random generators for noise: seeded for experiments, operating-system entropy for labels to be published."""

import secrets

import numpy as np

#: The values of the key `rng`.
SEEDED, SYSTEM = KINDS = ("seeded", "system")


def system_rng() -> np.random.Generator:
    """Return a generator that no one can reproduce: ChaCha20 with a new 256-bit key from the operating system.

    NumPy's own bit generators are not cryptographic: part of their output may reveal the rest. Use the generator in the
    process that made it, and do not store it. NumPy makes doubles in steps of 2^-53 of the bits, so an event that is
    rarer than that may never occur; no δ in use is that small.
    """
    from randomgen import ChaCha

    return np.random.Generator(ChaCha(key=secrets.randbits(256), rounds=20))
