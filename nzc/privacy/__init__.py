"""What a release costs: Rényi accounting, exact and by theorem; bounds from public facts, and an ε released privately;
budgets; audits; papers' claims. numpy and scipy only.

Everywhere: votes is [queries, classes], orders [orders] with every order above 1, a Rényi cost [queries, orders].
Neighbours: one teacher's vote moves from one class to another.
"""

from nzc.privacy.epsilon import Epsilon

__all__ = ["Epsilon"]
