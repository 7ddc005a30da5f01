"""The parser of the command and its subcommands."""

import sys
from argparse import ArgumentParser
from typing import NoReturn

from nzc.validation import InputError


class Parser(ArgumentParser):
    """An ArgumentParser whose errors are InputErrors, of one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(self.prog, " ".join(sys.argv[1:]) or "(nothing)", message)
