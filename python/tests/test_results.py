"""Results that are checked in are those of this code: deterministic columns of some rows come out again.

A test here that fails says that a file is older than the code: run its experiment again (`make experiments`).
"""

import csv
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import blindsum as bs
from benches.provenance import COLUMNS
from experiments import (
    accuracy_runs,
    flashe_wan,
    mystiko_rounds,
    output,
    overhead_runs,
    poisoning_runs,
    pss_rounds,
    taylor_noise,
    three_servers,
)
from experiments.measure import Case, cost
from experiments.wan import MODELS

MADE_BY = {
    "accuracy": "accuracy",
    "aciq-bounds": "aciq_bounds",
    "attacks": "attacks",
    "flashe-density": "flashe_density",
    "flashe-he": "flashe_wan",
    "flashe-regression": "flashe_regression",
    "flashe-sparse": "flashe_training",
    "flashe-training": "flashe_training",
    "flashe-wan": "flashe_wan",
    "fssa": "fssa",
    "fssa-secagg": "fssa_secagg",
    "links": "links",
    "mpc-network": "mpc_network",
    "mpc-tables": "mpc_tables",
    "mystiko": "mystiko",
    "overhead": "overhead",
    "overhead-steps": "overhead",
    "poisoning": "poisoning",
    "privacy-accuracy": "privacy_accuracy",
    "privacy-audit": "privacy_audit",
    "privacy-rounds": "privacy_accuracy",
    "privacy-variances": "privacy_audit",
    "pss-rounds": "pss_rounds",
    "pss-sharing": "pss_sharing",
    "robust-training": "robust_training",
    "taylor-noise": "taylor_noise",
    "thesis-skew": "thesis_skew",
}
SENT = ("up_bytes", "down_bytes")


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a file of results."""
    with (output.RESULTS / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def compare(name: str, row: Mapping[str, str], found: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Assert that columns of a row of a file are what was found now."""
    now = {column: str(output.cell(found[column])) for column in columns}
    of_file = {column: row[column] for column in columns}
    assert of_file == now, f"{name}.csv is stale: run `python -m experiments.{MADE_BY[name]}`"


@pytest.mark.parametrize("name", MADE_BY)
def test_every_row_says_where_it_comes_from(name):
    for row in rows(name):
        assert all(row[column] for column in COLUMNS)
        assert row["command"].startswith(f"python -m experiments.{MADE_BY[name]}")
        assert "--quick" not in row["command"]
        assert row["build"].startswith("release")


@pytest.mark.parametrize("name", ["fssa", "fssa-secagg"])
def test_bytes_of_fssa_and_secagg(name):
    short = [row for row in rows(name) if int(row["parties"]) * int(row["dim"]) <= 200_000]
    assert len(short) >= 6
    for row in short[:: len(short) // 6]:
        case = Case(
            row["protocol"],
            int(row["parties"]),
            int(row["dim"]),
            float(row["corrupt"]),
            float(row["dropout"]),
            row.get("suite", "x25519"),
        )
        compare(name, row, cost(case, 1).row, SENT)


def test_bytes_of_rounds_of_pss():
    row = rows("pss-rounds")[0]
    result = bs.simulate(pss_rounds.spec(int(row["parties"]), int(row["inputs"])))
    found = {"up_bytes": result.up_bytes_per_party, "down_bytes": result.down_bytes_per_party}
    compare("pss-rounds", row, found, SENT)


@pytest.mark.parametrize(("protocol", "scheme"), [("plain", "plaintext"), ("flashe", "FLASHE")])
def test_bytes_of_flashe_and_of_vectors_in_the_clear(protocol, scheme):
    found = flashe_wan.simulated(protocol, MODELS[0].parameters, 1)
    (row,) = [r for r in rows("flashe-wan") if (r["model"], r["scheme"]) == (MODELS[0].name, scheme)]
    compare("flashe-wan", row, {name: getattr(found, name) for name in SENT}, SENT)


def test_bytes_and_rounds_of_three_servers():
    columns = [*SENT, "bits", "rounds", "virtual_s", "bound", "error", "between_bytes"]
    servers = ("coordinator", "second", "third")
    columns += [f"{name}_{what}_bytes" for name in servers for what in ("received", "sent")]
    for rule, delay in (("fedavg", 0), ("fedavg", 40), ("krum", 0)):
        for adversary in three_servers.ADVERSARIES:
            case = three_servers.Case(rule, adversary, 16, 1_000, float(delay))
            key = (rule, adversary, "16", "1000", str(delay))
            names = ("rule", "adversary", "parties", "dim", "delay_ms")
            (row,) = [r for r in rows("mpc-tables") if tuple(r[name] for name in names) == key]
            found = three_servers.simulated(case, 1)
            compare("mpc-tables", row, found.row, columns)


@pytest.mark.parametrize("protocol", mystiko_rounds.OTHERS)
def test_bytes_and_delays_of_mystikos_rounds(protocol):
    case = mystiko_rounds.Case(protocol, 3, 250_000)
    key = (protocol, "3", "250000")
    (row,) = [r for r in rows("mystiko") if (r["protocol"], r["parties"], r["dim"]) == key]
    compare(
        "mystiko", row, mystiko_rounds.simulated(case).row, ["source", "largest", "communication_s", "bytes"]
    )


@pytest.mark.parametrize("protocol", poisoning_runs.PROTOCOLS)
def test_bytes_of_poisoned_rounds(protocol):
    (row, *_) = [r for r in rows("poisoning") if (r["protocol"], r["attack"]) == (protocol, "none")]
    (found,) = poisoning_runs.train(poisoning_runs.Case(protocol, "none", float(row["max_norm"])), 0, 1)
    compare("poisoning", row, {"up_bytes": float(found.up_bytes)}, ["up_bytes"])


@pytest.mark.parametrize("protocol", ["secagg+", "mpc3"])
def test_accuracy_of_a_first_round(protocol):
    case = accuracy_runs.Case(accuracy_runs.OF_DIGITS, protocol, accuracy_runs.STOCHASTIC)
    key = (case.task.data, protocol, case.setting, "0", "1")
    names = ("data", "protocol", "setting", "seed", "round")
    (row,) = [r for r in rows("accuracy") if tuple(r[name] for name in names) == key]
    (found,) = accuracy_runs.train(case, 0, 1).rounds
    size = len(case.task.test)
    now = {"survivors": found.survivors, "accuracy": found.right / size, "max_error": case.spec.max_error}
    compare("accuracy", row, now, [*now])


@pytest.mark.parametrize("protocol", ["plain", "secagg+", "mpc3, active"])
def test_bytes_of_rounds_of_models(protocol):
    case = overhead_runs.Case(overhead_runs.LENET, protocol)
    (row,) = [r for r in rows("overhead") if (r["model"], r["protocol"]) == (case.model.name, protocol)]
    found = overhead_runs.cost(case, 1)
    compare("overhead", row, {name: getattr(found, name) for name in SENT}, SENT)


def test_tails_of_the_samplers():
    found = {
        (one.name, str(t)): exact
        for one in taylor_noise.all_tails(10)
        for t, exact in zip(taylor_noise.SIGMAS, one.exact, strict=True)
    }
    for row in rows("taylor-noise"):
        compare("taylor-noise", row, {"exact": found[row["sampler"], row["sigmas"]]}, ["exact"])
