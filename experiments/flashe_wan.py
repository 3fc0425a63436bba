"""FLASHE §6.2 and §6.3: iteration time, traffic and price over links between five regions.

    python -m experiments.flashe_wan [--quick] [--out FOLDER]

Plaintext and FLASHE are whole rounds of the simulator with ten parties: every message and every byte of it.
The others take plaintext's round with their ciphertexts in place of the words, at the cost that is measured
for 262,144 numbers. `--quick` takes those from the results that are checked in, and so does a full run for
what is not installed: such rows are marked, and keep the date and the machine of the run that measured them.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import blindsum as bs
from benches.he.measure import CANDIDATES, HeCost, measure
from benches.provenance import COLUMNS
from benches.rows import number
from blindsum.cli import console
from experiments import flashe_claims, output
from experiments.flashe_claims import CORES
from experiments.flashe_lines import Known, Line
from experiments.wan import (
    CLIENTS,
    LOCAL_MBIT,
    MODELS,
    REGIONS,
    SERVER_HOUR,
    Model,
    Round,
    dollars,
    iteration_s,
    mbit,
)

NUMBERS = 262_144
OTHERS = (
    "pypaillier-batched",
    "phe-batched",
    "bfv-batched",
    "bfv-paper",
    "ckks-small",
    "ckks-batched",
)
HE_COSTS = "flashe-he.csv"


def he_costs(options: output.Options) -> list[Known]:
    """Costs of the other schemes: measured now, or kept of the run that measured them last."""
    stored = {known.cost.scheme: known for known in _stored(output.RESULTS / HE_COSTS)}
    found = []
    with console.progress("other schemes", len(OTHERS)) as bar:
        for done, name in enumerate(OTHERS):
            title = CANDIDATES[name].title
            bar.update(done, title)
            cost = None if options.quick else measure(name, NUMBERS)
            found.append(Known(cost, options.run.row, False) if cost else stored[title])
    return found


def _stored(path: Path) -> list[Known]:
    """Costs as a run before has written them, with its origin."""
    if not path.exists():
        return []
    with path.open() as file:
        return [
            Known(
                HeCost(
                    row["scheme"],
                    *[int(row[name]) for name in ("numbers", "measured", "ciphertext_bytes")],
                    *[float(row[name]) for name in ("encrypt_s", "decrypt_s", "add_s")],
                ),
                {name: row[name] for name in COLUMNS},
                True,
            )
            for row in csv.DictReader(file)
        ]


def simulated(protocol: str, parameters: int, repetitions: int) -> Round:
    """A round of ten parties, all of them there: least work of the repetitions."""
    spec = bs.JobSpec(protocol=protocol, parties=CLIENTS * len(REGIONS), dim=parameters, model_update="none")
    results = [bs.simulate(spec, seed=seed) for seed in range(repetitions)]
    for result in results:
        if not result.exact:
            raise ArithmeticError(f"{protocol}, D = {parameters}: {result.fault or 'a wrong sum'}")
    decrypt = min(result.stages[-1].client_ms.median for result in results)
    encrypt = min(sum(stage.client_ms.median for stage in result.stages[:-1]) for result in results)
    return Round(
        encrypt_s=encrypt / 1000,
        add_s=min(result.server_ms for result in results) / 1000,
        decrypt_s=decrypt / 1000,
        up_bytes=results[0].up_bytes_per_party,
        down_bytes=results[0].down_bytes_per_party,
    )


def key_setup() -> str:
    """What is there once for a job, before its first round."""
    spec = bs.JobSpec(protocol="flashe", parties=CLIENTS * len(REGIONS), dim=1)
    setup = bs.simulate(spec).to_dict()["key_setup"]
    return (
        "Not in it is the key set-up before the first round of a job: "
        f"{setup['up_bytes_per_party']:,} bytes up and {setup['down_bytes_per_party']:,} down a client "
        f"in {len(setup['stages']) - 1} stages, {setup['client_ms']['median']:.1f} ms of its work."
    )


def replaced(plain: Round, cost: HeCost, parameters: int) -> Round:
    """Plaintext's round with ciphertexts of another scheme in place of the words."""
    scale = parameters / cost.numbers
    more = scale * cost.ciphertext_bytes - parameters * 20 / 8
    return Round(
        encrypt_s=plain.encrypt_s + scale * cost.encrypt_s / CORES,
        add_s=plain.add_s + scale * cost.add_s / CORES,
        decrypt_s=plain.decrypt_s + scale * cost.decrypt_s / CORES,
        up_bytes=plain.up_bytes + more,
        down_bytes=plain.down_bytes + more,
    )


