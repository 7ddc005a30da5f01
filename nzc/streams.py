"""What the random numbers of a seed are for: [seed, stream, …] is the seed of one generator."""

from enum import IntEnum


class Stream(IntEnum):
    """The uses of a seed; a new one takes the next number.

    A number never changes, because results follow from it. Two pairs have shared one since before
    they had names, and nothing draws the same numbers for that: Python calls the second an alias.
    Teacher i draws its weights from [seed, i], in generators of another kind.
    """

    SHARDS = 1  # which teachers learn from a record
    NOISE = 2  # of released labels, counts and sums, by round
    SPLITS = 2  # alias of NOISE: which rows are private, by a hash and the dataset's own seed
    AUDIT = 3  # of a mechanism, on made-up votes
    ROWS = 4  # which public rows are asked, by round
    FOLDS = 5  # of cross-validation, which finds wrong labels
    PERSONS = 5  # alias of FOLDS: labels drawn for public persons, before any student learns
    GROUPS = 6  # which records of a group count in cells
    BASELINE = 7  # noise of DP-SGD
    # 8 stays reserved: nzc 0.2.0 drew with it which records vote on a row.
    BOUND = 9  # noise of the sanitised ε
