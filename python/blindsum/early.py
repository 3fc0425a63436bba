"""Signals to stop that come before a command has handlers of its own. It imports next to nothing."""

from __future__ import annotations

import signal


class StoppedEarly(KeyboardInterrupt):
    """A signal to stop came before the command had handlers of its own, or after it had let them go."""


def handle_signals() -> None:
    """Let SIGTERM and SIGINT raise :class:`StoppedEarly`; SIGINT not where a shell had it ignored."""
    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)


def ignore_signals() -> None:
    """Let SIGTERM and SIGINT do nothing while Python ends, which would let them kill it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def stop(*_: object) -> None:
    """Raise it, as a handler."""
    raise StoppedEarly
