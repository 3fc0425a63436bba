"""The page of `mystiko`: what the paper prints, and tables of ours beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benches.rounds import RoundCost
from benches.rows import number
from experiments import output
from experiments.mystiko_rounds import LATENCY, OTHERS, PAILLIER, PROTOCOLS, RATE, Case, Round, Sizes

PRINTED_PARTIES, FEWEST_PRINTED = 40, 20
TOLERANCE = 0.05
"""By how much a control may take longer than extrapolated before extrapolations are called lower bounds."""
NOT_POSSIBLE = "not possible"
TABLE_2: Mapping[str, Mapping[str, float]] = {
    "5-layer CNN": {"none": 0.03, "SPDZ": 1.1, "ring": 3.4, "broadcast": 0.84, "allreduce": 0.56},
    "ResNet-18": {"none": 1.7, "SPDZ": 150.5, "ring": 256.5, "broadcast": 129.8, "allreduce": 115.3},
    "ResNet-50": {"none": 3.7, "SPDZ": 305.8, "ring": 599.6, "broadcast": 270.7, "allreduce": 240.6},
    "VGG-16": {"none": 20.4, "SPDZ": 1710.9, "ring": 3064.9, "broadcast": 1515.7, "allreduce": 1345.5},
}
"""Seconds of a synchronisation with 40 parties; none: without privacy. Table II of the paper."""
EPOCHS = {"5-layer CNN": 0.71, "ResNet-18": 43.2, "ResNet-50": 184.6, "VGG-16": 33490.5}
"""Seconds of an epoch, there."""
TABLE_1: Mapping[tuple[str, int], Mapping[str, str]] = {
    ("communication", 20): {"broadcast": "6.4–7.2×", "ring": "38.2–39.9×", "SPDZ": "13.1–14.2×"},
    ("communication", 40): {"broadcast": "7.9–8.6×", "ring": "70.5–80.8×", "SPDZ": "13.8–14.7×"},
    ("synchronisation", 20): {"broadcast": "12–51 %", "ring": "27–100 %", "SPDZ": "2.2–6.1×"},
    ("synchronisation", 40): {"broadcast": "6–25 %", "ring": "15–59 %", "SPDZ": "1.3–2.6×"},
}
"""How much longer than all-reduce, Table I of the paper: factors, and percent more."""
COUNTERPARTS = {"mpc3": "SPDZ", "plain": "none"} | {name: name.removeprefix("paillier-") for name in PAILLIER}
"""What a protocol stands beside in the paper."""
PROTECTING = tuple(name for name in PROTOCOLS if name != "plain")


@dataclass(frozen=True)
class Found:
    """Everything measured: by protocol, parties and model; rounds of processes, each with its composition.

    A control is a length that was extrapolated, and simulated as well. Impossible cases have a message that
    parties do not take by default.
    """

    sizes: Sizes
    rounds: Mapping[tuple[str, int, str], Round]
    checks: Sequence[tuple[Round, RoundCost]]
    controls: Sequence[tuple[Round, Round]] = ()
    impossible: Mapping[tuple[str, int, str], Case] = field(default_factory=dict)

    def error(self, protocol: str) -> float | None:
        """How many times as much work the control of a protocol took as was extrapolated, the most."""
        ratios = [run.work_s / guess.work_s for guess, run in self.controls if run.case.protocol == protocol]
        return max(ratios, default=None)

    def shown(self, value: float, one: Round, is_work: bool = True) -> str:
        """A number; with a star if its length was not run, and as a bound if the control took longer."""
        if not one.extrapolated:
            return number(value)
        error = self.error(one.case.protocol) if is_work else None
        is_bound = error is not None and error > 1 + TOLERANCE
        return ("≥ " if is_bound else "") + number(value) + "*"


def _available(found: Found, parties: int, model: str) -> dict[str, Round]:
    keyed = {name: found.rounds.get((name, parties, model)) for name in PROTOCOLS}
    return {name: one for name, one in keyed.items() if one is not None}


def synchronisation(found: Found) -> str:
    """Table II: most parties, every model, ours beside the paper's."""
    most = max(found.sizes.parties)
    rows = []
    for model, dim in found.sizes.models.items():
        for name, one in _available(found, most, model).items():
            paper = TABLE_2[model].get(COUNTERPARTS.get(name, ""))
            rows.append(
                [
                    f"{model}, {dim:,}",
                    name + (f" (paper: {COUNTERPARTS[name]})" if name in COUNTERPARTS else ""),
                    found.shown(one.synchronisation_s, one),
                    found.shown(one.work_s, one),
                    found.shown(one.communication_s, one, is_work=False),
                    "–" if one.direct_s is None else found.shown(one.direct_s, one, is_work=False),
                    f"{paper:g}" if paper is not None and most == PRINTED_PARTIES else "–",
                ]
            )
        for name in PROTOCOLS:
            if (name, most, model) in found.impossible:
                paper = TABLE_2[model].get(COUNTERPARTS.get(name, ""))
                rows.append([f"{model}, {dim:,}", name, *[NOT_POSSIBLE] * 4, f"{paper:g}" if paper else "–"])
    header = ["model", f"protocol, {most} parties", "synchronisation, s", "of it work, s"]
    header += ["communication, s", "direct links, s", "paper, synchronisation, s"]
    printed = [
        [model, *[f"{times[name]:g}" for name in times], f"{EPOCHS[model]:g}"]
        for model, times in TABLE_2.items()
    ]
    printed_header = ["paper, 40 parties, s", "not private", "SPDZ", "ring", "broadcast", "all-reduce"]
    printed_table = output.table([*printed_header, "an epoch of training"], printed)
    return f"## Table II: synchronisation\n\n{output.table(header, rows)}\n\n{printed_table}"


