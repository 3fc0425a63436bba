"""A real Prometheus scrapes a coordinator: `make monitoring` runs this.

It needs prometheus, promtool and systemd-analyze. What can be tested without them is in test_metrics.py.
"""

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from test_metrics import ANYWHERE, Statuses, documented, panels

from blindsum import pki
from blindsum.testing.cluster import free_ports

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PATIENCE = 60
PER_RATE = "1m"


@pytest.fixture(autouse=True)
def _programs():
    for program in ("prometheus", "promtool", "systemd-analyze"):
        assert shutil.which(program), f"no {program} on the PATH: install it (Debian: prometheus, systemd)"


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_configuration_and_the_alerts_are_those_that_prometheus_takes():
    run("promtool", "check", "config", DEPLOY / "prometheus.yml")
    run("promtool", "test", "rules", DEPLOY / "alerts_test.yml")


def test_the_service_may_do_little():
    told = run("systemd-analyze", "security", "--offline=true", DEPLOY / "blindsumd.service")
    exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", told)[1])
    assert exposure <= 2.0, told


class Prometheus:
    """One that scrapes these addresses with the rules of deploy/."""

    def __init__(self, folder, jobs):
        self._port = next(iter(free_ports().values()))
        shutil.copy(DEPLOY / "alerts.yml", folder)
        (folder / "prometheus.json").write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": ["alerts.yml"],
                    "scrape_configs": jobs,
                }
            )
        )
        self._log = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.json'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def ask(self, path, **arguments):
        """Ask its API; ``None`` while it does not answer."""
        query = urllib.parse.urlencode(arguments)
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # It starts.
                return None
            raise AssertionError(error.read()) from error
        except urllib.error.URLError:
            return None

    def wait_for(self, holds, path, **arguments):
        """Ask until an answer fits."""
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.ask(path, **arguments)
            if answer and holds(answer):
                return answer
            assert self.process.poll() is None, "prometheus has ended"
            assert time.monotonic() < until, answer
            time.sleep(0.2)

    def value(self, query):
        """The value of a query with one result."""
        found = self.wait_for(lambda answer: len(answer["result"]) == 1, "query", query=query)
        return float(found["result"][0]["value"][1])

    def close(self):
        self.process.kill()
        self.process.wait()
        self._log.close()


@contextmanager
def prometheus(folder, jobs):
    started = Prometheus(folder, jobs)
    try:
        yield started
    finally:
        started.close()


def plain(name, address):
    """The job of deploy/prometheus.yml, at another address."""
    written = (DEPLOY / "prometheus.yml").read_text()
    assert "honor_labels: true" in written
    return {"job_name": name, "honor_labels": True, "static_configs": [{"targets": [address]}]}


def test_a_real_prometheus_gets_every_metric_and_the_port_of_parties_is_down(place, partner, tmp_path):
    spec = place.spec(parties=2, min_parties=2, rounds=2, join_deadline=60.0)
    options = {"metrics": ANYWHERE, "store": tmp_path / "s.sqlite", "stop_when_done": False}
    with place.coordinator(spec, revoked=pki.revoke(place.folder, []), **options) as coordinator:
        statuses = Statuses(coordinator)
        party = place.identity("hospital-p")
        port = coordinator.address.rpartition(":")[2]
        of_parties = {
            "job_name": "wrong-port",
            "scheme": "https",
            "tls_config": {
                "ca_file": str(place.folder / "ca.pem"),
                "cert_file": f"{party}.pem",
                "key_file": f"{party}.key",
            },
            "static_configs": [{"targets": [f"localhost:{port}"]}],
        }
        with prometheus(tmp_path, [plain("blindsum", coordinator.metrics), of_parties]) as real:
            assert real.value('up{job="blindsum"}') == 1
            for stays in [partner(place, coordinator, f"hospital-{name}", np.full(4, 0.5)) for name in "ab"]:
                stays.wait()
            statuses.wait_for(lambda status: status["state"] == "done")
            sums = 'blindsum_rounds_total{job="job",outcome="sum"}'
            real.wait_for(lambda _: real.value(sums) == 2, "query", query=sums)
            names = set(real.ask("label/__name__/values"))
            for metric in documented():
                assert {metric, f"{metric}_bucket"} & names, metric
            wrong = real.wait_for(
                lambda answer: all(it["lastError"] or it["health"] == "up" for it in answer["activeTargets"]),
                "targets",
            )
            health = {it["labels"]["job"]: it for it in wrong["activeTargets"]}
            assert health["blindsum"]["health"] == "up", health["blindsum"]["lastError"]
            assert health["wrong-port"]["health"] == "down"
            assert "404" in health["wrong-port"]["lastError"]
            rules = real.wait_for(
                lambda answer: all(
                    rule["health"] != "unknown" for group in answer["groups"] for rule in group["rules"]
                ),
                "rules",
            )
            broken = [rule for group in rules["groups"] for rule in group["rules"] if rule["health"] != "ok"]
            assert broken == []
            for panel in panels():
                for target in panel.get("targets", []):
                    real.ask("query", query=filled_in(target["expr"]))


def filled_in(query):
    """A query of the dashboard as Grafana sends it."""
    for variable, value in {"$job": ".*", "$__rate_interval": PER_RATE, "$__range": "1h"}.items():
        query = query.replace(variable, value)
    assert "$" not in query
    return query
