"""Rounds over links with delay, limited rate and loss, by protocol: processes, mutual TLS and relays.

    python -m experiments.links [--quick] [--out FOLDER]

Parties, coordinator and further servers are processes that reach each other through relays in user space
(`benches.relay`), so that no right over the kernel is needed. `mpc_tables` has rounds of three servers with
delays by the kernel where that can delay packets (`netem`), and `wan` is a model of five regions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import blindsum as bs
from benches import rounds as rounds_of
from benches.relay import AGAIN, SEGMENT, Link, relays
from benches.rows import number
from blindsum.cli import console
from blindsum.errors import BlindsumError
from experiments import output

PARTIES = 6
PLAIN = "plain"
PROTOCOLS = (PLAIN, "secagg+", "pss", "flashe", "mpc3")
NEAR = "loopback"
LINKS: Mapping[str, Link | None] = {
    NEAR: None,
    "20 ms, 100 Mbit/s": Link(100, 0.02),
    "100 ms, 20 Mbit/s": Link(20, 0.1),
    "100 ms, 20 Mbit/s, 1 % lost": Link(20, 0.1, 0.01),
    "100 ms, 20 Mbit/s, 3 % lost": Link(20, 0.1, 0.03),
}
"""Round trips, rates of a connection each way, and loss; ``None`` has no relay."""
WAIT = 120.0
"""Seconds that a stage may take."""


@dataclass(frozen=True)
class Sizes:
    """How much is run: protocols, names of links, coordinates, and rounds that count, beside a first one."""

    protocols: tuple[str, ...]
    links: tuple[str, ...]
    dim: int
    rounds: int


FULL = Sizes(PROTOCOLS, tuple(LINKS), dim=61_706, rounds=3)
QUICK = Sizes((PLAIN, "mpc3"), (NEAR, "20 ms, 100 Mbit/s"), dim=500, rounds=1)


@dataclass(frozen=True)
class Measured:
    """Rounds of a protocol over a link.

    Attributes
    ----------
    protocol, link : str
        What was run.
    cost : benches.rounds.RoundCost
        What it cost.
    delays_s : float
        What the messages wait in the simulator, where each takes half a round trip and work takes nothing.
    bytes_s : float
        What the link needs for the bytes of a party.
    """

    protocol: str
    link: str
    cost: rounds_of.RoundCost
    delays_s: float
    bytes_s: float


Found = dict[tuple[str, str], Measured]


def job(protocol: str, sizes: Sizes) -> bs.JobSpec:
    """The job."""
    return bs.JobSpec(
        protocol=protocol,
        parties=PARTIES,
        dim=sizes.dim,
        rounds=sizes.rounds + 1,
        model_update="none",
        stage_deadline=WAIT,
        input_deadline=WAIT,
        join_deadline=WAIT,
    )


def measured(protocol: str, name: str, sizes: Sizes) -> Measured:
    """Run rounds of a protocol over a link."""
    spec, link = job(protocol, sizes), LINKS[name]
    with ExitStack() as stack:
        through = None if link is None else stack.enter_context(relays(link))
        cost = rounds_of.measure(spec, lambda _status: None, through)
    delays, taken = 0.0, 0.0
    if link is not None:
        delays = bs.simulate(spec, latency=link.round_trip / 2).virtual_seconds
        taken = 8 * (cost.up_bytes + cost.down_bytes) / (1e6 * link.megabits)
    return Measured(protocol, name, cost, delays, taken)


def run(sizes: Sizes) -> tuple[Found, dict[tuple[str, str], str]]:
    """All protocols over all links; also those that failed, and why."""
    cases = [(protocol, name) for protocol in sizes.protocols for name in sizes.links]
    found: Found = {}
    failed: dict[tuple[str, str], str] = {}
    with console.progress("rounds", len(cases)) as bar:
        for done, case in enumerate(cases):
            bar.update(done, ", ".join(case))
            try:
                found[case] = measured(*case, sizes)
            except BlindsumError as error:
                failed[case] = str(error)
    return found, failed


def rows(found: Found) -> list[dict[str, Any]]:
    """The table for machines."""
    return [
        {
            "protocol": one.protocol,
            "link": one.link,
            "parties": PARTIES,
            "dim": one.cost.dim,
            "rounds": one.cost.rounds,
            "seconds": one.cost.seconds,
            "fastest_s": one.cost.fastest,
            "delays_s": one.delays_s,
            "bytes_s": one.bytes_s,
            "up_bytes": one.cost.up_bytes,
            "down_bytes": one.cost.down_bytes,
        }
        for one in found.values()
    ]


class Page:
    """Tables and text of what was measured."""

    def __init__(self, found: Found, failed: Mapping[tuple[str, str], str], sizes: Sizes) -> None:
        self._found = found
        self._failed = failed
        self._sizes = sizes

    def parts(self) -> list[str]:
        """Everything below the head."""
        picture = "![seconds of a round by link and protocol](links.svg)"
        return [self._short(), picture, self._rounds(), self._waits(), self._how()]

    def _short(self) -> str:
        points = []
        for name in self._sizes.links:
            plain = self._found.get((PLAIN, name))
            others = [one for one in self._found.values() if one.link == name and one.protocol != PLAIN]
            if plain is None or not others:
                continue
            least = min(others, key=lambda one: one.cost.seconds)
            most = max(others, key=lambda one: one.cost.seconds)
            points.append(
                f"{name}: a round of `plain` takes {number(plain.cost.seconds)} s; with protection "
                f"{number(least.cost.seconds)} s (`{least.protocol}`) to {number(most.cost.seconds)} s "
                f"(`{most.protocol}`), {least.cost.seconds / plain.cost.seconds:.2f} to "
                f"{most.cost.seconds / plain.cost.seconds:.2f} times as long."
            )
        return "\n".join(["## In short", "", output.points(points)])

    def _rounds(self) -> str:
        header = ["protocol", *self._sizes.links]
        lines = []
        for protocol in self._sizes.protocols:
            cells = []
            for name in self._sizes.links:
                one = self._found.get((protocol, name))
                plain = self._found.get((PLAIN, name))
                cells.append(
                    "–"
                    if one is None or plain is None
                    else f"{number(one.cost.seconds)} ({one.cost.seconds / plain.cost.seconds:.2f}×)"
                )
            lines.append([f"`{protocol}`", *cells])
        text = f"""
