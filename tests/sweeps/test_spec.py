"""What a sweep file asks: its slips are named."""

from conftest import RunNzc, parametrize, write

#: What stands in a sweep file, and how the line begins.
SLIPS = """
sweep: {rows: [{name: a, sett: [seed=1]}]} | sweep.rows.0.sett=['seed=1']
sweep: [ | while parsing
ROW student=supervisd | student=supervisd
FIGURE b, x: seed | sweep.figures.1=
FIGURE b, x: seed, y: acuracy | sweep.figures.b=acuracy
FIGURE b, x: budget.epsilon, y: accuracy | sweep.figures.b=budget.epsilon
FIGURE b, curve: gap | sweep.figures.1=
"""


@parametrize("line", SLIPS.strip().splitlines())
def test_sweep_files_with_a_slip(run_nzc: RunNzc, line: str) -> None:
    text, _, begins = line.partition(" | ")
    kind, _, slip = text.partition(" ")
    if kind == "ROW":
        text = f"sweep: {{rows: [{{name: a, set: [{slip}]}}]}}"
    elif kind == "FIGURE":
        text = f"sweep: {{figures: [{{name: a, curve: asked}}, {{name: {slip}}}]}}"
    write("sweeps/mine.yaml", f"# @package _global_\n{text}")
    ran = run_nzc("--multirun", "+sweeps=mine", code=2)
    assert (ran.out, ran.err.count("\n")) == ("", 1) and len(ran.err) < 520
    assert ran.err.startswith(f"nzc: {begins}")
