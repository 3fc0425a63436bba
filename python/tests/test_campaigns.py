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


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": True}, "steps"),
        ({"steps": 1e30}, "steps"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64 - 1}, "seed"),
        ({"kinds": "storm"}, "kinds"),
        ({"kinds": ["sunny"]}, "kinds"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], names: str) -> None:
    spec = bs.JobSpec(protocol="plain", parties=5, dim=10)
    with pytest.raises(bs.ConfigError, match=names):
        bs.campaign(spec, **{"steps": 10, **arguments})  # type: ignore[arg-type]


def test_what_is_no_job_is_refused() -> None:
    with pytest.raises(bs.ConfigError, match=r"blindsum\.JobSpec"):
        bs.campaign({"protocol": "plain"}, steps=10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "flag",
    [["--rounds", "5"], ["--drop", "0.5"], ["--drop-at", "input:1"], ["--threads", "2"], ["--latency", "1"]],
)
def test_flags_that_a_campaign_has_no_use_for_are_refused(
    flag: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--protocol", "plain", "--parties", "5", "--dim", "10", "--faults", "10", *flag]
    assert main(command) == 2
    assert flag[0] in capsys.readouterr().err
