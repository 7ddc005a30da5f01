"""What the labels of a session have cost: every ε of a run."""

from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile
from operator import add

import numpy as np

from nzc.accounting import Cost, Epsilon
from nzc.accounting.cost import cost_curve
from nzc.labeling.ledger_entry import total_epsilon
from nzc.labeling.run_ledger import question
from nzc.labeling.session import LabelingSession
from nzc.teachers import VoteHistograms
from nzc.types import Floats, Ints

#: Two ε computed over Rényi orders may be so far apart, relatively, where their costs are equal (`rdp.to_epsilon`).
_PRECISION = 1e-3


@dataclass(frozen=True)
class Spent:
    """The cost of all rounds of a session together, at these votes."""

    session: LabelingSession
    votes: VoteHistograms

    def epsilon(self) -> Epsilon:
        """Return every ε. RuntimeError: the labels cost more than promised, by a fault of nzc."""
        session, rounds, promise = self.session, self.session.rounds, self.session.promise
        delta, promised = session.policy.delta, promise.epsilon
        most = sum((past.worst_case for past in rounds), promise.cost_of_bound).data_independent(delta)
        if most > promised * (1 + _PRECISION):  # no file of the run is written yet
            why = f"these labels cost up to ε = {most:.6g}, and ε = {promised:.6g} was promised"
            raise RuntimeError(f"{why}. This is an error of nzc; no result is written")
        cost = reduce(add, (past.cost for past in rounds))
        sanitised, epsilon = self._sanitised(cost), cost.epsilon(delta)
        counted, trials = session.ledger.split()
        whole = sum(len(past.drawn) for past in rounds) == len(session.rows)
        return replace(
            epsilon,
            exact=None if epsilon.exact is None else min(epsilon.exact, promised),
            exact_lower=epsilon.exact_lower if whole else None,
            published=promised if sanitised is None else sanitised,
            published_delta=promise.bound[1] if sanitised is None else delta,
            data_independent=promised,
            sanitised=sanitised,
            audited=self._audit(),
            ledger_released=None if cost.exact is None else total_epsilon(counted, delta),
            ledger_total=None if cost.exact is None else total_epsilon(trials + counted, delta),
        )

    def curve(self, points: int) -> tuple[Ints, dict[str, Floats]]:
        """Return how ε grew over all rounds (accounting.cost.cost_curve)."""
        rounds = self.session.rounds
        labels, curves = cost_curve([(past.cost, past.drawn) for past in rounds], self.session.policy.delta, points)
        kept = labels <= sum(past.answered for past in rounds)
        return labels[kept], {name: curve[kept] for name, curve in curves.items()}

    def _sanitised(self, cost: Cost) -> float | None:
        """Release the data-dependent bound with noise, and record that; None: it is not published."""
        session, plan, delta = self.session, self.session.promise.plan, self.session.policy.delta
        if plan is None:
            return None
        drawn_for = question(plan, delta, [past.key for past in session.rounds])
        drawn, nonce = session.ledger.draw([3], drawn_for, lambda rng: np.array([cost.sanitised(delta, rng, plan)]))
        about = {"labels": drawn.tobytes(), "description": f"ε sanitised of {session.policy.name}"}
        session.ledger.add(question(drawn_for, drawn, nonce), session.promise.bound_cost, **about)
        return float(drawn[0])

    def _audit(self) -> float | None:
        """Audit only the most expensive mechanism of the run, with at most as many queries as could be answered."""
        policy, rounds, promise = self.session.policy, self.session.rounds, self.session.promise
        if policy.audit_trials is None:
            return None
        dearest = max(rounds, key=lambda past: past.worst_case.data_independent(policy.delta)).mechanism
        queries = sum(len(past.rows) for past in rounds if past.mechanism == dearest)
        queries = queries if policy.answers is None else min(queries, policy.answers)
        if (privacy_filter := promise.filters[promise.mechanisms.index(dearest)]) is not None:
            # The audit answers every query it asks, so the budget admits fewer queries than in a run with a screen.
            before = sum(past.spent for past in takewhile(lambda past: past.mechanism != dearest, rounds))
            queries = int(privacy_filter.admit(np.ones(queries, dtype=bool), before).sum())
        rng, classes = np.random.default_rng([policy.seed, 3]), self.votes.votes.shape[1]
        return dearest.audit(self.votes.teachers, classes, queries, policy.audit_trials, policy.delta, rng)
