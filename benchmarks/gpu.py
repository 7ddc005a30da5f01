"""Is the GPU path right, and how fast is it? One command of at most 8 minutes; docs/gpu.md has
figures of an H100.

    python benchmarks/gpu.py --out gpu.json               every part; in small without a GPU
    python benchmarks/gpu.py --out gpu.json agree step    these parts only

Each part (gpu_parts.py) runs in a process of its own with a budget of seconds. A part that fails,
or that is stopped after its budget, is recorded with its error, and the next one starts. FILE is
written after each figure.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gpu_parts import FULL, PARTS, SMALL, Figure, has_gpu


def _work(sender: Connection, part: str, small: bool) -> None:
    """Send the figures of a part, and then None or the line of its error."""
    os.setsid()  # so that a kill also reaches the processes that it starts
    try:
        for figure in PARTS[part][0](SMALL if small or not has_gpu() else FULL):
            sender.send(figure)
        sender.send(None)
    except Exception as error:  # any error of a part is a result of it
        sender.send(" ".join(f"{type(error).__name__}: {error}".split())[:500])


class Report:
    """Everything that was measured: lines on standard output, and a JSON file."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.parts = path, dict[str, dict[str, Any]]()

    def write(self, line: str) -> None:
        print(line, flush=True)
        if self.path is not None:
            text = json.dumps(
                {"command": sys.argv, "parts": self.parts}, indent=1, ensure_ascii=False
            )
            partial = self.path.with_name(self.path.name + ".partial")
            partial.write_text(text + "\n", encoding="utf-8")
            partial.replace(self.path)

    def run(self, part: str, small: bool, budget: float) -> None:
        """Run a part for at most `budget` seconds."""
        entry = self.parts[part] = {
            "seconds": 0.0,
            "budget": round(budget, 1),
            "error": None,
            "figures": [],
        }
        start = time.monotonic()
        # A fork shares the imports. This process never uses the GPU: its children could not then.
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(sender, part, small))
        worker.start()
        sender.close()
        stopped = "stopped: its budget was used up"
        received: Figure | str | None = stopped
        try:
            while receiver.poll(max(0.0, start + budget - time.monotonic())):
                received = receiver.recv()
                if not isinstance(received, Figure):
                    break
                entry["figures"].append(asdict(received))
                self.write(f"{part:9} {received}")
        except EOFError:
            received = "ended without a message, as when it is killed"
        finally:
            assert worker.pid is not None
            for kill in (os.killpg, os.kill):  # the group, and the worker itself if it has none yet
                with suppress(ProcessLookupError):
                    kill(worker.pid, signal.SIGKILL)
            worker.join()
        entry["error"] = stopped if isinstance(received, Figure) else received
        entry["seconds"] = round(time.monotonic() - start, 1)
        self.write(f"{part:9} {entry['error'] or 'done'}, {entry['seconds']} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"of {', '.join(PARTS)} (default: all, in this order)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write all figures as JSON; FILE must not exist"
    )
    parser.add_argument("--small", action="store_true", help="smallest sizes, as without a GPU")
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="at most (default 8); budgets are in proportion"
    )
    args = parser.parse_args()
    if unknown := sorted({*args.parts} - PARTS.keys()):
        parser.error(f"PART={unknown[0]}: must be one of {', '.join(PARTS)}")
    if args.out is not None and args.out.exists():
        parser.error(f"--out={args.out}: must not exist")
    end = time.monotonic() + 60 * args.minutes
    report = Report(args.out)
    for part in args.parts or PARTS:
        budget = min(PARTS[part][1] * args.minutes / 8, end - time.monotonic())
        if budget > 0:
            report.run(part, args.small, budget)


if __name__ == "__main__":
    main()
