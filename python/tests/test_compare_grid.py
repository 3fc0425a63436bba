"""The grid of a comparison: its runs, and what is refused before any."""

import pytest

import blindsum as bs
from blindsum.comparison.grid import Grid

SMALL = {"protocol": "plain", "parties": [3, 4], "dim": 10}


def test_every_combination_has_its_run_with_its_seed():
    grid = Grid.of(protocol=["plain", "secagg"], parties=[3, 4], dim=5, drop=(0, 0.1), repeat=2, seed=9)
    cells = list(grid.cells())
    assert len(cells) == len(grid) == 16
    assert [cell.run for cell in cells] == list(range(1, 17))
    assert {(cell.repeat, cell.seed) for cell in cells} == {(1, 9), (2, 10)}
    keys = [(cell.protocol, cell.parties, cell.drop, cell.repeat) for cell in cells]
    assert keys == sorted(keys)
    assert len(set(keys)) == 16
    assert grid.varying() == ["protocol", "parties", "drop"]


def test_the_job_of_a_cell_has_what_the_grid_says():
    grid = Grid.of(
        protocol=bs.SecAggPlus(neighbours=18),
        parties=20,
        dim=5,
        bits=12,
        settings={"adversary": "semi-honest", "dropout": 0.25},
    )
    (cell,) = grid.cells()
    assert cell.protocol == "secagg+:neighbours=18"
    spec = bs.JobSpec.from_settings(grid.job_settings(cell))
    assert spec == bs.JobSpec(
        protocol=bs.SecAggPlus(neighbours=18),
        parties=20,
        dim=5,
        adversary="semi-honest",
        dropout=0.25,
        encoding=bs.Quantised(bits=12),
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"protocol": "secag"}, "protocol: 'secag' must be one of plain, secagg"),
        ({"protocol": []}, "protocol: must have at least one value"),
        ({"protocol": 3}, "protocol: 3 must be the name of a protocol"),
        (
            {"protocol": "secagg+:neighbors=3"},
            "protocol: 'secagg+:neighbors=3' must be NAME or NAME:OPTION=VALUE",
        ),
        (
            {"protocol": "secagg+:neighbours"},
            "protocol: 'secagg+:neighbours' must be NAME or NAME:OPTION=VALUE",
        ),
        ({"parties": [3, 3]}, "parties: 3 is there twice: give each value once"),
        ({"parties": 0}, "parties: 0 must be a whole number from 1 to"),
        ({"dim": 1e3}, "dim: 1000.0 must be a whole number from 1 to"),
        ({"dim": None}, "dim: None must be a whole number"),
        ({"drop": [0, 1.5]}, "drop: 1.5 must be a number from 0 to 1"),
        ({"bits": "8"}, "bits: '8' must be a whole number"),
        ({"latency": -1}, "latency: -1 must be a number from 0 to"),
        ({"repeat": 0}, "repeat: 0 must be a whole number from 1 to 10000"),
        ({"repeat": 2, "seed": 2**64 - 1}, "seed: 18446744073709551615 must be a whole number from 0 to"),
        ({"settings": {"corupt": 0.1}}, "settings.corupt: is no option of a job or of what it chooses"),
        ({"settings": {"bits": 8}}, "settings.bits: is an axis of the grid"),
        ({"settings": {"corrupt": object()}}, "settings.corrupt: <object"),
        ({"parties": range(1, 400), "dim": range(1, 400)}, "grid: 159201 runs, at most 100000"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_runs(changes, text, tmp_path):
    with pytest.raises(bs.ConfigError) as caught:
        bs.sweep(**SMALL | changes, out=tmp_path / "new")
    assert str(caught.value).startswith(text)
    assert not list(tmp_path.iterdir())
