"""Where `make test` says that its time goes."""

import subprocess
import sys

import pytest
import timed

RUN = [sys.executable, "-c"]


@pytest.fixture(autouse=True)
def notes(tmp_path, monkeypatch):
    monkeypatch.setattr(timed, "NOTES", tmp_path / "state" / "timed")


def test_times_are_noted_and_shown_once_also_of_what_failed(capfd):
    assert timed.run("build", [*RUN, "print('built')"]) == 0
    assert timed.run("tests", [*RUN, "raise SystemExit(3)"]) == 3
    timed.show()
    built, head, build, tests, together = capfd.readouterr().out.splitlines()
    assert (built, head.split()) == ("built", ["s", "CPU", "s"])
    assert build.split()[2:] == ["build"]
    assert tests.split()[2:] == ["tests:", "failed"]
    assert together.split()[2:] == ["together"]
    timed.show()
    assert capfd.readouterr().out == ""


def test_a_command_that_a_signal_ends_has_the_status_that_a_shell_gives(capfd):
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert timed.run("killed", [*RUN, kill]) == 128 + 15
    timed.show()
    assert "killed: failed" in capfd.readouterr().out


def test_without_a_command_it_says_how_it_is_used():
    found = subprocess.run(
        [sys.executable, timed.__file__, "name"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert "--show" in found.stderr
