"""Every experiment runs, in its quick mode, and writes what its page names."""

import csv
import importlib
import re

import pytest

from experiments import fssa_secagg
from experiments.measure import Case, Cost

WRITTEN = {
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