def lines(model: Model, others: Sequence[Known], quick: bool) -> list[Line]:
    """Every scheme for one model; plaintext first."""
    repetitions = 1 if quick else 5
    plain = simulated("plain", model.parameters, repetitions)
    training = model.plain_iteration_s - iteration_s(plain, 0.0)
    flashe = simulated("flashe", model.parameters, repetitions)
    ours = [Line(model, "plaintext", plain, training), Line(model, "FLASHE", flashe, training)]
    return ours + [
        Line(model, known.cost.scheme, replaced(plain, known.cost, model.parameters), training, known)
        for known in others
    ]


def kept(others: Sequence[Known]) -> str:
    """Which costs are those of another run, and of which one; empty if there are none."""
    runs: dict[tuple[str, ...], list[str]] = {}
    for known in others:
        if known.is_kept:
            origin = tuple(known.origin[name] for name in ("date", "machine", "commit"))
            runs.setdefault(origin, []).append(known.cost.scheme)
    return "\n".join(
        f"† Not measured in this run, but on {date} on {machine} (commit {commit}): {'; '.join(names)}."
        for (date, machine, commit), names in runs.items()
    )


def _with_ratio(value: float, plain: float) -> str:
    return f"{number(value)} ({value / plain:.2f}×)" if value >= 0.01 else number(value)


def breakdown(found: Sequence[Line]) -> str:
    """Figures 7 and 8: where an iteration's time goes, and its bytes."""
    rows = []
    for line in found:
        one = line.aggregation
        plain = next(other for other in found if other.model == line.model)
        work = one.encrypt_s + one.decrypt_s
        waiting = line.iteration_s - line.training_s - work - one.add_s
        rows.append(
            [
                line.model.name,
                line.title,
                _seconds(work),
                _seconds(one.add_s),
                _seconds(waiting),
                f"{line.iteration_s:.2f} ({line.iteration_s / plain.iteration_s:.4f}×)",
                f"{one.bytes / 1e6:.2f} ({one.bytes / plain.aggregation.bytes:.2f}×)",
            ]
        )
    header = [
        "model",
        "scheme",
        "encode, encrypt, decrypt, s",
        "add, s",
        "links, s",
        "iteration, s",
        "traffic of a client, MB",
    ]
    return output.table(header, rows)


def _seconds(value: float) -> str:
    return f"{value:.4f}" if value < 0.1 else number(value)


def prices(found: Sequence[Line]) -> str:
    """Table 4, ours beside the paper's."""
    rows = []
    for line in found:
        plain = next(other for other in found if other.model == line.model)
        rows.append(
            [
                line.model.name,
                line.title,
                _with_ratio(line.hours, plain.hours),
                _with_ratio(line.gigabytes, plain.gigabytes),
                f"{line.dollars:.2f} ({line.dollars / plain.dollars:.2f}×)",
            ]
        )
    return output.table(["model", "scheme", "hours", "GB of a client", "dollars"], rows)


def printed() -> str:
    """Table 4 of the paper, and what our prices make of its hours and bytes."""
    rows = [
        [
            model.name,
            line.mode,
            f"{line.hours:.2f}",
            f"{line.gigabytes:.2f}",
            f"{line.dollars:.2f}",
            f"{dollars(line.hours, line.gigabytes):.2f}",
        ]
        for model in MODELS
        for line in model.printed
    ]
    header = ["model", "mode", "hours", "GB of a client", "dollars", "dollars at the prices here"]
    return output.table(header, rows)


