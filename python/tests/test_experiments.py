"""Every experiment runs, in its quick mode, and writes what its page names."""

import csv
import importlib
import re

import pytest

from benches.he.measure import HeCost
from experiments import flashe_wan, fssa_secagg, wan
from experiments.measure import Case, Cost

WRITTEN = {
    "flashe_wan": ["flashe-wan.md", "flashe-wan.csv", "flashe-wan.svg", "flashe-he.csv"],
    "fssa": ["fssa.md", "fssa.csv", *[f"fssa-case-{number}.svg" for number in (1, 2, 3, 4)]],
    "fssa_secagg": ["fssa-secagg.md", "fssa-secagg.csv", "fssa-secagg.svg"],
    "pss_rounds": ["pss-rounds.md", "pss-rounds.csv"],
    "pss_sharing": ["pss-sharing.md", "pss-sharing.csv", "pss-sharing.svg"],
}


@pytest.mark.parametrize("name", WRITTEN)
def test_quick_mode_writes_its_results(name, tmp_path):
    importlib.import_module(f"experiments.{name}").main(["--quick", "--out", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(WRITTEN[name])
    page = (tmp_path / WRITTEN[name][0]).read_text()
    assert f"`python -m experiments.{name}`" in page
    for picture in re.findall(r"!\[.*\]\((.*)\)", page):
        assert "<svg" in (tmp_path / picture).read_text()
    with (tmp_path / WRITTEN[name][1]).open() as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert all(value != "" for row in rows for value in row.values())


def test_the_crossover_is_read_off_the_grid():
    def cost(protocol, dim, client_ms):
        return Cost(Case(protocol, 10, dim, 0.1, 0.1), client_ms, 5.0, 100, 100)

    found = [cost("fssa", 1, 1.0), cost("secagg", 1, 2.0), cost("secagg+", 1, 2.0)]
    found += [cost("fssa", 9, 3.0), cost("secagg", 9, 2.0), cost("secagg+", 9, 4.0)]
    said = fssa_secagg.winners(fssa_secagg.grid(found))
    assert "* one party, against `secagg`: n = 10: D ≤ 1.\n" in said
    assert "* one party, against `secagg+`: everywhere on this grid.\n" in said
    assert "* server, against `secagg`: nowhere on this grid.\n" in said
    # Nine stay: 9 · 1.0 + 5.0.
    assert found[0].total_ms == 14.0


def test_the_prices_make_the_papers_dollars_of_its_hours_and_bytes():
    lines = [line for model in wan.MODELS for line in model.printed]
    assert len(lines) == 15
    for line in lines:
        # Hours are printed with two digits, at 9.17 dollars each.
        assert wan.dollars(line.hours, line.gigabytes) == pytest.approx(line.dollars, abs=0.05)


def test_the_links_are_as_the_papers_text_has_them():
    remote = [wan.mbit(region) for region in wan.REMOTE]
    assert min(remote) == 40
    assert wan.LOCAL_MBIT / (sum(remote) / len(remote)) == pytest.approx(120, rel=0.02)


def test_an_iteration_waits_for_the_slowest_client():
    aggregation = wan.Round(encrypt_s=1.0, add_s=2.0, decrypt_s=4.0, up_bytes=5e6, down_bytes=10e6)
    sydney = wan.REGIONS[-1]
    assert wan.message_s(sydney, 5e6) == pytest.approx(0.0975 + 1.0)
    assert wan.iteration_s(aggregation, 8.0) == pytest.approx(15.0 + 1.0975 + 2.0975)


def test_another_scheme_has_its_ciphertexts_in_place_of_the_words():
    plain = wan.Round(encrypt_s=0.5, add_s=0.25, decrypt_s=0.125, up_bytes=2534, down_bytes=2536)
    cost = HeCost("other", 2000, 2000, 64_000, encrypt_s=32.0, decrypt_s=16.0, add_s=8.0)
    other = flashe_wan.replaced(plain, cost, 1000)
    assert (other.up_bytes, other.down_bytes) == (32_034, 32_036)
    # Half as many numbers, on sixteen cores.
    assert (other.encrypt_s, other.add_s, other.decrypt_s) == (1.5, 0.5, 0.625)
