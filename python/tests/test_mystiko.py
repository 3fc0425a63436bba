"""Rounds of Paillier beside the paper's: how their time is composed, and what the page says of them."""

import csv
import dataclasses

import pytest

from experiments import mystiko, mystiko_far, mystiko_page, mystiko_rounds
from experiments.mystiko_page import Found
from experiments.mystiko_rounds import LATENCY, PAILLIER, PROTOCOLS, QUICK, RATE, Case, Round, Step

MODEL = "VGG-16"


def a_round(protocol="paillier-ring", dim=1000, work=2.0, up=1e6):
    steps = (Step("hop", work, up, up / 2, up / 4), Step("result", 0.5, 0.0, up, up))
    return Round(Case(protocol, 4, dim), steps, 1.0, work, 9.0, 3e6, 0.0, delays_s=0.25)


def test_work_is_in_sequence_and_synchronisation_is_work_and_communication():
    one = a_round()
    assert one.work_s == 2.0 + 0.5 + 1.0
    assert one.communication_s == pytest.approx(0.25 + 2.5e6 / RATE)
    assert one.direct_s == pytest.approx(0.125 + 1.25e6 / RATE)
    assert one.synchronisation_s == one.work_s + one.communication_s
    assert a_round("secagg+").direct_s is None


def test_a_longer_round_follows_from_what_each_further_coordinate_costs():
    far = mystiko_rounds.extrapolated(a_round(), a_round(dim=3000, work=6.0, up=2e6), 10_000)
    assert far.case.dim == 10_000
    assert far.extrapolated
    assert far.steps[0].party_s == pytest.approx(2.0 + 4.5 * 4.0)
    assert far.steps[1].up == 0
    # What did not grow stays.
    assert (far.steps[1].party_s, far.servers_s, far.delays_s) == (0.5, 1.0, 0.25)
    shrinking = mystiko_rounds.extrapolated(a_round(work=2.0), a_round(dim=3000, work=1.9), 10_000)
    assert shrinking.steps[0].party_s == 2.0


def test_bytes_and_delays_of_the_three_ways():
    ring, broadcast, reduced = (mystiko_rounds.simulated(Case(name, 4, 400)) for name in PAILLIER)
    vector = ring.steps[2].up
    # keys, open; a hop of each party; decrypt, result.
    assert [step.name for step in ring.steps[2:6]] == ["hop"] * 4
    assert [step.up for step in ring.steps[2:6]] == [vector] * 4
    assert [step.down for step in ring.steps[3:6]] == [vector] * 3
    assert all(step.party_s > 0 for step in ring.steps[2:6])
    # Everybody's vector to all others, through the coordinator: P up, P (P - 1) down.
    assert broadcast.steps[2].up > 4 * vector
    assert broadcast.steps[3].down > 4 * 3 * vector
    assert broadcast.steps[2].direct == pytest.approx(broadcast.steps[2].up * 3 / 4)
    # All parts of the vector at once, of which a link between two parties has one.
    assert reduced.steps[2].direct == pytest.approx(reduced.steps[2].up / 4)
    assert ring.delays_s == reduced.delays_s == pytest.approx(14 * LATENCY)
    assert broadcast.delays_s == pytest.approx(10 * LATENCY)


def test_making_the_key_is_not_in_a_round():
    one = mystiko_rounds.simulated(Case("paillier-ring", 3, 10))
    # One ciphertext is decrypted, which takes less than any key.
    assert one.servers_s < 0.1


def test_tables_of_the_paper_are_as_printed_and_do_not_agree():
    table = mystiko_page.TABLE_2
    assert table["VGG-16"]["ring"] / table["VGG-16"]["allreduce"] == pytest.approx(2.28, abs=0.01)
    assert table["5-layer CNN"]["ring"] / table["5-layer CNN"]["allreduce"] == pytest.approx(6.07, abs=0.01)
    assert mystiko_page.TABLE_1["synchronisation", 40]["ring"] == "15–59 %"
    # SPDZ and broadcast do agree.
    ratios = [row["SPDZ"] / row["allreduce"] for row in table.values()]
    assert (min(ratios), max(ratios)) == (pytest.approx(1.27, abs=0.01), pytest.approx(1.96, abs=0.01))
    assert set(mystiko_rounds.FULL.models) < set(table)


