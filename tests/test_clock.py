"""The stages of a run, as standard error says them."""

from pathlib import Path

from conftest import (
    FILE,
    RunNzc,
)


def test_without_a_terminal_a_run_says_one_line_a_stage(run_nzc: RunNzc, histograms: Path) -> None:
    """After one that says what it combines."""
    words = [*FILE, "trainer.progress=true", "aggregator.sigma=10"]
    first, *stages = run_nzc(*words).err.splitlines()
    assert first == "nzc: dataset=none teachers=votes aggregator=gnmax student=none"
    assert [line.split(": ")[1] for line in stages] == ["teachers", "votes", "labels"]
    public = run_nzc(*words, "rng=system", "dataset.name=p", "+tracking.private=false").err
    assert public.count("\n") == 4 and " s\n" not in public  # the time of a stage tells of votes
