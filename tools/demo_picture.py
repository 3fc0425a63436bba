"""Draws the picture of the demo that README.md shows, from the recorded output of ``blindsum demo``.

``tools/pictures.py`` writes and checks it with the other pictures. To record the demo again:

    blindsum demo | sed 's/ *$//' > docs/pictures/demo.txt && .venv/bin/python tools/pictures.py

The picture is text, and small: a browser draws it in light and in dark pages without any font of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs/pictures/demo.txt"
PICTURE = ROOT / "docs/pictures/demo.svg"

WIDTH, HEIGHT = 720, 300
LEFT, END, TOP, FOOT = 60, WIDTH - 20, 40, HEIGHT - 45


@dataclass(frozen=True)
class Row:
    """A round of the demo: its accuracy, that of plain FedAvg, and who was lost."""

    number: int
    accuracy: float
    plain: float
    lost: str | None


def rows(record: str) -> list[Row]:
    """The rounds of a recorded output."""
    found = []
    for line in record.splitlines():
        words = line.replace("│", " ").split()
        if len(words) >= 7 and words[0].isdigit():
            lost = next((word for word in words if word.startswith("party-")), None)
            found.append(Row(int(words[0]), float(words[1]), float(words[2]), lost))
    return found


@dataclass(frozen=True)
class Chart:
    """Where things are on the picture of some rounds."""

    rounds: list[Row]

    @property
    def floor(self) -> int:
        """The least accuracy that is drawn, in tenths."""
        return int(10 * min(min(one.accuracy, one.plain) for one in self.rounds))

    def x(self, number: int) -> float:
        """The place of a round."""
        return LEFT + (END - LEFT) * (number - 1) / (len(self.rounds) - 1)

    def y(self, accuracy: float) -> float:
        """The height of an accuracy."""
        return TOP + (FOOT - TOP) * (1 - accuracy) / (1 - self.floor / 10)

    def curve(self, values: list[float], style: str) -> str:
        """A curve over the rounds."""
        places = zip((self.x(one.number) for one in self.rounds), map(self.y, values), strict=True)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        return f'<polyline fill="none" {style} points="{points}"/>'

    def axes(self) -> Iterator[str]:
        """Levels of accuracy, and numbers of rounds."""
        for tenth in range(self.floor, 11):
            level = self.y(tenth / 10)
            yield f'<path stroke="#8888" d="M{LEFT} {level:.1f}H{END}"/>'
            yield text(LEFT - 8, level + 4, f"{tenth / 10:.1f}", 'text-anchor="end"')
        for one in self.rounds:
            if one.number == 1 or one.number % 5 == 0:
                yield text(self.x(one.number), FOOT + 20, str(one.number), 'text-anchor="middle"')
        yield text(LEFT, TOP - 16, "test accuracy after each round")
        yield text((LEFT + END) / 2, HEIGHT - 6, "round", 'text-anchor="middle"')

    def killed(self) -> Iterator[str]:
        """Who was killed, and when."""
        for one in self.rounds:
            if one.lost:
                place = self.x(one.number)
                yield f'<path stroke="#d33" stroke-dasharray="3 4" d="M{place:.1f} {TOP}V{FOOT}"/>'
                yield text(place + 6, FOOT - 8, f"{one.lost} killed", 'fill="#d33"')

    def curves(self) -> Iterator[str]:
        """Both accuracies, and what they are in the end."""
        last = self.rounds[-1]
        yield self.curve([one.plain for one in self.rounds], 'stroke="#8889" stroke-width="8"')
        yield self.curve([one.accuracy for one in self.rounds], 'stroke="#27c" stroke-width="2.5"')
        yield text(END, FOOT - 50, f"plain federated averaging: {last.plain:.4f}", 'text-anchor="end"')
        yield text(END, FOOT - 30, f"Blindsum: {last.accuracy:.4f}", 'text-anchor="end" fill="#27c"')


def text(x: float, y: float, words: str, style: str = "") -> str:
    """Some words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{words}</text>'


def drawn(rounds: list[Row]) -> str:
    """The picture as SVG."""
    chart = Chart(rounds)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13" fill="#777">'
    )
    return "\n".join([head, *chart.axes(), *chart.killed(), *chart.curves(), "</svg>", ""])


def texts() -> dict[Path, str]:
    """What the file of the picture must have."""
    return {PICTURE: drawn(rows(RECORD.read_text()))}
