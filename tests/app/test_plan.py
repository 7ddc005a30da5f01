"""Plans agree with simulated runs, keep the budget, and name the option that is wrong."""

import shlex

from conftest import Command

from nzc.app.config import compose_run

#: Little noise: calibrated in an instant.
NEEDED = ["plan", "--teachers", "100", "--classes", "4", "--epsilon", "30"]


def test_the_command_shows_a_plan_and_what_to_type(command: Command) -> None:
    code, out, err = command(*NEEDED, "--queries", "8", "--delta", "1e-6")
    assert (code, err) == (0, "")
    typed = [text for text in out.splitlines() if text.startswith("nzc ")]
    for line, dataset in zip(typed, ("npz", "table"), strict=True):
        cfg = compose_run(shlex.split(line)[1:])
        assert cfg.aggregator.sigma is None
        assert (cfg.budget.epsilon, cfg.queries, cfg.delta) == (30.0, 8, 1e-6)
        assert (cfg.teachers.count, cfg.hydra.runtime.choices.dataset) == (100, dataset)
