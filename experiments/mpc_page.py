"""The page of the three servers' tables: what was measured, beside what the thesis prints."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benches.rows import Row, number
from experiments import mpc_plan, output, thesis
from experiments.mpc_plan import Sizes
from experiments.netem import Delayed
from experiments.three_servers import ADVERSARIES, GATED, RULES, Case, Cost


@dataclass(frozen=True)
class Found:
    """Everything that was measured, and why the rest was not.

    Attributes
    ----------
    sizes : Sizes
        How large everything is.
    costs : mapping of Case to Cost
        What was measured.
    left_out : mapping of Case to str
        What was not, and why.
    converted_ms : mapping of int to float
        By number of coordinates, work of a party that converts and packs alone.
    delayed : Delayed
        Rounds over a network with delays, or why there are none.
    """

    sizes: Sizes
    costs: Mapping[Case, Cost]
    left_out: Mapping[Case, str]
    converted_ms: Mapping[int, float]
    delayed: Delayed = field(default_factory=lambda: Delayed({}, "not tried"))

    def of(self, cases: Sequence[Case]) -> list[Cost]:
        """What was measured of cases."""
        return [self.costs[case] for case in cases if case in self.costs]

    def missing(self, cases: Sequence[Case]) -> str:
        """A sentence about those that were not; empty where there are none."""
        said = [
            f"{case.rule}, {case.adversary}, n = {case.parties}, D = {case.dim:,}: {self.left_out[case]}."
            for case in cases
            if case in self.left_out
        ]
        return "\n".join(["Not run:", "", *(f"* {one}" for one in said)]) if said else ""


def megabytes(count: float) -> str:
    """Bytes, as MB."""
    return number(count / 1e6)


def joined(parts: Sequence[str]) -> str:
    """Parts of a section that are not empty."""
    return "\n\n".join(part for part in parts if part)


HOW = """\
## How to read this

* **Measured**: work is CPU time, as `blindsum.simulate` reports it for each party and each server. Every
  message is made, sealed, opened and checked; every result is compared with the rule in the clear. One thread
  works. Bytes are those of the messages, without TLS and HTTP/2. *Peak* is the memory of a process that has
  all parties, all three servers and the comparison in it.
* **Modelled**: no network is there. *Path* is the work that is done one after the other: of a median party,
  of the slowest server, and of a party with the result. It is what a round would take on a machine for each,
  if the network took nothing. *All* is the work of all parties and servers, one after the other on one core.
  Delays (Tables 5.18 to 5.20) are virtual time, and rounds of processes are measured beside it.
  What bytes take on a line, TLS and HTTP/2 are in none of the modelled times.
* Values have 16 bits, or as many as a rule takes where vectors are long: the tables say how many. The gate
  takes vectors with 2^bits · √D ≤ 2²⁴, and sums of squares must fit as well.
* **Their machine and ours**: the thesis measured Tables 5.2 to 5.17 on an Intel i9-13900K with 24 cores and
  128 GB, MP-SPDZ with eight threads; Tables 5.18 to 5.20 on an AMD Ryzen 3900X with 12 cores and 32 GB.
  Clients and servers share the machine and its loopback interface, times are those of a clock, and connecting
  is in them. Numbers have 64 bits there, and are divided by n inside; here a sum's words have 20 bits, and
  receivers divide. So the ratios compare two ways to have a mean from three servers, on unlike machines, and
  not two programs for the same thing."""


def phases(found: Found) -> str:
    """Tables 5.2 and 5.3, and those of the phases."""
    cases = mpc_plan.phases(found.sizes)
    names = {dim: name for name, dim in found.sizes.models.items()}
    header = ["model", "D", "adversary", "convert, pack", "+ share", "take", "open", "result", "path", "all"]
    header += ["a party sends, MB", "a server hears, MB", "peak, MiB", "runs"]
    rows = []
    for cost in found.of(cases):
        times = (cost.upload_ms, cost.take_ms, cost.open_ms, cost.result_ms, cost.path_ms, cost.all_ms)
        case = cost.case
        rows.append(
            [
                names[case.dim],
                f"{case.dim:,}",
                case.adversary,
                number(found.converted_ms[case.dim]),
                *[number(time) for time in times],
                megabytes(cost.up_bytes),
                megabytes(max(cost.received_bytes)),
                number(cost.peak_bytes / 2**20),
                str(cost.runs),
            ]
        )
    return joined(
        [
            f"## Phases of a FedAvg round (Tables 5.2 and 5.3), n = {found.sizes.parties}, ms of CPU time",
            PHASES,
            output.table(header, rows),
            found.missing(cases),
            against_thesis(found),
        ]
    )


PHASES = """\
The report has three stages. These are the phases of the thesis in them:

