"""``blindsumd`` as the wheel has it. The daemon itself is tested in Rust, with the program of this name."""

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import blindsum as bs
from blindsum.cli import main

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "import sys; from blindsum.daemon import main; sys.exit(main())"]

CONFIGURATION = """\
listen = "127.0.0.1:0"
certificate = "{identity}.pem"
key = "{identity}.key"
ca = "{ca}/ca.pem"
store = "job.sqlite"

[[jobs]]
job = "tumour"
protocol = "secagg"
parties = 3
dim = 4
"""


@pytest.fixture
def configuration(place, tmp_path):
    """A configuration file that a coordinator can start with."""
    path = tmp_path / "blindsumd.toml"
    path.write_text(CONFIGURATION.format(identity=place.folder / "agg", ca=place.folder))
    return path


def daemon(*words):
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, timeout=60)


def test_the_wheel_has_both_commands():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {
        "blindsum": "blindsum.__main__:main",
        "blindsumd": "blindsum.daemon:main",
    }


def test_it_has_the_version_of_the_package_and_help():
    assert daemon("--version").stdout == f"blindsumd {bs.__version__}\n"
    assert "--config" in daemon("--help").stdout


def test_its_exit_codes_are_those_of_the_daemon(configuration):
    assert daemon("--config", configuration, "--check").returncode == 0
    wrong = daemon("--no-such-flag")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "unexpected argument '--no-such-flag'" in wrong.stderr
    assert daemon("--config", configuration, "--listen", "1.2.3.4:1", "--check").returncode == 0
    assert daemon("--config", configuration, "--listen", "1.2.3.4:1").returncode == 3


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_until_it_is_stopped(configuration, end):
    process = subprocess.Popen([*COMMAND, "--config", configuration], stderr=subprocess.PIPE, text=True)
    try:
        assert any("coordinator listening" in line for line in process.stderr)
        process.send_signal(signal.SIGHUP)
        process.send_signal(end)
        log = process.communicate(timeout=60)[1]
        assert process.returncode == 0, log
        assert f'signal="{end.name}"' in log
    finally:
        process.kill()


def test_a_reload_that_is_done_in_part_says_what_was_not(place, configuration, capsys):
    place.operator("olga-reload")
    process = subprocess.Popen(
        [*COMMAND, "--config", configuration, "--set", "admin=127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    try:
        line = next(line for line in process.stderr if "operators are accepted" in line)
        port = re.search(r"127\.0\.0\.1:(\d+)", line)[1]
        files = ["--identity", str(place.folder / "olga-reload"), "--ca", str(place.folder / "ca.pem")]
        words = ["admin", "reload", "--reason", "new files", "--at", f"https://localhost:{port}", *files]
        assert main(words) == 0
        assert "not done" not in capsys.readouterr().out
        with configuration.open("a") as file:
            file.write("\nthis is no TOML\n")
        assert main(words) == 3
        said = capsys.readouterr()
        done, not_done = said.out.splitlines()
        assert done == "certificate, key, CA and revocation list were read again"
        assert not_done.startswith("not done: limits and jobs stay as they are: ")
        assert said.err.startswith("blindsum: reload was done in part: ")
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=60)[1]
        assert "order refused" not in log
        line = next(line for line in log.splitlines() if "ordered, and done in part" in line)
        assert "WARN" in line
        assert "not done: limits" in line
    finally:
        process.kill()


def test_without_arguments_it_says_where_the_configuration_is_named():
    refused = daemon()
    assert refused.returncode == 2
    assert "--config FILE" in refused.stderr
