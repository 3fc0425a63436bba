"""Signals of commands that run for long or start other processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM end a command like Ctrl-C does, so that no process is left behind."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stop_signals() -> Iterator[None]:
    """Let SIGTERM and SIGINT end a command like Ctrl-C does, and SIGHUP not.

    Also as process 1 of a container, which gets no signal that it has no handler for, and where a shell
    started the command in the background, with SIGINT ignored.
    """
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    on_hangup(lambda: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: a handler that is not Python's, and stays as it is.
            if handler is not None:
                signal.signal(number, handler)


def on_stop(work: Callable[[], object], *, drain: Callable[[], object] | None = None) -> None:
    """Do something on the first SIGTERM or SIGINT; the second one ends the command like Ctrl-C does.

    With ``drain`` the first SIGTERM does that instead, and the signal after it does ``work``.
    For as long as :func:`stop_signals` lasts.
    """

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, _interrupt)
        signal.signal(signal.SIGINT, _interrupt)
        work()

    def gently(*_: object) -> None:
        signal.signal(signal.SIGTERM, stop)
        (drain or work)()

    signal.signal(signal.SIGTERM, gently if drain else stop)
    signal.signal(signal.SIGINT, stop)


def on_hangup(work: Callable[[], object]) -> None:
    """Do something on SIGHUP, for as long as :func:`stop_signals` lasts."""
    signal.signal(signal.SIGHUP, lambda *_: work())


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
