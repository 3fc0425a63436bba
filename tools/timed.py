"""Where the time of `make test` goes: runs a command and notes how long it took, or shows the notes.

    python3 tools/timed.py NAME COMMAND [ARGUMENT ...]     exits as the command does
    python3 tools/timed.py --show                          shows what was noted, and forgets it

Seconds are those of the clock, and those of processors: on a busy machine the first say little.
The notes are in .state/timed.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

NOTES = Path(__file__).resolve().parent.parent / ".state" / "timed"


def run(name: str, command: list[str]) -> int:
    """Run a command and note its time, also where it fails or is interrupted; its exit status."""
    started = time.monotonic()
    process = subprocess.Popen(command)
    # Ctrl-C reaches the command as well, which ends by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, processors = time.monotonic() - started, used.ru_utime + used.ru_stime
    ending = "" if status == 0 else "\tfailed"
    NOTES.parent.mkdir(exist_ok=True)
    with NOTES.open("a", encoding="utf-8") as notes:
        notes.write(f"{seconds:.0f}\t{processors:.0f}\t{name}{ending}\n")
    return status if status >= 0 else 128 - status


def show() -> None:
    """Print what was noted, and the sums; then forget it."""
    if not NOTES.exists():
        return
    rows = [line.split("\t", 2) for line in NOTES.read_text(encoding="utf-8").splitlines()]
    NOTES.unlink()
    sums = [str(sum(int(row[column]) for row in rows)) for column in (0, 1)]
    for clock, processors, name in [("s", "CPU s", ""), *rows, (*sums, "together")]:
        print(f"{clock:>6} {processors:>6}  {name.replace(chr(9), ': ')}".rstrip())


def main() -> int:
    """Run, or show; the exit status."""
    match sys.argv[1:]:
        case ["--show"]:
            show()
            return 0
        case [name, *command] if command:
            return run(name, command)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