* Random numbers for masks: nowhere. Seeds take the place of masks, also in active mode.
* Convert inputs, pack to bytes: in `upload`, with the sharing. *Convert, pack* is measured apart: it is a
  party's whole upload in `plain`, with equal words. That seals and sends as well, so it is an upper bound.
* Share and send: *+ share* is all of `upload` of a median party: convert, expand seeds, hash, sign (active)
  and seal. Sending itself takes no time here.
* Servers receive: *take* is `upload` of the coordinator, which checks each upload and keeps it.
* Aggregate, open: *open* is `open` of the coordinator: agree on survivors, expand seeds, add up, open the
  sum, make tags (active). The report does not part them.
* Receive and convert outputs: *result*, where a party checks and decodes the sum. Receiving takes no time."""


def against_thesis(found: Found) -> str:
    """The thesis' seconds beside ours."""
    dim = found.sizes.models[thesis.BASELINE]
    header = ["phase, s", "tables"]
    for adversary in ADVERSARIES:
        header += [f"thesis, {adversary}", "here", "thesis ÷ here"]
    tables = {
        "random numbers for masks": "5.8, 5.9",
        "convert and pack, all clients; here with sharing": "5.4, 5.5, 5.10, 5.11",
        "servers; here the slowest one": "5.16, 5.17",
        "receive and convert outputs; here all clients": "5.6, 5.7, 5.12, 5.13",
        "other": "5.14, 5.15",
        "end to end; here all work": "5.2, 5.3",
    }
    columns = []
    for adversary in ADVERSARIES:
        theirs = thesis.PHASES[adversary]
        printed = (
            *(theirs.masks, theirs.convert + theirs.pack, theirs.servers),
            *(theirs.receive + theirs.convert_back, theirs.other, theirs.whole),
        )
        cost = found.costs.get(Case("fedavg", adversary, found.sizes.parties, dim))
        ours: tuple[float, ...] = (0.0,) * len(printed)
        if cost is not None:
            work = (
                0,
                found.sizes.parties * cost.upload_ms,
                cost.slowest_ms,
                found.sizes.parties * cost.result_ms,
                0,
                cost.all_ms,
            )
            ours = tuple(time / 1000 for time in work)
        columns.append([_compared(*pair) for pair in zip(printed, ours, strict=True)])
    rows = [
        [name, where, *columns[0][place], *columns[1][place]]
        for place, (name, where) in enumerate(tables.items())
    ]
    return joined(
        [
            f"{thesis.BASELINE}, D = {dim:,}, n = {found.sizes.parties}, seconds; the thesis' fastest\n"
            "design, without masks if semi-honest. Theirs is time on the clock of 24 cores, ours CPU time\n"
            "of one core without a network:",
            output.table(header, rows),
        ]
    )


def _compared(theirs: float, ours: float) -> list[str]:
    ratio = number(theirs / ours) if theirs and ours else "–"
    return [number(theirs), number(ours) if ours else "–", ratio]


