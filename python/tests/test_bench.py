"""Measurements measure something, and tables say what was missed."""

import json
import os
import subprocess
from argparse import Namespace

import pytest

from benches import command as bench
from benches import kernels, load, provenance, pss, secagg
from benches.provenance import Run
from benches.rows import Row
from blindsum import _native, origin
from blindsum.cli import main
from blindsum.spec import JobSpec


def test_ratios_are_above_one_where_the_target_is_met():
    assert Row("a", "ms", 5.0, 10.0).ratio == 2.0
    assert Row("a", "", 5.0, 10.0, better="more").ratio == 0.5
    assert Row("a", "ms", None, 10.0).ratio is None
    assert Row("a", "ms", 5.0, None).ratio is None


def test_a_missed_target_is_said_so():
    assert Row("a", "ms", 20.0, 10.0, peer=1234.5).cells == [
        "a",
        "≤ 10 ms",
        "20 ms",
        "0.5 (missed)",
        "1234 ms",
    ]
    assert Row("a", "MB", None, 15).cells == ["a", "≤ 15 MB", "not measured", "", ""]


def test_masks_are_measured():
    backend, rate, limit = _native.mask_rate(1 << 14, 2, 0.05)
    assert backend in ("vaes512", "portable")
    assert rate > 0
    assert (limit is None) == (backend == "portable")
    assert limit is None or limit > rate / 2


def test_rates_are_compared_with_the_aes_unit_of_the_same_run():
    kernel, whole = secagg.mask_rows(("vaes512", 15.0, 20.0), client_ms=8.0, client_bytes=80_000_000)
    assert (kernel.measured, whole.measured) == (0.75, 0.5)
    assert "20.0 GB/s" in kernel.note
    kernel, whole = secagg.mask_rows(("portable", 6.0, None), client_ms=8.0, client_bytes=80_000_000)
    assert (kernel.measured, whole.measured) == (None, None)
    assert "6.0 GB/s" in kernel.note


def test_round_trips_are_counted():
    assert [row.measured for row in secagg._round_trips()] == [4, 5]


def test_the_python_package_is_measured():
    measured = {row.work: row.measured for row in secagg._python()}
    assert measured["Python call with an array, GIL released"] > 0
    assert measured["import blindsum"] < measured["import blindsum, first use with numpy"]


def test_the_page_names_machine_and_peer():
    facts = bench._facts(bench._begin(Namespace(scale=True, markdown="page.md"), "secagg"))
    page = bench._markdown([Row("work", "ms", 1, 2, note="why")], {**facts, "peer": None})
    assert f"* Machine: {origin.machine()}" in page
    assert f"* Code: commit {provenance.commit()}, version " in page
    assert facts["origin"]["command"] == "blindsum bench secagg --scale --markdown page.md"
    assert "| work | ≤ 2 ms | 1 ms | 2 |  |" in page
    assert "* work: why." in page


@pytest.mark.timeout(3600)  # cargo may have to compile the whole workspace first
def test_a_bench_of_the_checkout_is_built_and_read():
    timings = kernels.sharing(quick=True)
    works = {(one.work, one.backend) for one in timings}
    assert {("radix-2", "thesis"), ("radix-3", "thesis"), ("transforms", "tfhe-ntt")} <= works
    assert {one.shares for one in timings} == {729}
    assert all(one.ms > 0 for one in timings)


def test_rows_of_the_sharing_have_the_peer_beside_them():
    made = {("share", "ifma"): 0.8, ("transforms", "ifma"): 0.5, ("transforms", "tfhe-ntt"): 2.0}
    timings = [kernels.Timing(80_000, 50, 1600, 64, 729, *key, ms) for key, ms in made.items()]
    whole, transforms, *missing = pss.sharing_rows("share", timings)
    assert (whole.measured, whole.target, whole.ratio) == (0.8, 1.0, 1.25)
    assert (transforms.measured, transforms.peer) == (0.5, 2.0)
    assert [row.measured for row in missing] == [None] * 4


def test_without_cargo_its_rows_say_so(monkeypatch):
    monkeypatch.setattr(kernels.shutil, "which", lambda _name: None)
    (row,) = pss._sharing()
    assert row.measured is None
    assert "cargo" in row.note


def test_a_simulated_round_is_timed_and_costs_are_counted():
    assert pss.wall(JobSpec(protocol="pss", parties=5, dim=40), 1, 1) > 0
    cost = pss.cost("fssa", "semi-honest", 10, 100, 1)
    # 13 blocks of 8 words, 4 bytes each, sealed for 9 others.
    assert 9 * (4 * 13 + 16) < cost.up_bytes < 9 * (4 * 13 + 16) + 300
    found = pss.Measured([Row("work", "ms", 1, 2, note="why")], [cost])
    page = bench._pss_markdown(found, {"origin": Run.begin(["blindsum"]).row})
    assert "| work | ≤ 2 ms | 1 ms | 2 |  |" in page
    assert "| `fssa`, semi-honest | 100 |" in page


