"""Options that a run would ignore are refused before anything is trained."""

from conftest import RunNzc, parametrize


@parametrize(
    "ignored",
    ["representation=spectral", "query_choice=representative", "student.spread=0.5", "audit=200"],
)
def test_noisy_sums_refuse_what_they_do_not_use(run_nzc: RunNzc, ignored: str) -> None:
    given = ["dataset=digits", "recipe=near_zero_sums", "budget.epsilon=1", "student=linear"]
    ran = run_nzc(*given, ignored, code=2)
    assert ran.err.splitlines()[-1].startswith(f"nzc: {ignored}: must have its default")
    assert not ran.results


@parametrize("override", ["query_choice=representative", "student.spread=0.5"])
def test_who_needs_a_representation_says_so(run_nzc: RunNzc, override: str) -> None:
    assert run_nzc(override, code=2).err.startswith("nzc: representation=none: must be")