def trusted(found: Found) -> str:
    """FLTrust in place of FedAvg in Tables 5.16 and 5.17."""
    cases = mpc_plan.trusted(found.sizes)
    header = ["D", "bits", "adversary", "a party", "take", "open", "slowest server", "path", "all"]
    header += [
        "a server hears of all, MB",
        "sends the others, MB",
        "rounds",
        "error bound",
        "peak, MiB",
        "runs",
    ]
    rows = []
    for cost in found.of(cases):
        times = (cost.upload_ms + cost.result_ms, cost.take_ms, cost.open_ms, cost.slowest_ms, cost.path_ms)
        case = cost.case
        rows.append(
            [
                f"{case.dim:,}",
                str(case.bits),
                case.adversary,
                *[number(time) for time in (*times, cost.all_ms)],
                megabytes(max(cost.received_bytes)),
                megabytes(cost.between_bytes),
                str(cost.rounds),
                bound(cost),
                number(cost.peak_bytes / 2**20),
                str(cost.runs),
            ]
        )
    printed = [thesis.PHASES[adversary].servers for adversary in ADVERSARIES]
    text = f"""\
The thesis prints no time of FLTrust. Its Tables 5.16 and 5.17 are the servers' part of FedAvg for
{thesis.BASELINE}: {printed[0]} s semi-honest and {printed[1]} s malicious. Here the servers compute FLTrust,
and know no vector, that of the root not either; the root is one of the clients. The range gate is on. In
active mode everything is verified before it is opened. Times are ms of CPU time."""
    return joined(
        [
            f"## FLTrust with the range gate (after Tables 5.16 and 5.17), {found.sizes.parties} clients",
            text,
            output.table(header, rows),
            found.missing(cases),
        ]
    )


def bound(cost: Cost) -> str:
    """How far a coordinate may be off."""
    return "exact" if cost.bound is None else f"{cost.bound:.1e}"


def clients(found: Found) -> str:
    """Figures 5.1 and 5.2."""
    cases = mpc_plan.clients(found.sizes)
    return joined(
        [
            "## Number of clients (Figures 5.1 and 5.2)",
            "The thesis' figures are pictures without numbers. It calls the growth nearly linear, and draws\n"
            "powers of two apart, since it divides inside; that makes no difference here. Krum compares all\n"
            "pairs of vectors, and the median sorts them.",
            "![work against clients](mpc-tables-clients.svg)",
            "Slowest server, ms of CPU time / MB that a server sends the others:",
            _grid(found, cases, "parties", "clients"),
            found.missing(cases),
        ]
    )


def parameters(found: Found) -> str:
    """Figure 5.3."""
    cases = mpc_plan.parameters(found.sizes)
    return joined(
        [
            f"## Number of parameters (Figure 5.3), {found.sizes.parties} clients",
            "The thesis' growth is nearly linear, but for the start. Here the comparisons of the gate and\n"
            "their verification cost the same whatever D, which is most of the work in short vectors.",
            "![work against parameters](mpc-tables-parameters.svg)",
            "Slowest server, ms of CPU time / MB that a server sends the others:",
            _grid(found, cases, "dim", "D"),
            found.missing(cases),
        ]
    )


def _grid(found: Found, cases: Sequence[Case], axis: str, label: str) -> str:
    """Rows are points of an axis, columns rule and adversary."""
    fixed = {"parties": "dim", "dim": "parties"}[axis]
    lines: dict[tuple[str, str, int], dict[int, Cost]] = {}
    for case in cases:
        line = lines.setdefault((case.rule, case.adversary, getattr(case, fixed)), {})
        if case in found.costs:
            line[getattr(case, axis)] = found.costs[case]
    header = [label]
    for rule, adversary, value in lines:
        header.append(f"{rule}, {adversary}" + (f", D = {value:,}" if fixed == "dim" else ""))
    rows = []
    for place in sorted({getattr(case, axis) for case in cases}):
        row = [f"{place:,}"]
        for line in lines.values():
            cost = line.get(place)
            row.append(f"{number(cost.slowest_ms)} / {megabytes(cost.between_bytes)}" if cost else "–")
        rows.append(row)
    growth = [list(line.values()) for line in lines.values()]
    rows.append(
        [
            "work, last ÷ first that was run",
            *[number(line[-1].slowest_ms / line[0].slowest_ms) for line in growth],
        ]
    )
    return output.table(header, rows)


