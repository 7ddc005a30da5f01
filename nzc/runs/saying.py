"""What nzc says on standard error."""

import sys


def say(line: object) -> None:
    """Print a line that begins as all lines of nzc do."""
    print(f"nzc: {line}", file=sys.stderr, flush=True)