def links() -> str:
    """What the model of the network is made of."""
    rows = [
        [
            region.name,
            f"{1000 * region.round_trip:g}",
            f"{mbit(region):,.0f}",
            f"{region.hour}",
            f"{region.gigabyte}",
        ]
        for region in REGIONS
    ]
    return output.table(["region", "round trip, ms", "Mbit/s", "$ an hour", "$ a GB sent"], rows)


def plot(found: Sequence[Line], path: Path) -> None:
    """Time above training and bytes of an iteration, one column a model."""
    drawn, axes = output.figure(len(MODELS), 2)
    for column, model in enumerate(MODELS):
        those = [line for line in found if line.model == model]
        names = [line.scheme for line in those]
        quantities: Mapping[str, list[float]] = {
            "seconds above training": [line.iteration_s - line.training_s for line in those],
            "MB of a client": [line.aggregation.bytes / 1e6 for line in those],
        }
        for row, (label, values) in enumerate(quantities.items()):
            place = axes[row * len(MODELS) + column]
            place.barh(names[::-1], values[::-1], color="tab:blue")
            place.set_xlabel(label)
            place.set_title(f"{model.name}, {model.parameters:,}", fontsize="medium")
            place.tick_params(axis="y", labelsize="small", labelleft=column == 0)
    output.save(drawn, path)


READING = f"""\
## How to read it

* The network is a model, not a measurement: a message takes half a round trip and its bytes at the link's
  rate, an iteration waits for the slowest client in both directions. Round trips are assumed. The paper's
  text gives two facts about its bandwidths, {mbit(REGIONS[-1]):.0f} Mbit/s on the slowest link and a 120th of
  a local link ({LOCAL_MBIT / 1000:.0f} Gbit/s) on average; rates are in inverse proportion to round trips and
  meet both.
* Training is what remains of the paper's plaintext iteration (hours of its Table 4 over its number of
  iterations) without our plaintext round; it is the same for all schemes.
* Plaintext and FLASHE are measured rounds on one core, with encoding and with everything that is sent.
* The others' work is measured on one core and divided by {CORES}, the paper's virtual cores, as if it were
  divided without loss; FLASHE's is not divided.
* BFV and CKKS with N = 4096 have the least parameters that the library accepts for additions of such values
  at 128 bits of security; those with N = 8192 are the paper's, and more than additions need.
* Prices are the on-demand prices of a c5.4xlarge by region, {SERVER_HOUR} dollars an hour for the server's
  r5.4xlarge in Ohio, and prices between regions for what is sent. The paper does not print its prices; with
  these its hours and bytes give its dollars, to their rounding.\
"""


def row(line: Line, options: output.Options) -> dict[str, Any]:
    """A line for a CSV file, and which run its scheme's own costs are of."""
    origin = options.run.row if line.costs is None else line.costs.origin
    return {**line.row, "costs_date": origin["date"], "costs_machine": origin["machine"]}


def main(words: Sequence[str] | None = None) -> None:
    """Measure, draw and write."""
    options = output.options(words, "flashe_wan", "FLASHE over five regions.")
    others = he_costs(options)
    found = []
    with console.progress("rounds", len(MODELS)) as bar:
        for done, model in enumerate(MODELS):
            bar.update(done, model.name)
            found += lines(model, others, options.quick)
    plot(found, options.out / "flashe-wan.svg")
    output.write_csv(options, "flashe-wan.csv", [row(line, options) for line in found])
    output.write_csv(options, HE_COSTS, [known.row for known in others])
    note = kept(others)
    parts = [
        "![time above training and traffic](flashe-wan.svg)",
        "## An iteration (Figures 7 and 8)",
        *([note] if note else []),
        breakdown(found),
        key_setup(),
        "## Until convergence (Table 4)",
        prices(found),
        "## Table 4 as the paper prints it",
        printed(),
        flashe_claims.compared(found),
        "## Links and prices",
        links(),
        READING,
    ]
    output.write_page(options, "flashe-wan.md", "FLASHE over five regions", parts)


if __name__ == "__main__":
    main()