def delays(found: Found) -> str:
    """Tables 5.18 to 5.20."""
    sizes = found.sizes
    dim = sizes.models[thesis.BASELINE]
    lines = [(rule, adversary) for rule in ("fedavg", "fltrust") for adversary in ADVERSARIES]
    real = found.delayed.seconds
    unit = "s: virtual / measured" if real else "s"
    header = ["delay, ms", *[f"{rule}, {adversary}, {unit}" for rule, adversary in lines]]
    header += [
        f"fedavg, semi-honest, + path at {dim:,}, s",
        "thesis, packets of 128 / 65,536 / 33,554,432, s",
    ]
    whole = found.costs.get(Case("fedavg", "semi-honest", found.sizes.parties, dim))
    rows = []
    for delay in sizes.delays_ms:
        cases = [Case(*line, found.sizes.parties, sizes.short, float(delay)) for line in lines]
        waits = [found.costs[case].virtual_s for case in cases]
        beside = [f" / {number(real[case]) if case in real else '–'}" if real else "" for case in cases]
        printed = thesis.DELAYS.get(delay)
        rows.append(
            [
                str(delay),
                *[number(wait) + more for wait, more in zip(waits, beside, strict=True)],
                number(waits[0] + whole.path_ms / 1000) if whole else "–",
                " / ".join(number(seconds) for seconds in printed) if printed else "–",
            ]
        )
    text = """\
In the first four columns virtual time is that of the simulator: every message takes the delay, once,
whatever its length, and work takes nothing; it is the same for every D. The next column adds measured work.
The thesis' times are of real connections, which wait for the delay in every round between servers, and again
wherever the window of TCP is full. The latter would happen to us too, and is not in the model. So virtual
times are lower bounds, and the ratio to theirs says how often servers wait for each other, not how fast a
round is over such a line. The heads of the thesis' tables say ms; they are seconds, by its Tables 5.2 and
5.16."""
    return joined(
        [
            f"## Packet delay (Tables 5.18 to 5.20), {found.sizes.parties} clients",
            text,
            _network(found),
            "![virtual time against delay](mpc-tables-delays.svg)",
            output.table(header, rows),
        ]
    )


def _network(found: Found) -> str:
    """What went over a network, and why the rest did not."""
    if not found.delayed.seconds:
        return (
            "**Nothing here went over a network**: packets could not be delayed (netem) on the machine of\n"
            f'this page when it was written: "{found.delayed.hindrance}"'
        )
    way = "on a loopback device that delays each packet as long"
    if found.delayed.relayed is not None:
        way = (
            "through relays of this machine that delay what goes over a connection as long, since its kernel "
            f'delays no packets ("{found.delayed.relayed}")'
        )
    said = (
        "*Measured* is the median of rounds in which every party and server is a process, with mutual TLS "
        f"between them, {way}. Vectors have D = {found.sizes.short:,}. Work is in it, on the cores of this "
        f"machine, which all of them share.{_shortfall(found)}"
    )
    missing = found.delayed.hindrance
    return textwrap.fill(said if missing is None else f"{said} Those that are missing: {missing}.", 110)


def _shortfall(found: Found) -> str:
    """How many delays a round takes by the model and as measured, at the longest delay."""
    at = [case for case in found.delayed.seconds if case.delay_ms and case in found.costs]
    if not at:
        return ""
    longest = max(case.delay_ms for case in at)
    delays = [
        f"{case.rule}, {case.adversary}: {1000 * found.costs[case].virtual_s / longest:.0f} modelled, "
        f"{1000 * found.delayed.seconds[case] / longest:.0f} measured"
        for case in at
        if case.delay_ms == longest
    ]
    return (
        " A round as `serve` reports it begins with its offer, which the model leaves out. In delays of "
        f"{longest:g} ms a round takes: {'; '.join(delays)}."
    )


