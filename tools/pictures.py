"""Draws the stages of each protocol from its plan, as Mermaid diagrams on its page, and the demo's picture.

    .venv/bin/python tools/pictures.py            write the pictures into docs/
    .venv/bin/python tools/pictures.py --check    compare, exit 1 if they are not what plans and record say

The plans are in Rust; the native module, as it is built now, gives them with a job specification. The picture
of the demo is drawn by ``demo_picture`` from a record.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import demo_picture

import blindsum as bs

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "protocols"
BEGIN, END = "<!-- begin of what tools/pictures.py writes -->\n", "<!-- end of the pictures -->\n"

ADVERSARIES = ("active", "semi-honest")
PLACES = {"coordinator": "C", "parties": "P", "few": "P", "servers": "S"}


@dataclass(frozen=True)
class Picture:
    """The plan of one kind of round: of what, and under which condition."""

    subject: str
    spec: bs.JobSpec
    where: str = ""
    key_setup: bool = False

    def drawn(self) -> str:
        """The diagram: a note for each stage, an arrow for each of its steps."""
        steps = self.spec.key_setup_plan if self.key_setup else self.spec.plan
        lines = ["sequenceDiagram", "    participant P as parties", "    participant C as coordinator"]
        if self.has_servers(steps):
            lines.append("    participant S as second and third server")
        for up, down in zip(steps[::2], steps[1::2], strict=True):
            lines += [f"    {line}" for line in stage(up, down)]
        return "\n".join(["```mermaid", *lines, f"    {self.end()}", "```"])

    def has_servers(self, steps: tuple[bs.Step, ...]) -> bool:
        """Whether the coordinator is not the only server."""
        return any(step.speaker == "servers" for step in steps)

    def end(self) -> str:
        """Who knows what once the last stage is over."""
        if self.key_setup:
            return "Note over P: hold the key"
        if self.has_servers(self.spec.plan):
            return "Note over P,S: all know the sum"
        return "Note over P: learn the sum" if self.spec.hides_sum else "Note over P,C: both know the sum"


def stage(up: bs.Step, down: bs.Step) -> Iterator[str]:
    """The lines of one stage."""
    about = [f"stage {up.stage}, {up.name}", f"{up.deadline:g} s"]
    if up.enough > 1:
        about.append(f"at least {up.enough} answers")
    if up.optional:
        about.append("may be skipped")
    yield f"Note over P,C: {', '.join(about)}"
    if up.speaker == "servers":
        yield "Note over C,S: all three talk with each other"
    elif down.hearer == "servers":
        yield f"P->>S: made from the update, at most {size(up.largest)} to each"
    for step in (up, down):
        yield f"{PLACES[step.speaker]}->>{PLACES[step.hearer]}: {', '.join(said(step))}"


def said(step: bs.Step) -> Iterator[str]:
    """What an arrow says of the messages of a step."""
    if "few" in (step.speaker, step.hearer):
        yield "some of the parties only"
    if step.input:
        yield "made from the update"
    if step.relayed:
        yield "passed on in pieces"
    yield f"at most {size(step.largest)}"


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "KiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} MiB"


def job(protocol: str, adversary: str = "active", **options: float) -> bs.JobSpec:
    """The job that the pictures show."""
    return bs.JobSpec.from_settings(
        [
            ("protocol", protocol),
            ("adversary", adversary),
            ("parties", 10),
            ("dim", 100_000),
            *options.items(),
        ]
    )


def by_adversary(*protocols: str) -> list[Picture]:
    """Pictures of protocols for each adversary."""
    return [
        Picture(f"`{protocol}`", job(protocol, adversary), f', `adversary = "{adversary}"`')
        for adversary in ADVERSARIES
        for protocol in protocols
    ]


def pictures() -> dict[str, list[Picture]]:
    """The pictures of each page, in their order."""
    flashe = job("flashe")
    return {
        "plain": [Picture("A round", job("plain"))],
        "secagg": by_adversary("secagg", "secagg+"),
        "ramp": by_adversary("fssa", "pss"),
        "flashe": [
            Picture("A key set-up", flashe, key_setup=True),
            Picture("A round", flashe),
            Picture("A sparse round", job("flashe", density=0.1), ", `density = 0.1`"),
        ],
        "mpc3": by_adversary("mpc3"),
    }


def section(of_page: list[Picture]) -> str:
    """The pictures of a page; those that are the same are drawn once."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for picture in of_page:
        subjects.setdefault((picture.where, picture.drawn()), []).append(picture.subject)
    parts = [f"\n{' and '.join(of)}{where}:\n\n{drawn}\n" for (where, drawn), of in subjects.items()]
    return "".join(parts) + "\n"


def main() -> int:
    """Write or check; the exit status."""
    texts: dict[Path, str] = demo_picture.texts()
    for name, of_page in pictures().items():
        page = PAGES / f"{name}.md"
        before, rest = page.read_text().split(BEGIN)
        _, after = rest.split(END)
        texts[page] = before + BEGIN + section(of_page) + END + after
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(texts[path])
        return 0
    for path in stale:
        name = path.relative_to(ROOT)
        print(f"{name} is not what it is drawn from: run .venv/bin/python tools/pictures.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
