"""Random generators for noise: seeded, or of the operating system for labels to be published."""

import secrets

from nzc.accounting.exact_noise import ExactGenerator

SEEDED, SYSTEM = ("seeded", "system")  # the values of the key `rng`


def system_rng() -> ExactGenerator:
    """Return a generator that no one can reproduce: ChaCha20 with a new key of 256 bits.

    Use it in the process that made it. The noise of nzc is compared exactly
    (`accounting.exact_noise`).
    """
    from randomgen import ChaCha

    return ExactGenerator(ChaCha(key=secrets.randbits(256), rounds=20))