def rules(found: Found) -> str:
    """All rules side by side."""
    cases = mpc_plan.rules(found.sizes)
    parts = [f"## All rules, {found.sizes.parties} clients"]
    for dim in (found.sizes.short, found.sizes.middle):
        header = ["rule", "bits"]
        for adversary in ADVERSARIES:
            header += [f"{adversary}: slowest server, ms", "sends the others, MB", "rounds"]
        header += ["error bound", "largest error"]
        rows = []
        for rule in RULES:
            costs = [
                found.costs.get(Case(rule, adversary, found.sizes.parties, dim)) for adversary in ADVERSARIES
            ]
            if not any(costs):
                continue
            row = [rule, str(Case(rule, ADVERSARIES[0], found.sizes.parties, dim).bits)]
            for cost in costs:
                row += (
                    [number(cost.slowest_ms), megabytes(cost.between_bytes), str(cost.rounds)]
                    if cost
                    else ["–"] * 3
                )
            known = [cost for cost in costs if cost is not None]
            row += [
                bound(known[-1]),
                "0" if known[-1].bound is None else number(max(c.error or 0 for c in known)),
            ]
            rows.append(row)
        parts += [f"D = {dim:,}:", output.table(header, rows)]
    text = f"""\
The coordinator also tells each party the result. The error bound is how far a coordinate may be from the rule
in the clear, where coordinates are from -1 to 1; *exact* is bit for bit. For rules that only choose (Krum,
median, trimmed mean) it is what double precision may lose in the clear. Rules with the gate:
{", ".join(GATED)}."""
    return joined([*parts, text, found.missing(cases)])


def targets(found: Found) -> str:
    """What was to be reached."""
    rows = target_rows(found)
    missed = [row for row in rows if row.ratio is not None and row.ratio < 1]
    said = "\n".join(f"* {row.work}: {number(row.measured or 0)} {row.unit}" for row in missed)
    return joined(
        [
            "## Targets",
            "Each target of time stands twice, since no network is in these numbers: against the path,\n"
            "which flatters, and against all work one after the other on one core, which does not. Times\n"
            "over TLS, and the memory of processes, are measured by `python -m experiments.mpc_network`.",
            output.table(
                ["work", "target", "measured", "target ÷ measured"], [row.cells[:-1] for row in rows]
            ),
            f"Missed:\n\n{said}" if missed else "None is missed.",
        ]
    )


def target_rows(found: Found) -> list[Row]:
    """Each target, and what was measured; nothing where that was left out."""
    sizes = found.sizes
    model = sizes.models[thesis.BASELINE]
    rows = []
    timed = (
        ("fedavg", "semi-honest", model, 3.5),
        ("fedavg", "active", model, 4.5),
        ("fltrust", "semi-honest", sizes.long, 0.6),
        ("fltrust", "active", sizes.middle, 0.5),
        ("fltrust", "active", sizes.long, 0.9),
    )
    for rule, adversary, dim, target in timed:
        cost = found.costs.get(Case(rule, adversary, found.sizes.parties, dim))
        what = f"{rule}, {adversary}, D = {dim:,}: "
        rows.append(Row(f"{what}path", "s", cost.path_ms / 1000 if cost else None, target))
        rows.append(Row(f"{what}all work", "s", cost.all_ms / 1000 if cost else None, target))
    for adversary in ADVERSARIES:
        cost = found.costs.get(Case("fedavg", adversary, found.sizes.parties, model))
        for does, count in (
            ("hears", max(cost.received_bytes) if cost else None),
            ("sends the others", cost.between_bytes if cost else None),
        ):
            what = f"fedavg, {adversary}, D = {model:,}: a server {does}"
            rows.append(Row(what, "MB", None if count is None else count / 1e6, 250))
    for rule, target in (("fedavg", 1), ("fltrust", 40)):
        for adversary in ADVERSARIES:
            cost = found.costs.get(Case(rule, adversary, found.sizes.parties, sizes.short))
            what = f"{rule}, {adversary}: rounds between servers"
            rows.append(Row(what, "rounds", cost.rounds if cost else None, target))
    return rows
