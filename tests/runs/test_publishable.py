"""What may be published of a run."""

from pathlib import Path

from conftest import SMALL, VOTES, Command, RunNzc, newest_folder, parametrize

FILE = [*VOTES, "teachers.path=votes.npy", "dataset.name=people"]


@parametrize(
    ("settings", "line"),
    [
        (FILE, "rng=seeded: must be system"),
        ([*FILE, "aggregator=plurality"], "epsilon.published=inf: must be finite"),
        ([*FILE, "aggregator=nzc"], "is no bound"),
        ([*SMALL, "baseline=true", "budget.epsilon=1"], "baseline=true: must be false"),
    ],
)
def test_what_must_not_be_published_is_refused_before_noise(
    run_nzc: RunNzc, histograms: Path, settings: list[str], line: str, command: Command
) -> None:
    """`nzc publish` says the same of a run with a seed; so does a public tracker."""
    given = "+tracking.private=false" if settings == FILE else "rng=system"
    ran = run_nzc(*settings, given, code=2)
    assert line in ran.err.splitlines()[-1] and not ran.results and not Path(".nzc").exists()
    run = newest_folder(run_nzc(*settings))
    code, _, err = command("publish", str(run), "released")
    assert (code, err.count("\n")) == (2, 1) and line in err
    assert not list(histograms.parent.glob("*released*"))
