"""Numbers for people: times, bytes, and lists of rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_text(count: float) -> str:
    """Bytes in binary units: ``"1.5 MiB"``."""
    unit = bytes_unit(count)
    scaled = count / 1024 ** UNITS.index(unit)
    return f"{scaled:.0f} B" if unit == "B" else f"{scaled:.{1 if scaled < 100 else 0}f} {unit}"


def bytes_unit(count: float) -> str:
    """The largest binary unit of which there is at least one."""
    power = 0
    while power < len(UNITS) - 1 and count >= 1024 ** (power + 1):
        power += 1
    return UNITS[power]


def seconds_text(seconds: float) -> str:
    """A time: ``"340 ms"``, ``"2.5 s"``, ``"3 min 20 s"``, ``"2 h 5 min"``."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def number_text(value: float | None) -> str:
    """A number with four digits that matter; empty for ``None``."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "not finite"
    small = value != 0 and abs(value) < 1e-3
    return f"{value:.2e}" if small or abs(value) >= 1e6 else f"{value:.4g}"


def count_text(count: int, thing: str) -> str:
    """How many there are: ``"1 round"``, ``"2 rounds"``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def rounds_text(numbers: Iterable[int], most: int = 30) -> str:
    """Numbers of rounds, those in a row as first and last; the first ones of many.

    Parameters
    ----------
    numbers
        The numbers, in order.
    most
        How many runs of numbers are given.
    """
    runs = list(_runs(numbers))
    text = ", ".join(f"{first}" if first == last else f"{first}–{last}" for first, last in runs[:most])
    rest = sum(last - first + 1 for first, last in runs[most:])
    return f"{text} and {rest} more" if rest else text


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last