QUANTITIES: Mapping[str, Callable[[Round], float | None]] = {
    "communication": lambda one: one.communication_s,
    "communication, direct links": lambda one: one.direct_s,
    "synchronisation": lambda one: one.synchronisation_s,
    "synchronisation, direct links": lambda one: one.direct_s and one.work_s + one.direct_s,
}


def _slowdown(found: Found, quantity: str, parties: int, name: str) -> str:
    """How many times as long as all-reduce, least and most over the models; and what the paper prints."""
    ratios = []
    for model in found.sizes.models:
        there = _available(found, parties, model)
        base = QUANTITIES[quantity](there["paillier-allreduce"])
        value = QUANTITIES[quantity](there[name]) if name in there else None
        if value is not None and base is not None:
            ratios.append(value / base)
    if not ratios:
        return "–"
    ours = f"{number(min(ratios))}–{number(max(ratios))}×"
    table = TABLE_1.get((quantity.partition(",")[0], parties), {})
    printed = table.get(COUNTERPARTS.get(name, ""))
    return ours if printed is None else f"{ours} ({printed})"


def slowdowns(found: Found) -> str:
    """Table I: how much longer than all-reduce, least and most over the models."""
    names = ("paillier-broadcast", "paillier-ring", *OTHERS)
    many = [count for count in found.sizes.parties if count >= FEWEST_PRINTED]
    rows = [
        [quantity, f"{parties}", *[_slowdown(found, quantity, parties, name) for name in names]]
        for quantity in QUANTITIES
        for parties in many or [max(found.sizes.parties)]
    ]
    header = ["against all-reduce (paper)", "parties", "broadcast", "ring", "mpc3 (SPDZ)", *OTHERS[1:]]
    text = (
        "Least and most over the three models. The paper gives synchronisation of Paillier in percent\n"
        "*more*. Its two tables do not agree: by its Table II a ring of 40 takes 2.2 to 6.1 times as long\n"
        "as all-reduce, where its Table I has at most 59 % more."
    )
    return f"## Table I: slowdown\n\n{output.table(header, rows)}\n\n{text}"


def scaling(found: Found) -> str:
    """Figure 5 in numbers: every number of parties."""
    parts = ["## Figure 5: by number of parties", "![times against parties](mystiko.svg)"]
    for model, dim in found.sizes.models.items():
        rows = []
        for name in PROTOCOLS:
            cells = []
            for parties in found.sizes.parties:
                one = found.rounds.get((name, parties, model))
                if one is not None:
                    times = (
                        found.shown(one.synchronisation_s, one),
                        found.shown(one.communication_s, one, False),
                    )
                    cells.append(" / ".join(times))
                else:
                    cells.append(NOT_POSSIBLE if (name, parties, model) in found.impossible else "–")
            rows.append([name, *cells])
        header = [f"{model}, {dim:,}", *[f"{parties} parties" for parties in found.sizes.parties]]
        parts.append(output.table(header, rows))
    parts.append(
        "Synchronisation / communication, seconds. `mpc3` wants three parties. The paper prints Figure 5 as\n"
        "a picture only, so that no numbers of it stand here."
    )
    return "\n\n".join(parts)


