"""Where the core's log goes: to Python's logging, to standard error as text or JSON; levels that change."""

import json
import subprocess
import sys

import pytest

import blindsum as bs
from blindsum import logs

FORWARD = """
import logging, sys
import blindsum as bs, blindsum.logs
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stdout)
seen = []
import threading
heard = threading.Event()
class Until(logging.Handler):
    def emit(self, record):
        if "coordinator listening" in record.getMessage():
            heard.set()
logging.getLogger("blindsum.core").addHandler(Until())
blindsum.logs.to_logging("info")
try:
    blindsum.logs.to_stderr("info")
except bs.ConfigError as error:
    print("refused:", error)
spec = bs.JobSpec(protocol="plain", parties=2, dim=4)
coordinator = bs.Coordinator(spec, identity=sys.argv[1], ca=sys.argv[2])
assert heard.wait(60)
blindsum.logs.change("off")
coordinator.stop()
for _ in coordinator.statuses():
    pass
print("over")
"""


def test_the_core_logs_into_the_log_of_python(place):
    words = [sys.executable, "-c", FORWARD, place.folder / "agg", place.folder]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    lines = done.stdout.splitlines()
    assert any(
        line.startswith("INFO blindsum.core.net.coordinator: coordinator listening address=127.0.0.1:")
        for line in lines
    ), done.stdout
    assert any(line.startswith("refused: log: ") and "has a log already" in line for line in lines)
    assert lines[-1] == "over"
    assert done.stderr == ""


def test_serve_writes_its_log_as_json(processes, place, tmp_path):
    (tmp_path / "job.json").write_text(place.spec().to_json())
    words = ["--identity", place.folder / "agg", "--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0"]
    process = processes(
        "serve", "--job", "job.json", *words, "--log", "info", "--log-format", "json", "--json"
    )
    process.stdout.readline()
    process.terminate()
    _, err = process.communicate(timeout=60)
    found = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert any(line["message"] == "coordinator listening" and line["level"] == "INFO" for line in found), err
    assert not [line for line in err.splitlines() if not line.startswith(("{", "blindsum: "))]


def test_levels_come_from_the_environment(place, tmp_path, monkeypatch, processes):
    (tmp_path / "job.json").write_text(place.spec().to_json())
    words = ["--identity", place.folder / "agg", "--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0"]
    monkeypatch.setenv("BLINDSUM_LOG", "warn,blindsum_net::coordinator=info")
    process = processes("serve", "--job", "job.json", *words)
    process.stdout.readline()
    process.terminate()
    assert "coordinator listening" in process.communicate(timeout=60)[1]
    monkeypatch.setenv("BLINDSUM_LOG", "loud")
    process = processes("serve", "--job", "job.json", *words)
    assert "off, error, warn, info" in process.communicate(timeout=60)[1]
    assert process.returncode == 2


def test_what_cannot_be_logged_is_refused():
    with pytest.raises(bs.ConfigError, match="must be text or json"):
        logs.to_stderr("info", "xml")
    with pytest.raises(bs.ConfigError, match="off, error, warn"):
        logs.to_logging("loud")


def test_a_process_without_a_log_has_no_levels_to_change():
    # In a process of its own: another test of this one may have begun a log, and a process has one.
    words = [sys.executable, "-c", "import blindsum.logs; blindsum.logs.change('info')"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert "ConfigError" in done.stderr
    assert "writes no log" in done.stderr
