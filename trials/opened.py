"""Does a run open or change only its own files? strace lists what it opens for writing, and must be installed.

A run's own are: its folder, the store, the tracking database and the artifacts, and temporary files that are gone when
it ends. Reads are not shown. Pipes, terminals and what lies in /proc/self are no files.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from _cases import Case, show_cases
from _nzc import SMALL

_CALLS = "open,openat,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat"
_CALLS += ",chmod,fchmodat,chown,fchownat,truncate,utimensat,mknod,mknodat,setxattr,chdir"
_CALL = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)\) += (-?\d+)")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>, *$")
#: Not files: devices and what the kernel shows of the process itself.
_NONE = ("/dev/null", "/dev/tty", "/dev/pts/", "/proc/")


def changed(trace: str, home: Path) -> dict[str, set[str]]:
    """Return the paths that a trace opens for writing or changes, with their calls. Failed calls are left out."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in trace.splitlines():
        call = _CALL.match(line)
        if call is None or call[3].startswith("-") or call[1] == "chdir":
            continue
        if call[1].startswith("open") and not re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND", call[2]):
            continue
        texts = list(_TEXT.finditer(call[2]))
        for text in texts[1:] if call[1].startswith("symlink") else texts:
            where = _DESCRIPTOR.search(call[2][: text.start()])
            base = Path(where[1]) if where else home
            path = os.path.normpath(base / os.fsdecode(text[1].encode().decode("unicode_escape").encode("latin-1")))
            found[path].add(call[1])
    return {path: calls for path, calls in found.items() if not path.startswith(_NONE)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show every path")
    parser.add_argument("override", nargs="*", help="of a small run, such as teachers=forest; --multirun after --")
    chosen = parser.parse_args()
    if shutil.which("strace") is None:
        parser.error("strace must be on PATH")
    folder = Path(tempfile.mkdtemp(prefix="nzc-opened-"))
    home, trace = folder / "home", folder / "trace.txt"
    home.mkdir()
    command = [sys.executable, "-m", "nzc", *SMALL, "figures=true", "hydra.run.dir=run", *chosen.override]
    # A byte-code cache belongs to Python, and is not written.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    traced = ["strace", "-f", "-y", "-s", "4096", "-e", f"trace={_CALLS}", "-o", str(trace)]
    code = subprocess.run([*traced, *command], cwd=home, env=environment, stdout=subprocess.DEVNULL).returncode
    own = {
        "run's folder": "run", "sweeps": "outputs", "store": ".nzc", "database": "mlflow.db",
        "artifacts": "mlartifacts",
    }  # fmt: skip
    cases = [Case("the run", " ".join(command), f"ends with exit code {code}" if code else "")]
    for path, calls in sorted(changed(trace.read_text(errors="replace"), home).items()):
        beside = [name for name, start in own.items() if path.startswith(f"{home}/{start}")]
        gone = not os.path.lexists(path)
        kind = beside[0] if beside else "temporary, gone at the end" if gone else "something else"
        problem = "" if beside or gone else f"{', '.join(sorted(calls))} {path}"
        cases.append(Case(kind, path, problem))
        if problem or chosen.list:
            print(f"{kind}: {path.removeprefix(f'{home}/')} ({', '.join(sorted(calls))})")
    shutil.rmtree(folder)
    sys.exit(show_cases("files that a run opened for writing, or changed", cases, wrong="not its own"))


if __name__ == "__main__":
    main()
