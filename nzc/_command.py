"""What the small commands share, `python -m nzc.store` and its like: how they end."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from typing import NoReturn

from nzc.errors import InputError


class Parser(ArgumentParser):
    """An ArgumentParser whose complaints are input errors, of one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(self.prog.removeprefix("python -m "), " ".join(sys.argv[1:]) or "(nothing)", message)


def end(task: Callable[[list[str]], int]) -> NoReturn:
    """Exit with the task's code; with 1 after a failure while running, 2 after wrong input, and a line for both."""
    try:
        code = task(sys.argv[1:])
    except Exception as error:
        from nzc.complaints import TRACEBACK, complaint  # Hydra: a fifth of a second

        if TRACEBACK:
            raise
        code, line = complaint(error)
        print(f"nzc: {line}", file=sys.stderr)
    sys.exit(code)
