"""What nzc says on standard error."""

import sys


def say(*lines: object) -> None:
    """Print lines, each of which begins as all lines of nzc do."""
    for line in lines:
        print(f"nzc: {line}", file=sys.stderr, flush=True)
