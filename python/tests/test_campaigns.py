"""Campaigns of whole jobs, from Python and the command line."""

from __future__ import annotations

import json

import pytest

import blindsum as bs
from blindsum.cli import main

SPEC = bs.JobSpec(protocol="secagg+", parties=5, dim=10)


def test_a_campaign_counts_what_went_wrong() -> None:
    seen: list[int] = []
    tally = bs.campaign(SPEC, steps=5000, seed=1, progress=seen.append)
    assert tally.steps >= 5000
    assert tally.episodes > 2
    assert min(tally.rounds, tally.results, tally.kills, tally.cuts) > 0
    assert seen == sorted(seen)
    assert len(seen) == tally.episodes - 1
    assert tally == bs.campaign(SPEC, steps=5000, seed=1)


def test_kinds_are_chosen() -> None:
    calm = bs.campaign(SPEC, steps=1000, kinds=["calm"])
    assert (calm.kills, calm.cuts, calm.lies) == (0, 0, 0)
    with pytest.raises(bs.ConfigError, match="none of calm, storm"):
        bs.campaign(SPEC, kinds=["sunshine"])


def test_a_watcher_may_end_it() -> None:
    def stop(_steps: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        bs.campaign(SPEC, steps=10**9, progress=stop)


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "simulate",
        "--protocol",
        "fssa",
        "--parties",
        "5",
        "--dim",
        "3",
        "--faults",
        "3e3",
        "--seed",
        "7",
    ]
    assert main(command) == 0
    assert "every promise was kept" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] >= 3000
    for wrong in ["0", "0.5", "many"]:
        with pytest.raises(SystemExit):
            main([*command[:-4], "--faults", wrong])
        assert f"must be a whole number of 1 or more, as in 1e5, not '{wrong}'" in capsys.readouterr().err
