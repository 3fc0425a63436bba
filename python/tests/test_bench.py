"""Measurements measure something, and tables say what was missed."""

import json

import pytest

from blindsum import _native
from blindsum.bench import rows, secagg
from blindsum.bench.rows import Row
from blindsum.cli import bench, main


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
    backend, rate = _native.mask_rate(1 << 14, 2, 0.01)
    assert backend in ("vaes512", "portable")
    assert rate > 0


def test_round_trips_are_counted():
    assert [row.measured for row in secagg._round_trips()] == [4, 5]


def test_the_python_package_is_measured():
    measured = {row.work: row.measured for row in secagg._python()}
    assert measured["Python call with an array, GIL released"] > 0
    assert measured["import blindsum"] < measured["import blindsum, first use with numpy"]


def test_the_page_names_machine_and_peer():
    page = bench._markdown([Row("work", "ms", 1, 2, note="why")], {"machine": rows.machine(), "peer": None})
    assert rows.machine() in page
    assert "| work | ≤ 2 ms | 1 ms | 2 |  |" in page
    assert "* work: why." in page


@pytest.mark.parametrize("protocol", ["plain", "secagg+"])
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
