"""Signals: in order at the first, not interrupted by the second, at once at the third. In processes of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nzc.app.interrupt import STOPPED

#: A command that says when it works and when it cleans up, which takes a while; it ends as main does.
COMMAND = """
import sys, time
from nzc.app import interrupt

interrupt.handle()
if "importing" in sys.argv:
    print("ready", flush=True)
    time.sleep(60)
interrupt.begin()
try:
    if "cleaning" in sys.argv:  # another error than a signal
        with interrupt.held():
            print("ready", flush=True)
            time.sleep(1)
            print("cleaned", flush=True)
        raise SystemExit("not stopped")
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("cleaning", flush=True)
        time.sleep(60 if "long" in sys.argv else 1)
        print("cleaned", flush=True)
except KeyboardInterrupt:
    interrupt.say_stopped()
    sys.exit(130)
finally:
    interrupt.end()
"""


def _stop(kind: str, number: int, times: int, gap: float = 0.05) -> tuple[int, str, str]:
    """Send a signal to COMMAND as soon as it is ready: exit code, output, errors."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", COMMAND, kind], stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(times):
            process.send_signal(number)
            time.sleep(gap)
        out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("times", [1, 2])
def test_a_second_signal_waits_for_the_clean_up(number: int, times: int) -> None:
    assert _stop("working", number, times) == (130, "cleaning\ncleaned\n", f"{STOPPED}\n")


def test_a_first_signal_waits_for_a_clean_up_that_another_error_began() -> None:
    assert _stop("cleaning", signal.SIGINT, 2) == (130, "cleaned\n", f"{STOPPED}\n")


def test_the_third_signal_ends_at_once() -> None:
    begun = time.monotonic()
    assert _stop("long", signal.SIGINT, 3, gap=0.3) == (130, "cleaning\n", f"{STOPPED}\n")
    assert time.monotonic() - begun < 30


def test_while_importing_a_signal_ends_at_once() -> None:
    assert _stop("importing", signal.SIGHUP, 1) == (130, "", f"{STOPPED}\n")


def test_ignored_signals_stay_ignored() -> None:
    code = "import signal, nzc.app.interrupt as i; i.handle(); print(signal.getsignal(signal.SIGHUP).name)"
    found = subprocess.run(
        [sys.executable, "-c", f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout == "SIG_IGN\n"


#: Writes to both streams what latin-1 lacks, and flushes.
SPEAK = "from nzc.app.streams import make_harmless; make_harmless(); import sys; "
SPEAK += "[(print('ε' * 9999, file=to), to.flush()) for to in (sys.stdout, sys.stderr)]"


@pytest.mark.parametrize(
    "streams", [">/dev/full 2>/dev/full", ">&- 2>&- <&-", "| head -c0", "2>&1 >/dev/null | head -c0"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_what_cannot_be_shown_is_no_failure(streams: str, encoding: str) -> None:
    command = f'set -o pipefail; {sys.executable} -c "{SPEAK}" {streams}'
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    assert subprocess.run(["bash", "-c", command], env=environment).returncode == 0


def test_closed_streams_do_not_become_files(tmp_path: Path) -> None:
    """The next file that is opened would get number 2, and then all error messages."""
    code = f"{SPEAK}; file = open('mine', 'w'); print('mine', file=file)"
    subprocess.run(["bash", "-c", f'{sys.executable} -c "{code}" >&- 2>&- <&-'], cwd=tmp_path, check=True)
    assert (tmp_path / "mine").read_text() == "mine\n"
