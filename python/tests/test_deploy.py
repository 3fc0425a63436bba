"""The files in deploy/ fit each other and the program; those of Prometheus are tested in test_metrics.py."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import blindsum as bs

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text()
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def service(name):
    """The lines of a service."""
    return re.search(rf"^  {name}:\n((?:    .*\n|\n)+)", COMPOSE, re.MULTILINE)[1]


def words(name, field="command"):
    """A list in a service: the file has them in the form of JSON."""
    return json.loads(re.search(rf"^    {field}: (\[.*\])$", service(name), re.MULTILINE)[1])


def test_the_commands_of_the_compose_file_are_a_job(processes, tmp_path):
    pki = tmp_path / "pki"
    [script] = words("pki")
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (tmp_path / "blindsum").write_text(f'#!/bin/sh\nexec {sys.executable} -m blindsum "$@"\n')
    (tmp_path / "blindsum").chmod(0o755)
    script = script.replace("/pki", str(pki)).replace("$$", "$")
    for _ in ("first", "again"):
        subprocess.run(
            [*words("pki", "entrypoint"), script], env=environment, check=True, capture_output=True
        )
    shutil.copy(DEPLOY / "compose" / "training.py", tmp_path)
    [job] = tomllib.loads((DEPLOY / "compose" / "blindsumd.toml").read_text())["jobs"]
    spec = bs.JobSpec.from_settings(list((job | {"rounds": 1}).items()))
    with bs.Coordinator(spec, identity=pki / "agg", ca=pki) as coordinator:
        port = coordinator.address.rpartition(":")[2]
        parties = []
        for name in "abc":
            state = tmp_path / f"state-{name}"
            replaced = {"https://coordinator:9443": f"https://localhost:{port}", "/state": str(state)}
            told = [replaced.get(word, word.replace("/pki", str(pki))) for word in words(f"hospital-{name}")]
            parties.append(processes(*told, "--server-name", "coordinator"))
        last = list(coordinator.statuses())[-1]
        for party in parties:
            _, err = party.communicate(timeout=60)
            assert party.returncode == 0, err
    assert (last["state"], last["rounds_done"]) == ("done", 1)


def test_containers_run_without_rights():
    for name in ("pki", "coordinator"):
        assert "<<: *hardened" in service(name)
    for name in ("hospital-a", "hospital-b", "hospital-c"):
        assert "<<: *party" in service(name)
    hardened = re.search(r"^x-hardened: &hardened\n((?:  .*\n)+)", COMPOSE, re.MULTILINE)[1]
    for rule in ("read_only: true", "cap_drop: [ALL]", "no-new-privileges:true"):
        assert rule in hardened
    published = re.findall(r'"([\d.]*:?\d+:\d+)"', COMPOSE)
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    stages = DOCKERFILE.split("\nFROM ")[2:]
    assert [stage.split(" AS ")[1].split("\n")[0] for stage in stages] == ["coordinator", "party"]
    for stage in stages:
        assert "USER 65532:65532" in stage


@pytest.mark.parametrize("name", ["coordinator", "party"])
def test_images_of_the_compose_file_are_targets_of_the_dockerfile(name):
    assert f"target: {name} " in COMPOSE
    assert f" AS {name}\n" in DOCKERFILE


def test_the_service_of_systemd_is_told_when_the_daemon_is_ready():
    unit = (DEPLOY / "blindsumd.service").read_text()
    for line in ("Type=notify", "WatchdogSec=60", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert f"\n{line}\n" in unit


def test_who_stops_the_coordinator_waits_for_a_drain():
    [job] = tomllib.loads((DEPLOY / "compose" / "blindsumd.toml").read_text())["jobs"]
    drain = job.get("input_deadline", bs.JobSpec.from_settings(list(job.items())).input_deadline)
    unit = (DEPLOY / "blindsumd.service").read_text()
    minutes = [
        re.search(r"^TimeoutStopSec=(\d+)min$", unit, re.MULTILINE)[1],
        re.search(r"^    stop_grace_period: (\d+)m$", COMPOSE, re.MULTILINE)[1],
    ]
    for given in minutes:
        assert int(given) * 60 > drain
    assert "\nRestartPreventExitStatus=2 4\n" in unit