def test_what_was_not_run_is_marked():
    rounds = {
        (name, parties, model): a_round(name, dim)
        for name in PROTOCOLS
        for parties in QUICK.parties
        for model, dim in QUICK.models.items()
    }
    far = mystiko_rounds.extrapolated(a_round(), a_round(dim=3000, work=6.0), 20_000)
    rounds["paillier-ring", 4, MODEL] = far
    found = Found(QUICK, rounds, [])
    for part in (mystiko_page.synchronisation, mystiko_page.prices):
        lines = [line for line in part(found).splitlines() if "*" in line and line.startswith("|")]
        assert len(lines) == 1
        assert "paillier-ring" in lines[0]
    assert far.row["source"] == "extrapolated"
    assert "Not run." in mystiko_page.checks(found)


def test_controls_say_by_how_much_extrapolations_are_too_low():
    """A protocol whose control took longer has lower bounds where it was extrapolated; bytes are exact."""
    far = dataclasses.replace(a_round("secagg+", 20_000), extrapolated=True)
    near = dataclasses.replace(a_round("flashe", 20_000), extrapolated=True)
    rounds = {("secagg+", 4, MODEL): far, ("flashe", 4, MODEL): near, ("plain", 4, MODEL): a_round("plain")}
    late = (far, a_round("secagg+", 20_000, work=9.0))
    right = (near, a_round("flashe", 20_000, work=2.0))
    found = Found(QUICK, rounds, [], [late, right])
    assert found.error("secagg+") == pytest.approx(10.5 / 3.5)
    assert found.error("flashe") == 1
    assert found.error("mpc3") is None
    assert found.shown(2.0, far) == "≥ 2*"
    assert found.shown(2.0, far, is_work=False) == "2*"
    assert found.shown(2.0, near) == "2*"
    assert found.shown(2.0, a_round()) == "2"
    said = mystiko_far.section(found)
    assert "2 of the 2 rounds of VGG-16" in said
    assert "| secagg+ | 4 | 20,000 | 3.5 | 10.5 | 3.00 |" in said
    assert "Controls of secagg+ took more than 5% longer" in said


def test_others_are_extrapolated_from_lengths_beyond_the_caches():
    for name in mystiko_rounds.OTHERS:
        for parties in mystiko_rounds.FULL.parties:
            short, long = mystiko_rounds.FULL.base(name, parties, 138_000_000)
            assert (short.dim, long.dim) == (5_500_000, 11_000_000)
    ring = mystiko_rounds.FULL.base("paillier-ring", 3, 138_000_000)
    assert [case.dim for case in ring] == [25_000, 250_000]
    assert {case.protocol for case in mystiko_rounds.FULL.controls} == set(PROTOCOLS)


def test_a_round_with_a_message_that_no_party_takes_is_not_possible():
    far = Case("paillier-broadcast", 40, 138_000_000)
    assert (far.largest, far.is_possible) == (30_391_577_800, False)
    assert Case("paillier-broadcast", 40, 11_000_000).is_possible
    models = {MODEL: 138_000_000}
    sizes = dataclasses.replace(mystiko_rounds.FULL, models=models)
    assert mystiko_rounds.measure(sizes, "paillier-broadcast", 40) == [None]
    found = Found(QUICK, {}, [], [], {("paillier-broadcast", 4, MODEL): far})
    for part in (mystiko_page.synchronisation, mystiko_page.scaling):
        assert mystiko_page.NOT_POSSIBLE in part(found)
    assert "| paillier-broadcast | 40 | 138,000,000 | 30.4 |" in mystiko_far.section(found)
    row = mystiko_rounds.impossible(far, a_round())
    assert (row["source"], row["work_s"], row["largest"]) == ("not possible", "-", 30_391_577_800)
    assert list(row) == list(a_round().row)


def test_every_protocol_has_a_row_without_a_formula(monkeypatch, tmp_path):
    sizes = dataclasses.replace(QUICK, parties=(4,))
    monkeypatch.setattr(mystiko, "QUICK", sizes)
    mystiko.main(["--quick", "--out", str(tmp_path)])
    with (tmp_path / "mystiko.csv").open() as file:
        rows = list(csv.DictReader(file))
    there = {(row["protocol"], int(row["parties"]), int(row["dim"])) for row in rows}
    assert there == {
        (name, parties, dim)
        for name in PROTOCOLS
        for parties in sizes.parties
        for dim in sizes.models.values()
    }
    for row in rows:
        is_run = QUICK.is_run(Case(row["protocol"], int(row["parties"]), int(row["dim"])))
        assert row["source"] == ("simulated" if is_run else "extrapolated")
        total = float(row["work_s"]) + float(row["communication_s"])
        assert float(row["synchronisation_s"]) == pytest.approx(total, rel=1e-3)
        # A number, and no formula a spreadsheet would compute.
        assert not any(value.startswith(("=", "+", "@")) for value in row.values())
