"""Options that a run would ignore are refused before anything is trained."""

from conftest import Nzc, parametrize


@parametrize(
    "ignored",
    ["representation=spectral", "query_choice=representative", "student.spread=0.5", "audit=200"],
)
def test_noisy_sums_refuse_what_they_do_not_use(nzc: Nzc, ignored: str) -> None:
    given = ["dataset=digits", "recipe=near_zero_sums", "budget.epsilon=1", "student=linear"]
    ran = nzc(*given, ignored, code=2)
    assert ran.err.splitlines()[-1].startswith(f"nzc: {ignored}: must have its default")
    assert not ran.results
