"""The ``blindsumd`` command of the wheel: the daemon, out of the native module."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the daemon with the words of the command line; gives the exit status."""
    # Until the daemon has handlers, Ctrl-C ends the process at once: a handler of Python would not run.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from blindsum import _native

    return _native.daemon(sys.argv[1:])
