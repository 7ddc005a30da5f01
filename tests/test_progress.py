"""Lines on standard error: without a terminal, a long command says now and then how far it is."""

import time

from pytest import CaptureFixture, MonkeyPatch

from nzc import progress


def test_a_long_stage_says_how_far_it_is(
    capsys: CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.05)
    with progress.Bar(True) as bar:
        bar.get_time = iter(range(0, 600, 60)).__next__  # seconds
        task = bar.add_task("Teachers", total=292)
        for _ in range(2):
            bar.advance(task, 60)
        time.sleep(0.3)
    with progress.Bar(False) as bar:
        bar.add_task("Silent", total=1)
        time.sleep(0.2)
    said = capsys.readouterr().err.splitlines()
    assert 2 <= len(said) <= 6 and set(said) == {"nzc: teachers: 120 of 292 done, about 3 min left"}
    assert [*map(progress.duration, (40, 9000))] == ["40 s", "2 h"]
