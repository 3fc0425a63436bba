"""One row of a table of measurements."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Row:
    """What was measured, against what.

    Attributes
    ----------
    work : str
        What was measured.
    unit : str
        Of ``measured``, ``target`` and ``peer``.
    measured : float or None
        The value; ``None`` where it could not be measured here.
    target : float or None
        What it should be; ``None`` where nothing is promised.
    better : str
        ``"less"`` or ``"more"``.
    peer : float or None
        The peer's value in the same run, where it is installed.
    note : str
        What must be known to read the row.
    """

    work: str
    unit: str
    measured: float | None
    target: float | None
    better: Literal["less", "more"] = "less"
    peer: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times better than the target: below 1 it is missed."""
        if self.target is None or not self.measured:
            return None
        return self.target / self.measured if self.better == "less" else self.measured / self.target

    @property
    def cells(self) -> list[str]:
        """The row of a table."""
        sign = "≤" if self.better == "less" else "≥"
        target = "" if self.target is None else f"{sign} {number(self.target)} {self.unit}"
        peer = "" if self.peer is None else f"{number(self.peer)} {self.unit}"
        measured = "not measured" if self.measured is None else f"{number(self.measured)} {self.unit}"
        ratio = "" if self.ratio is None else number(self.ratio)
        if self.ratio is not None and self.ratio < 1:
            ratio += " (missed)"
        return [self.work, target, measured, ratio, peer]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {**asdict(self), "ratio": self.ratio}


HEADER = ["work", "target", "measured", "ratio", "flwr"]


def number(value: float) -> str:
    """Three digits that matter."""
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