@pytest.mark.parametrize("protocol", ["plain", "secagg+", "flashe", "mpc3"])
def test_rounds_are_compared_with_plain(capsys, protocol):
    words = ["--protocol", protocol, "--parties", "3", "--dim", "1000", "--rounds", "2", "--json"]
    assert main(["bench", "round", *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["plain"]["protocol"] == "plain"
    assert report["measured"]["protocol"] == protocol
    assert report["measured"]["rounds"] == 2
    # A vector of 1,000 values of 16 to 18 bits, and what surrounds it.
    assert 2000 < report["plain"]["up_bytes"] < 5000
    assert report["ratio"]["up_bytes"] == pytest.approx(
        report["measured"]["up_bytes"] / report["plain"]["up_bytes"]
    )
    # Beside each the same bytes over TLS alone.
    raw = {name: report[name]["raw"] for name in ("plain", "measured")}
    assert all(0 < cost["fastest"] <= cost["seconds"] for cost in raw.values())
    assert report["ratio_to_raw_tls"] == {
        "plain": pytest.approx(report["plain"]["fastest"] / raw["plain"]["fastest"]),
        protocol: pytest.approx(report["measured"]["fastest"] / raw["measured"]["fastest"]),
    }


def test_the_table_of_rounds_has_raw_tls_beside_them(capsys):
    assert (
        main(["bench", "round", "--protocol", "plain", "--parties", "3", "--dim", "10", "--rounds", "1"]) == 0
    )
    said = capsys.readouterr().out
    assert "raw TLS" in said
    assert "fastest ÷ raw" in said
    assert "most memory of a process, plain: coordinator " in said


SERVERS = ["coordinator", "second", "third"]


@pytest.mark.parametrize(("protocol", "servers"), [("plain", SERVERS[:1]), ("mpc3", SERVERS)])
def test_rounds_say_how_much_memory_servers_took(capsys, protocol, servers):
    words = ["--protocol", protocol, "--parties", "3", "--dim", "1000", "--rounds", "1", "--json"]
    assert main(["bench", "round", *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report["plain"]["most_bytes"]) == SERVERS[:1]
    assert list(report["measured"]["most_bytes"]) == servers
    # A process of Python takes more than 4 MiB, and these are small jobs.
    assert all(4 << 20 < most < 1 << 30 for most in report["measured"]["most_bytes"].values())


def test_rounds_whose_results_servers_alone_learn_are_measured(capsys):
    words = ["--protocol", "mpc3", "--result", "servers", "--parties", "3", "--dim", "100", "--rounds", "1"]
    assert main(["bench", "round", *words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["measured"]["protocol"], report["measured"]["rounds"]) == ("mpc3", 1)
    assert 0 < report["measured"]["down_bytes"] < report["plain"]["down_bytes"]


def test_a_process_that_has_ended_has_no_memory():
    assert load.memory(os.getpid(), "VmHWM") >= load.memory(os.getpid(), "VmRSS") > 0
    process = subprocess.Popen(["true"])
    # Until somebody waits for it, it has an account without memory.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert load.memory(process.pid, "VmHWM") is None
    process.wait()
    assert load.memory(process.pid, "VmHWM") is None


def test_many_parties_cost_a_coordinator_memory(capsys):
    words = ["bench", "load", "--protocol", "plain", "--parties", "20", "--dim", "100"]
    assert main([*words, "--rounds", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["protocol"], report["parties"], len(report["rounds"])) == ("plain", 20, 2)
    assert 0 < report["before_bytes"] < report["idle_bytes"] <= report["most_bytes"]
    assert report["connection_bytes"] == (report["idle_bytes"] - report["before_bytes"]) / 20
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "an idle connection" in said
    assert "round 1" not in said


def test_a_round_goes_over_a_link(capsys):
    words = ["bench", "link", "--protocol", "plain", "--parties", "3", "--dim", "1000", "--round-trip", "100"]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert 2000 < report["up_bytes"] < 5000
    assert report["least"] == pytest.approx(8 * report["up_bytes"] / 40e6 + 0.1)
    assert report["round_trip"] == 0.1
    # Nothing comes earlier than a round trip later. On a busy machine the clock of the stage starts a little
    # after its beginning is sent.
    assert report["seconds"] > 0.05
    assert main(words) == 0
    assert "of the link's time" in capsys.readouterr().out
    assert main([*words, "--megabits", "0"]) == 2
    assert "--megabits" in capsys.readouterr().err


def test_no_round_is_fewer_than_none(capsys):
    assert main(["bench", "load", "--parties", "3", "--dim", "9", "--rounds", "-1"]) == 2
    assert "--rounds" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--protocol", "fssa", "--packing", "2"],
        ["--protocol", "flashe", "--density", "0.1", "--masking", "single", "--clipping", "aciq"],
    ],
)
def test_options_of_a_protocol_are_left_out_of_plain(capsys, words):
    size = ["--parties", "5", "--dim", "1000", "--rounds", "1", "--json"]
    assert main(["bench", "round", *words, *size]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["plain"]["protocol"], report["measured"]["protocol"]) == ("plain", words[1])
