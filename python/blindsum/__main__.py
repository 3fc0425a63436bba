"""``python -m blindsum`` is the ``blindsum`` command.

Handlers of signals come first, before anything else is imported: process 1 of a container gets no signal
that it has no handler for, and an import that is interrupted ends in a line, not in a traceback.
"""

from __future__ import annotations

import sys

from blindsum.early import StoppedEarly, handle_signals, ignore_signals


def main() -> int:
    """Run the command; gives the exit status."""
    words = sys.argv[1:]
    serves = next((word for word in words if not word.startswith("-")), None) == "serve"
    try:
        handle_signals()
        from blindsum.cli import main as run

        status = run()
    except StoppedEarly:
        status = _stopped(serves, "--json" in words)
    if serves:
        # It has ended as it should, and says so, also to who stops it in this very moment.
        ignore_signals()
    return status


def _stopped(serves: bool, as_json: bool) -> int:
    """Say that the command was stopped; its exit status. To stop a coordinator is no failure of it."""
    if not serves:
        print("blindsum: interrupted", file=sys.stderr)
        return 130
    print("blindsum: stopped", file=sys.stderr)
    if as_json:
        print('{"event": "stopped"}', flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
