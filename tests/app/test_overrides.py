"""Overrides as they are typed."""

from pathlib import Path

from conftest import RunNzc, hydra_value, parametrize


@parametrize(
    ("name", "words"),
    [("it's p (1)=1#.csv", []), ("[1] pü.csv", ["--multirun", "seed=1,2"])],
)
def test_a_file_name_that_hydra_cannot_read_is_quoted(
    run_nzc: RunNzc, name: str, words: list[str]
) -> None:
    Path(name).touch()
    err = run_nzc(*words, "dataset=table", f"dataset.private={name}", code=2).err
    assert err.startswith(f"nzc: dataset.private={name}: ")
    typed = err.partition(" type ")[2].partition("; ")[0]
    assert hydra_value(typed) == name
