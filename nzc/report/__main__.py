"""`python -m nzc.report FOLDER…`: the page of a run or of a sweep, from what it left in its folder."""

from pathlib import Path

from nzc._command import Parser, end
from nzc.report import page


def main() -> None:
    """Exit code 0; 1 for a failure while running, 2 for wrong input."""
    end(_run)


def _run(arguments: list[str]) -> int:
    parser = Parser("python -m nzc.report", description="Write report.html into the folder of a run or of a sweep.")
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="outputs/… as a run or a sweep made it")
    for folder in parser.parse_args(arguments).folders:
        print(page.write(Path(folder)))
    return 0


if __name__ == "__main__":
    main()