def prices(found: Found) -> str:
    """How much dearer Paillier is: CPU time and bytes of everybody."""
    most, rows, ratios = max(found.sizes.parties), [], []
    for model in found.sizes.models:
        there = _available(found, most, model)
        ratios += [there[name].all_s / there["secagg+"].all_s for name in PAILLIER if name in there]
        for name, one in there.items():
            rows.append(
                [
                    model,
                    name,
                    found.shown(one.party_s, one),
                    found.shown(one.all_s, one),
                    number(one.all_s / there["secagg+"].all_s),
                    number(one.all_s / there["flashe"].all_s),
                    found.shown(one.bytes / 1e6, one, is_work=False),
                ]
            )
    header = ["model", f"protocol, {most} parties", "a party's work, s", "all work, s"]
    header += ["÷ secagg+", "÷ flashe", "a party's bytes, MB"]
    said = (
        f"With {most} parties Paillier takes {number(min(ratios))} to {number(max(ratios))} times the CPU"
        " time of `secagg+`."
    )
    if (found.error("secagg+") or 0) > 1 + TOLERANCE:
        said += " Where `secagg+` was extrapolated these factors are upper bounds."
    return f"## What it costs\n\n{said}\n\n{output.table(header, rows)}\n\n{winners(found)}"


def winners(found: Found) -> str:
    """Which protocol is fastest, by model and parties: of Paillier's three, and of all."""
    lines = []
    for model in found.sizes.models:
        for kind, names in (("of Paillier's", PAILLIER), ("of all that protect", PROTECTING)):
            best = []
            for parties in found.sizes.parties:
                there = _available(found, parties, model)
                first = min(
                    (name for name in names if name in there), key=lambda name: there[name].synchronisation_s
                )
                best.append(f"{first} ({parties})")
            lines.append(f"* {model}, {kind}: {', '.join(best)}.")
    return "Shortest synchronisation, by number of parties:\n\n" + "\n".join(lines)


def checks(found: Found) -> str:
    """Rounds of processes beside what is composed for them; lengths that were extrapolated and run."""
    if not found.checks:
        return "## Against rounds of processes\n\nNot run."
    rows = [
        [
            one.case.protocol,
            f"{one.case.parties}",
            f"{one.case.dim:,}",
            number(cost.seconds),
            number(cost.fastest),
            number(one.work_s),
            number(one.all_s),
            number(one.bytes / 1e6),
            number((cost.up_bytes + cost.down_bytes) / 1e6),
        ]
        for one, cost in found.checks
    ]
    header = ["protocol", "parties", "D", "round over TLS, s", "fastest, s", "composed work, s"]
    header += ["all work, s", "a party's MB, composed", "over TLS"]
    text = (
        "Every party and the coordinator is a process, with mutual TLS on the loopback interface, where\n"
        "neither delays nor rates count. All share this machine's cores, and encryption takes all of them;\n"
        "composed work is on one core for each party. So a round takes at least all work over the cores,\n"
        "and a ring about its composed work over the cores that are free. Parties that wait for their hop\n"
        "draw the noise of their encryption ahead, which the simulator does not: with cores to spare a\n"
        "ring can be shorter than composed."
    )
    return f"## Against rounds of processes\n\n{output.table(header, rows)}\n\n{text}"


READING = f"""\
## How to read it

* Synchronisation is the paper's: work that protects and opens, and communication. Work is CPU time on one
  core, one stage after the other: in a ring every hop; in all-reduce and broadcast parties work at the
  same time and count once (the median party). Opening the sum is in it, by one key service on one core.
  Keys are made once for a job and are not in it: every job of Paillier has two rounds, of which the
  second counts. Nor is the key set-up of `flashe`, which comes before its first round.
* Communication is a model: {1000 * LATENCY:g} ms for a message one way, and {8 * RATE / 1e9:g} Gbit/s for
  every link, each way. Rate as in the paper; it names four data centres and no delays, so the delay is
  ours.
* Ours go through the coordinator, sealed from party to party, so that it passes on what it cannot read.
  Its link carries every hop twice; a broadcast goes there P times and comes back P · (P − 1) times. The
  column of direct links counts the same bytes between parties, as in the paper.
* Of the paper's machines each has 8 cores at 2.1 GHz, and one party. It does not say how many of them
  encrypt, how long the key is, or how many parameters a ciphertext holds. Ours has 2048 bits, full
  exponents, and 93 values of 16 bits in lanes of 22 bits for 40 parties. Its models have 1, 50 and 600
  MB.
* SPDZ there is between all parties and holds against all but one; `mpc3` is three servers of which one
  may be curious, so that it stands beside it and is no repetition. `mpc3` and `secagg+` are semi-honest,
  as the paper's parties are. `flashe` has one key among all parties; `docs/comparison.md` says whom each
  protects from whom.\
"""
