"""Rounds over a network with delays: with stand-ins for the programs that make one, and without them."""

import re
import sys

import pytest

from blindsum.errors import BlindsumError
from experiments import mpc_page, mpc_plan, netem
from experiments.mpc_page import Found
from experiments.mpc_plan import QUICK
from experiments.netem import Delayed
from experiments.three_servers import Case, simulated

CASE = Case("fedavg", "semi-honest", parties=4, dim=20, delay_ms=25.0)
NO_QDISC = "Error: Specified qdisc kind is unknown."

UNSHARE = """\
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts stand-ins before the programs of the machine; gives what makes another one."""
    folder = tmp_path / "programs"
    folder.mkdir()

    def stand_in(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    stand_in("unshare", UNSHARE)
    stand_in("ip", f'echo "$@" >> {tmp_path}/ip')
    stand_in("tc", f'echo "$@" >> {tmp_path}/tc')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return stand_in


def test_a_command_runs_behind_the_delay(programs, tmp_path):
    assert netem.run([sys.executable, "-c", "print('done')"], 25.0) == "done\n"
    assert (tmp_path / "ip").read_text() == "link set lo up\n"
    assert (tmp_path / "tc").read_text() == "qdisc add dev lo root netem delay 25ms\n"
    assert netem.hindrance() is None


def test_a_command_that_fails_says_why(programs):
    with pytest.raises(netem.CommandFailedError, match=r"^no data$"):
        netem.run([sys.executable, "-c", "raise SystemExit('no data')"], 1.0)
    with pytest.raises(netem.CommandFailedError, match=r"^exit status 3$"):
        netem.run([sys.executable, "-c", "raise SystemExit(3)"], 1.0)


def test_a_command_that_takes_too_long_is_ended(programs, monkeypatch):
    monkeypatch.setattr(netem, "PATIENCE", 0.5)
    with pytest.raises(netem.CommandFailedError, match=r"more than 0.5 s"):
        netem.run(["sleep", "60"], 1.0)


@pytest.mark.parametrize(
    ("name", "script", "reason"),
    [
        ("tc", f"echo '{NO_QDISC}' >&2; exit 2", NO_QDISC),
        (
            "unshare",
            "echo 'unshare: Operation not permitted' >&2; exit 1",
            "unshare: Operation not permitted",
        ),
    ],
)
def test_a_machine_without_delays_uses_relays_and_says_why(programs, monkeypatch, name, script, reason):
    programs(name, script)
    assert netem.hindrance() == reason
    monkeypatch.setattr(netem, "through_relays", lambda case, rounds: 0.25 * rounds)
    assert netem.measured([CASE], rounds=2) == Delayed({CASE: 0.5}, None, reason)

    def fails(case, rounds):
        raise BlindsumError("no port")

    monkeypatch.setattr(netem, "through_relays", fails)
    found = netem.measured([CASE])
    assert found == Delayed({}, "fedavg, semi-honest, 25 ms: no port", reason)
    said = page(found)
    assert "**Nothing here went over a network**" in said
    assert 'when it was written: "fedavg, semi-honest, 25 ms: no port"' in said
    assert "virtual / measured" not in said


def test_a_program_that_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert netem.hindrance() == "unshare is not installed"


def test_a_user_without_rights_is_root_in_the_namespace(programs, tmp_path, monkeypatch):
    programs("unshare", f'echo "$1 $2" > {tmp_path}/unshare\n{UNSHARE}')
    for user, words in ((0, "--net sh"), (1000, "--net --map-root-user")):
        monkeypatch.setattr(netem.os, "getuid", lambda user=user: user)
        assert netem.hindrance() is None
        assert (tmp_path / "unshare").read_text() == f"{words}\n"


def test_rounds_are_measured(programs, tmp_path):
    begun = []
    found = netem.measured([CASE], rounds=1, on_case=begun.append)
    assert begun == [CASE]
    assert (list(found.seconds), found.hindrance) == ([CASE], None)
    assert 0 < found.seconds[CASE] < 60
    assert (tmp_path / "tc").read_text().splitlines()[-1].endswith("delay 25ms")


def test_rounds_of_three_servers_go_through_relays():
    """Every wait of the model is in the round: processes reach each other through the relays alone."""
    seconds = netem.through_relays(CASE, rounds=1)
    assert seconds >= simulated(CASE, runs=1).virtual_s


def test_a_case_that_fails_ends_the_measurement_and_is_named(programs, monkeypatch):
    monkeypatch.setattr(netem, "command", lambda *_: ["false"])
    assert netem.measured([CASE]) == Delayed({}, "fedavg, semi-honest, 25 ms: exit status 1")


def page(delayed):
    costs = {case: simulated(case, runs=1) for case in mpc_plan.delays(QUICK)}
    return mpc_page.delays(Found(QUICK, costs, {}, {}, delayed))


def test_measured_seconds_are_beside_the_virtual_ones():
    first, *_, last = mpc_plan.delays(QUICK)
    longest = f"{last.delay_ms:.0f}"
    said = page(Delayed({first: 0.123, last: 4.56}, None))
    assert "fltrust, active, s: virtual / measured" in said
    rows = [line for line in said.splitlines() if line.startswith(("| 0 |", f"| {longest} |"))]
    assert rows[0].startswith("| 0 | 0 / 0.123 | 0 / – |")
    assert " / 4.56 |" in rows[1]
    assert "on a loopback device that delays each packet" in said
    assert "0 modelled" not in said
    assert "Nothing here went over a network" not in said
    assert "Those that are missing: no time." in page(Delayed({first: 0.1}, "no time"))
    said = " ".join(page(Delayed({first: 0.1, last: 4.56}, None, "no netem")).split())
    assert 'its kernel delays no packets ("no netem")' in said
    waits = round(4.56 / (last.delay_ms / 1000))
    took = rf"In delays of {longest} ms a round takes: fltrust, active: \d+ modelled, {waits} measured\."
    assert re.search(took, said)