Seconds from the offer of a round to its end, the median of {self._sizes.rounds}, and how many times as
long as `plain` that is. {PARTIES} parties, D = {self._sizes.dim:,}.
"""
        parts = ["## Rounds", output.filled(text), output.table(header, lines)]
        if self._failed:
            notes = [f"`{protocol}`, {name}: {why}" for (protocol, name), why in self._failed.items()]
            parts += ["Failed:", output.points(notes)]
        return "\n\n".join(parts)

    def _waits(self) -> str:
        header = ["protocol", "link", "messages wait, s", "bytes need, s", "loopback, s", "together, s"]
        header += ["measured, s", "÷"]
        lines = []
        for (protocol, name), one in self._found.items():
            near = self._found.get((protocol, NEAR))
            if near is None or one is near:
                continue
            together = one.delays_s + one.bytes_s + near.cost.seconds
            values = (one.delays_s, one.bytes_s, near.cost.seconds, together, one.cost.seconds)
            lines.append([f"`{protocol}`", name, *map(number, values), f"{one.cost.seconds / together:.2f}"])
        text = """
The sum of what a round is made of: what its messages wait in the simulator where each takes half a
round trip, what a party's bytes need at the rate of its link, and the round on the loopback interface.
The offer of a round and what is lost are in the measured times alone.
"""
        return "\n\n".join(["## Measured and modelled", output.filled(text), output.table(header, lines)])

    def _how(self) -> str:
        points = f"""
Every party and every server is a process. Between each party and each server, and between servers, is a
relay in user space that carries so many bits a second each way and delays everything by half a round
trip. Every connection has a rate of its own.

Loss is a model: a relay has a stream, not packets. Of {SEGMENT:,} bytes each the given part is lost.
What is lost comes after a round trip more, {1000 * AGAIN:g} ms at least, and what comes behind it waits
for it. Senders do not slow down, as TCP would: at high loss real links are slower.

All processes share the cores of this machine, so that the work of all parties is in a round.

What else there is: delays by the kernel's netem, or by relays where it cannot, for [three
servers](mpc-tables.md); one party's upload over a slow link (`blindsum bench link`); links between
regions [as a model](flashe-wan.md).
"""
        return "\n".join(["## How to read this", "", output.points(points)])


def plot(found: Found, sizes: Sizes, path: Path) -> None:
    """Draw a bar for each protocol and link."""
    drawn, (panel,) = output.figure(1)
    width = 0.8 / len(sizes.links)
    for place, name in enumerate(sizes.links):
        seconds = [
            found[protocol, name].cost.seconds if (protocol, name) in found else math.nan
            for protocol in sizes.protocols
        ]
        panel.bar([x + place * width for x in range(len(seconds))], seconds, width, label=name)
    panel.set_xticks([x + 0.4 - width / 2 for x in range(len(sizes.protocols))], sizes.protocols)
    panel.set_ylabel("seconds of a round")
    panel.legend(fontsize="x-small")
    output.save(drawn, path)


def main(words: Sequence[str] | None = None) -> None:
    """Measure and write."""
    options = output.options(words, "links", "Rounds over links with delay and loss.", needs_timers=True)
    sizes = QUICK if options.quick else FULL
    found, failed = run(sizes)
    output.write_csv(options, "links.csv", rows(found))
    plot(found, sizes, options.out / "links.svg")
    page = Page(found, failed, sizes)
    output.write_page(options, "links.md", "Rounds over links with delay and loss", page.parts())


if __name__ == "__main__":
    main()
