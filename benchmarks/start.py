"""From Enter to the first line, to the table and to the end of `nzc`: seconds, and the processor's
seconds until then.

Each is the lowest of several runs, in an empty folder and then again in the same one, where
teachers are stored. On a machine that does other work too, the processor's seconds tell more. With
--against DIR the code there is timed in turn.

    python benchmarks/start.py [--repeats 3] [--against DIR] [OVERRIDE ...]     such as
    recipe=near_zero
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

Figures = dict[str, tuple[float, float]]  # wall and processor's seconds by moment
HERE = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")


def moments(home: Path, folder: Path, overrides: list[str]) -> Figures:
    """Return the moments of one run by the code in `home`."""
    environment = os.environ | {"PYTHONPATH": str(home)}
    start = time.perf_counter()
    command = [sys.executable, "-m", "nzc", *overrides]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    found: Figures = {}

    def read(stream: Iterator[str], moment: str) -> None:
        for line in stream:
            if line.strip():
                found.setdefault(moment, (time.perf_counter() - start, _processor(process.pid)))

    assert process.stdout is not None and process.stderr is not None
    readers = [
        Thread(target=read, args=pair)
        for pair in ((process.stderr, "first line"), (process.stdout, "table"))
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return found | {"end": (time.perf_counter() - start, used.ru_utime + used.ru_stime)}


def _processor(process: int) -> float:
    """Return the seconds that a process has used so far (proc(5): fields 14 and 15)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="the lowest of so many counts (default 3)"
    )
    parser.add_argument("--against", type=Path, help="another checkout of nzc")
    args, overrides = parser.parse_known_args()
    homes = [HERE, *([args.against] if args.against else [])]
    lowest: dict[tuple[Path, str], Figures] = {}
    for _ in range(args.repeats):
        for home in homes:
            with TemporaryDirectory() as folder:
                for what in ("empty folder", "teachers stored"):
                    best = lowest.setdefault((home, what), {})
                    for moment, (wall, used) in moments(home, Path(folder), overrides).items():
                        before = best.get(moment, (wall, used))
                        best[moment] = min(before[0], wall), min(before[1], used)
    print(f"nzc {' '.join(overrides)}: seconds (of the processor), the lowest of {args.repeats}")
    for (home, what), best in lowest.items():
        shown = ", ".join(
            f"{moment} {wall:.1f} ({used:.1f})" for moment, (wall, used) in best.items()
        )
        print(f"{home.name:16} {what:16} {shown}")


if __name__ == "__main__":
    main()
