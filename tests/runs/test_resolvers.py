"""Noise of a preset beside noise that a budget decides."""

from typing import Any

import presets
from omegaconf import OmegaConf
from pytest import approx


def _confident(epsilon: float | None) -> Any:
    """The settings of a preset, with a budget or without."""
    preset = OmegaConf.load(presets.FOLDER / "confident.yaml")
    tree = {"delta": 1e-5, "budget": {"epsilon": epsilon}, "dataset": {}}
    return OmegaConf.create(tree | {"aggregator": preset}).aggregator


def test_noise_beside_that_of_a_budget_keeps_its_proportion() -> None:
    typed = _confident(None)
    usual = typed.sigma1 / typed.sigma
    typed.sigma = 7
    assert typed.sigma1 == usual * 40
    decided = _confident(1)
    decided.sigma = 7  # as a budget decides it
    assert decided.sigma1 == approx(7 * usual)
