"""Rounds of proved vectors are compared with targets, with pss and with Prio3, and liars are counted."""

import json

import pytest

from benches import command as bench
from benches import kernels, pss_malicious, pss_malicious_page
from benches.kernels import ProofTime
from benches.rows import Row
from blindsum.cli import main
from blindsum.errors import BlindsumError

OURS = {"client": (4.0, 4_000_000), "deal": (1.8, 4_000_000), "hash": (2.2, 3200), "judge": (0.5, 0)}
PROOFS = [
    *[ProofTime("blindsum", 10_000, 16, work, *of) for work, of in OURS.items()],
    ProofTime("blindsum", 10_000, 16, "verify", 0.1, 36),
    ProofTime("prio, 128 bits", 10_000, 16, "client", 70.0, 2_600_000),
    ProofTime("prio, 128 bits", 10_000, 16, "verify", 80.0, 20_480),
]


def report(excluded=(), exact=True):
    named = [{"party": party, "test": "degree"} for party in excluded]
    return {"exact": exact, "fault": None, "excluded": named}


def test_rounds_are_compared_with_pss_and_with_rounds_with_liars():
    proved, multiple, beside_liars, by_norm = pss_malicious.targets("semi-honest", 20, 60, 2, times=1)
    assert proved.target == pss_malicious.MAX_SECONDS
    assert proved.measured > proved.peer > 0
    assert multiple.measured == pytest.approx(proved.measured / proved.peer)
    assert beside_liars.measured > 0
    assert by_norm.target == pss_malicious.MAX_SECONDS
    assert by_norm.measured > by_norm.peer
    assert "all 2 were found, and nobody honest was left out" in beside_liars.note


def test_the_same_parties_lie_in_whatever_way():
    assert pss_malicious.who_lies("semi-honest", 20, 2) == pss_malicious.who_lies("active", 20, 2)


def test_a_wrong_finding_is_no_measurement(monkeypatch):
    pss_malicious.check(report([3, 5]), {3, 5})
    with pytest.raises(ArithmeticError, match=r"liars \[5\] were not found, honest \[\] were left out"):
        pss_malicious.check(report([3]), {3, 5})
    with pytest.raises(ArithmeticError, match=r"liars \[\] were not found, honest \[7\] were left out"):
        pss_malicious.check(report([7]), set())
    with pytest.raises(ArithmeticError, match="a wrong sum"):
        pss_malicious.check(report(exact=False), set())
    monkeypatch.setattr(pss_malicious.simulated, "report", lambda *_: report([1]))
    with pytest.raises(ArithmeticError, match=r"2 liars were to be found, not \[1\]"):
        pss_malicious.who_lies("active", 20, 2)


def test_all_work_is_counted():
    assert pss_malicious.work({"client_ms": {"median": 20.0}, "server_ms": 500.0}, 100) == 2.5


def test_a_job_has_as_many_bits_as_it_takes_and_says_why_no_more():
    assert pss_malicious.most_bits(100, 100_000, 10.0) == (16, "")
    bits, refused = pss_malicious.most_bits(100, 1_000_000, 10.0)
    assert bits == 14
    assert "encoding.bits" in refused
    assert pss_malicious.most_bits(100, 1_000_000, 0.0) == (16, "")
    with pytest.raises(ArithmeticError, match="max_norm"):
        pss_malicious.most_bits(100, 10, -1.0)


def test_a_round_costs_what_its_columns_take():
    cost = pss_malicious.cost(20, 100, 0.0, 1)
    # l = 5 words in a row, 20 blocks of 17 rows, 6 bytes each, sealed for 19 others.
    columns = 19 * 6 * 17 * 20
    assert columns < cost.up_bytes < columns + 19 * 700
    assert (cost.bits, cost.refused) == (16, "")
    assert cost.cells[:4] == ["100", "16", "entries", "none"]


def test_where_the_norm_alone_is_bounded_long_vectors_take_a_seventh():
    def up(bound, dim):
        cost = pss_malicious.cost(20, dim, 1.0, 1, bound=bound)
        assert (cost.bits, cost.cells[2:4]) == (16, [bound, "1"])
        return cost.up_bytes

    assert up("l2", 10_000) < up("entries", 10_000) / 7
    # Projections take as many rows whatever the length is.
    assert up("l2", 100) > up("entries", 100)


def test_proofs_stand_beside_each_other():
    ours, prio = pss_malicious.proof_cells(PROOFS)
    assert ours[:2] == ["10,000", "blindsum"]
    # A hundred verifiers, and judging.
    assert ours[6:] == ["0.1 ms", "0.5 ms", "10.5 ms", "3.52 KiB"]
    assert prio == ["10,000", "prio, 128 bits", "70 ms", "", "", "2.48 MiB", "", "", "80 ms", "20 KiB"]
    assert len(ours) == len(pss_malicious.PROOF_HEADER)


@pytest.fixture
def measured(monkeypatch):
    cost = pss_malicious.Cost("active", 1000, 14, "entries", 10.0, 1.0, 2.0, 1000, 2000, 4000, "2 < 3")
    rows = [Row("work", "s", 20.0, 10.0, peer=1.0), Row("beside liars", "s", 3.0, None, note="why")]
    monkeypatch.setattr(kernels, "proofs", lambda: PROOFS)
    monkeypatch.setattr(pss_malicious, "targets", lambda *_, **__: rows)
    monkeypatch.setattr(pss_malicious, "cost", lambda *_, **__: cost)


@pytest.mark.usefixtures("measured")
def test_the_page_says_what_is_missed_and_why_bits_are_few(tmp_path, capsys):
    page = tmp_path / "page.md"
    assert main(["bench", "pss-malicious", "--markdown", str(page)]) == 0
    assert "D = 1,000 with 14 bits, since with more: 2 < 3" in capsys.readouterr().out
    text = page.read_text()
    assert "| work | ≤ 10 s | 20 s | 0.5 (missed) | 1 s |" in text
    assert "Missed: work, work." in text
    assert "* beside liars: why." in text
    assert "| 1,000 | 14 | entries | 10 |" in text
    assert main(["bench", "pss-malicious", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["costs"]) == 3 * len(pss_malicious.COST_DIMS)
    assert found["rows"][0]["ratio"] == 0.5
    assert found["proofs"][0]["scheme"] == "blindsum"


@pytest.mark.usefixtures("measured")
def test_without_cargo_the_page_says_so(monkeypatch):
    monkeypatch.setattr(kernels, "available", lambda: False)
    found = pss_malicious.Measured()
    for _name, work in pss_malicious.steps(found):
        work(lambda _text: None)
    assert f"proofs were not measured: {kernels.NEEDS}" in pss_malicious_page.markdown(found, "a machine")


@pytest.mark.timeout(3600)  # cargo may have to compile the whole workspace first
def test_the_bench_of_proofs_is_read():
    if not kernels.available():
        with pytest.raises(BlindsumError, match="needs cargo"):
            kernels.proofs(quick=True)
        return
    found = kernels.proofs(quick=True)
    schemes = {one.scheme for one in found}
    assert schemes == {pss_malicious.OURS, "prio, 128 bits", "prio, 3 × 64 bits"}
    assert {one.work for one in found if one.scheme == pss_malicious.OURS} == {*OURS, "verify"}
    assert {one.dim for one in found} == {1000}
    assert all(one.ms > 0 for one in found)
    pss_malicious.proof_cells(found)


def test_the_command_is_there():
    assert "bench pss-malicious" in bench.EXAMPLES
