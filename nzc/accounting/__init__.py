"""Privacy accounting for releases from vote histograms; numpy, scipy and mpmath only.

Moments accountant (PATE 2017) and Rényi accounting (Scalable PATE 2018): `data_dependent`. ε of any Rényi cost: `rdp`.

Conventions: votes are [queries, classes], orders are [orders] and all above 1, a Rényi cost is [queries, orders].
Two vote histograms are neighbours when one teacher's vote moves from one class to another: n → n − e_a + e_b.
"""

from nzc.accounting.cost import Cost
from nzc.accounting.epsilon import Epsilon

__all__ = ["Cost", "Epsilon"]
