"""Advice to users before a run: what speaks against it, and what to change."""

from nzc.planning.expected import AGREEMENT

#: Noise may spoil one label in ten, and four in ten in own cells: neighbouring rows share counts.
ENOUGH = 0.9
ENOUGH_IN_CELLS = 0.6
FEW_ROWS = 500  # public rows, below which sums lose several points (docs/label.md)
PER_CLASS = 2  # a student needs at least so many labels of each class; fewer are warned of


def about_votes(
    labels: float,
    accuracy: float,
    classes: int,
    epsilon: float | None,
    delta: float,
    records: int | None,
    in_cells: bool = False,
    agreement: float | None = AGREEMENT,
) -> list[str]:
    """Return what speaks against a run, one sentence each.

    labels     how many are expected
    accuracy   the share of them that will be right; without noise, all would be
    epsilon    the budget where it limits the number of labels; else None
    agreement  what `accuracy` assumes; None: the reader knows it
    """
    lines = []
    enough = ENOUGH
    voters = "teachers"
    price = "more noise"
    if in_cells:
        enough = ENOUGH_IN_CELLS
        voters = "records"
        price = "fewer votes"
    if accuracy < enough:
        shares = f"{100 * accuracy:.1f} % of the labels would be right"
        if agreement is not None:
            shares = f"{shares} if {100 * agreement:.0f} % of the votes were right"
        lines.append(
            f"noise drowns the votes: {shares}, without noise 100.0 %; use more {voters}, "
            f"a larger ε or fewer queries (at a fixed ε, more queries mean {price} for each)"
        )
    if epsilon is not None and labels < PER_CLASS * classes:
        lines.append(
            f"ε = {epsilon:g} buys {labels:.3g} labels, "
            f"fewer than {PER_CLASS} for each of {classes} classes"
        )
    return lines + about_delta(delta, records)


def about_delta(delta: float, records: int | None) -> list[str]:
    """Return that δ is too large for so many records, if it is."""
    if records is None or delta <= 1 / records:
        return []
    return [f"δ = {delta:g} is above 1/records = {1 / records:.2g}: choose a smaller δ"]


def about_sums(noise_std: float, units: int, classes: int, public: int) -> list[str]:
    """Return what speaks against noisy sums, one sentence each.

    noise_std  of a class count
    units      of privacy that are private
    public     how many public rows there are
    """
    lines = []
    hidden = 3 * noise_std
    if hidden > units / classes:
        lines.append(
            f"noise of class counts hides classes of fewer than {hidden:,.0f} of {units:,}: "
            "use more records or a larger ε"
        )
    if public < FEW_ROWS:
        lines.append(
            f"there are {public:,} public rows, and they tell how features vary: "
            f"{FEW_ROWS:,} or more make a better model"
        )
    return lines
