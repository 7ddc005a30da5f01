"""Privacy accounting for releases from vote histograms; numpy, scipy and mpmath only.

Votes are [queries, classes], orders [orders] and all above 1, a Rényi cost [queries, orders]. Two
vote histograms are neighbours when one teacher's vote moves from one class to another: n → n − e_a
+ e_b.
"""

from nzc.accounting.cost import Cost
from nzc.accounting.epsilon import Delta, Epsilon

__all__ = ["Cost", "Delta", "Epsilon"]
