"""Random generators of the operating system."""

from pytest import MonkeyPatch

from nzc.privacy.randomness import system_rng


def test_every_generator_of_the_system_has_a_key_of_its_own(
    monkeypatch: MonkeyPatch,
) -> None:
    # Keys are the operating system's: two of 1,000 first words are equal once in 10^13 tests.
    monkeypatch.undo()
    assert len({system_rng().bit_generator.random_raw() for _ in range(1000)}) == 1000
