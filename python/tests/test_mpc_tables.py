"""The tables of three servers: what is run, what its numbers mean, and what the page says of them."""

import dataclasses

import pytest

from experiments import mpc_page, mpc_plan, thesis
from experiments.mpc_page import Found
from experiments.mpc_plan import QUICK
from experiments.three_servers import ADVERSARIES, RULES, Case, Cost, simulated

COST = Cost(
    case=Case("fedavg", "active", parties=5, dim=900),
    runs=3,
    upload_ms=2.0,
    result_ms=1.0,
    take_ms=10.0,
    open_ms=20.0,
    slowest_ms=30.0,
    servers_ms=70.0,
    up_bytes=6_000,
    down_bytes=2_500,
    received_bytes=(20_000, 21_000, 20_000),
    sent_bytes=(15_500, 3_500, 2_000),
    rounds=3,
    virtual_s=0.0,
    bound=None,
    error=1e-6,
    peak_bytes=0,
)


def found(*costs, left_out=None):
    return Found(QUICK, {cost.case: cost for cost in costs}, left_out or {}, {900: 1.0})


def test_path_is_one_after_the_other_and_all_is_everybody():
    assert COST.path_ms == 2 + 30 + 1
    assert COST.all_ms == 5 * (2 + 1) + 70


def test_what_servers_tell_parties_does_not_count_as_sent_to_the_others():
    # The coordinator: 15,500 - 5 · 2,500 = 3,000.
    assert COST.between_bytes == 3_500
    assert dataclasses.replace(COST, sent_bytes=(16_500, 3_500, 2_000)).between_bytes == 4_000


def test_a_simulated_round_has_the_stages_that_the_page_explains():
    cost = simulated(Case("fltrust", "active", parties=5, dim=50), runs=2)
    # The report counts whole parties and servers; medians of stages add up to little more or less.
    assert cost.upload_ms > 0
    assert cost.result_ms > 0
    assert cost.slowest_ms <= cost.servers_ms <= 3 * cost.slowest_ms
    # With two runs the median is the mean, so that stages add up.
    assert cost.take_ms + cost.open_ms <= cost.slowest_ms * (1 + 1e-9)
    assert 0 < cost.error <= cost.bound


def test_virtual_time_is_delays_alone_whatever_the_length():
    times = {
        (delay, dim): simulated(Case("fltrust", "semi-honest", 5, dim, delay), runs=1).virtual_s
        for delay in (0.0, 10.0, 100.0)
        for dim in (20, 200)
    }
    assert times[0.0, 20] == times[0.0, 200] == 0
    assert times[10.0, 20] == times[10.0, 200]
    assert times[100.0, 20] == pytest.approx(10 * times[10.0, 20])


def test_values_have_as_many_bits_as_the_rule_takes():
    assert Case("fedavg", "active", 16, 10**6).bits == 16
    # 2^14 · 1,000 = 1.64e7 is below 2^24, and twice that is above.
    assert Case("fltrust", "active", 16, 10**6).bits == 14
    # The sums of squares that Krum ranks must fit into 62 bits.
    assert Case("krum", "active", 16, 10**5).bits == 14


def test_what_is_refused_or_too_large_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr(mpc_plan, "available", lambda: mpc_plan.RESERVE + 2**30)
    refused = Case("krum", "active", 64, 100)
    large = Case("fltrust", "active", 16, 10**6)
    small = Case("fltrust", "active", 16, 10**3)
    reasons = {case: mpc_plan.hindrance(case) for case in (refused, large, small)}
    assert reasons.pop(small) is None
    assert "n <= 48" in reasons[refused]
    assert "needs about 1 GiB, and 6 more for other programs; 7 were free" in reasons[large]
    said = found(left_out=reasons).missing([refused, large, small])
    assert said.count("\n* ") == 2
    assert "* fltrust, active, n = 16, D = 1,000,000: needs about 1 GiB" in said


def test_a_missed_target_is_called_missed():
    slow = dataclasses.replace(COST, slowest_ms=4_000.0, servers_ms=9_000.0)
    lines = mpc_page.targets(found(slow)).splitlines()
    rows = [line for line in lines if line.startswith("| fedavg, active, D = 900")]
    assert [line.endswith("(missed) |") for line in rows] == [False, True, False, False]
    assert rows[0].startswith("| fedavg, active, D = 900: path | ≤ 4.5 s | 4 s |")
    said = mpc_page.targets(found(slow)).partition("Missed:")[2]
    assert "* fedavg, active, D = 900: all work: 9.02 s" in said
    assert "path" not in said
    assert "a server sends the others | ≤ 250 MB | 0.0035 MB" in rows[-1]
    # What was not run is neither met nor missed.
    assert "fltrust, active, D = 400: path | ≤ 0.9 s | not measured |  |" in mpc_page.targets(found(slow))


def test_the_thesis_is_beside_what_was_measured():
    page = mpc_page.against_thesis(found(COST))
    # 338.662 s against (5 · 3 + 70) ms.
    assert "| end to end; here all work | 5.2, 5.3 | 13.7 | – | – | 339 | 0.085 | 3984 |" in page


def test_figures_of_the_thesis_agree_with_each_other():
    # Tables 5.2 and 5.3 print how many times faster than 41166.890 and 46805.728 s that is.
    assert round(41166.890 / thesis.PHASES["semi-honest"].whole) == 3005
    assert round(46805.728 / thesis.PHASES["active"].whole) == 138
    for phases in thesis.PHASES.values():
        parts = (*(phases.masks, phases.convert, phases.pack, phases.servers), phases.receive, phases.other)
        assert sum(parts) + phases.convert_back < phases.whole
    # Table 4.2 and the text below it: 16 clients of VGG-11.
    assert thesis.CLIENTS * thesis.MODELS[thesis.BASELINE] == 147_697_824


def test_every_rule_is_run_at_both_lengths_against_both_adversaries():
    cases = mpc_plan.rules(QUICK)
    assert {(case.rule, case.adversary, case.dim) for case in cases} == {
        (rule, adversary, dim) for rule in RULES for adversary in ADVERSARIES for dim in (20, 200)
    }
