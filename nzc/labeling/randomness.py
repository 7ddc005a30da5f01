"""Random generators for noise: seeded for experiments, operating-system entropy for labels to be published."""

import secrets

from nzc.accounting.exact_noise import ExactGenerator

SEEDED, SYSTEM = KINDS = ("seeded", "system")  # the values of the key `rng`


def system_rng() -> ExactGenerator:
    """Return a generator that no one can reproduce: ChaCha20 with a new 256-bit key from the operating system.

    NumPy's own bit generators are not cryptographic. Use it in the process that made it, and do not store it. The noise
    of nzc itself is compared exactly (`accounting.exact_noise`); any other noise in float64.
    """
    from randomgen import ChaCha

    return ExactGenerator(ChaCha(key=secrets.randbits(256), rounds=20))
