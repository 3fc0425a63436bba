"""Metrics and health: numbers are those of the rounds, the documentation and deploy/ name what there is."""

import json
import re
import socket
import threading
from pathlib import Path

import numpy as np
import pytest
from scraped import Scrape, fetched

import blindsum as bs
from blindsum import pki

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()

ANYWHERE = "127.0.0.1:0"


class Statuses(threading.Thread):
    """Takes the statuses of a coordinator, and keeps the latest report of each round."""

    def __init__(self, coordinator):
        super().__init__()
        self.reports, self.latest, self._news = {}, {}, threading.Condition()
        self._coordinator = coordinator
        self.start()

    def run(self):
        for status in self._coordinator.statuses():
            with self._news:
                self.latest = status
                if status["round"] is not None:
                    self.reports[status["round"]["number"]] = status["round"]
                self._news.notify_all()

    def wait_for(self, holds):
        with self._news:
            assert self._news.wait_for(lambda: self.latest and holds(self.latest), 60)
            return self.latest


@pytest.fixture
def revoked(place):
    """A revocation list."""
    return pki.revoke(place.folder, [])


def test_numbers_are_those_of_the_rounds_with_a_lost_party(place, partner, tmp_path):
    spec = place.spec(parties=3, min_parties=2, rounds=3, join_deadline=60.0)
    options = {"metrics": ANYWHERE, "store": tmp_path / "s.sqlite", "stop_when_done": False}
    with place.coordinator(spec, **options) as coordinator:
        statuses = Statuses(coordinator)
        began = Scrape(coordinator.metrics)
        assert began.total("blindsum_rounds_total", job="job") == 0
        assert began.total("blindsum_parties_lost_total", job="job") == 0
        stays = [partner(place, coordinator, f"hospital-{name}", np.full(4, 0.5)) for name in "ab"]
        with place.join(coordinator, "hospital-c") as lost:
            lost.next_round().abandon()
        for party in stays:
            party.wait()
        last = statuses.wait_for(lambda status: status["state"] == "done")
        now = Scrape(coordinator.metrics)
        reports = list(statuses.reports.values())
    assert "hospital" not in now.text
    done = [report for report in reports if report["state"] == "done"]
    assert len(done) == last["rounds_done"] == 3
    assert now.value("blindsum_rounds_total", job="job", outcome="sum", reason="none") == 3
    aborted = len(reports) - len(done)
    assert now.total("blindsum_rounds_total", job="job", outcome="aborted") == aborted
    assert now.value("blindsum_round_seconds_count", job="job") == 3
    seconds = now.value("blindsum_round_seconds_sum", job="job")
    assert seconds == pytest.approx(sum(report["seconds"] for report in done))
    stages = [stage for report in reports for stage in report["stages"]]
    for name in {stage["name"] for stage in stages}:
        own = [stage for stage in stages if stage["name"] == name]
        assert now.value("blindsum_stage_seconds_count", job="job", stage=name) == len(own)
        took = now.value("blindsum_stage_seconds_sum", job="job", stage=name)
        assert took == pytest.approx(sum(stage["seconds"] for stage in own))
        dropped = sum(len(stage["dropped"]) for stage in own)
        assert now.total("blindsum_parties_lost_total", job="job", stage=name) == dropped
    assert now.value("blindsum_parties_lost_total", job="job", stage="input", reason="sat_out") == 1
    assert now.total("blindsum_parties_lost_total", job="job") == 1
    of_parties = [count for stage in stages for count in stage["bytes"].values()]
    for direction, way in [("received", "up"), ("sent", "down")]:
        messages = now.value("blindsum_bytes_total", direction=direction, kind="messages")
        assert messages == sum(count[way] for count in of_parties)
        assert now.value("blindsum_bytes_total", direction=direction, kind="connections") > messages
    assert now.value("blindsum_parties_needed", job="job") == last["min_parties"] == 2
    assert now.value("blindsum_failed_rounds_in_row", job="job") == 0
    assert now.value("blindsum_job_state", job="job", state="done") == 1
    assert now.total("blindsum_job_state", job="job") == 1
    assert now.value("blindsum_job_info", job="job", protocol="plain") == 1
    assert now.value("blindsum_store_bytes") >= (tmp_path / "s.sqlite").stat().st_size
    assert now.value("blindsum_store_transaction_seconds_count") > 6


def test_a_lost_round_is_counted_by_its_reason(place, partner):
    spec = place.spec(parties=2, min_parties=2, rounds=1, join_deadline=60.0)
    with place.coordinator(spec, metrics=ANYWHERE, stop_when_done=False) as coordinator:
        statuses = Statuses(coordinator)
        stays = partner(place, coordinator, "a", np.full(4, 0.5))
        with place.join(coordinator, "b") as leaves:
            current = leaves.next_round()
            statuses.wait_for(
                lambda status: status["waiting_for"] == ["b"] and status["round"]["state"] == "running"
            )
            running = Scrape(coordinator.metrics)
            current.abandon()
        statuses.wait_for(lambda _: statuses.reports[1]["state"] == "aborted")
        after = Scrape(coordinator.metrics)
        with pytest.raises(bs.RoundAborted):
            stays.wait()
    assert running.value("blindsum_parties_ready", job="job") == 2
    assert running.value("blindsum_stage_waiting_parties", job="job") == 1
    assert after.total("blindsum_rounds_total", outcome="aborted") == 1
    assert after.value("blindsum_rounds_total", job="job", outcome="aborted", reason="lost") == 1
    assert after.value("blindsum_failed_rounds_in_row", job="job") == 0


def test_who_is_not_let_in_is_counted(place):
    with place.coordinator(place.spec(), metrics=ANYWHERE) as coordinator:
        before = Scrape(coordinator.metrics)
        host, _, port = coordinator.address.rpartition(":")
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            while stranger.recv(4096):
                pass
        url = f"https://localhost:{port}"
        with pytest.raises(bs.BlindsumError, match="no job"):
            bs.join(url, job="other", identity=place.identity("a"), ca=place.folder / "ca.pem").__enter__()
        after = Scrape(coordinator.metrics)
    for reason in ("handshake", "unknown_job"):
        counts = [scrape.value("blindsum_parties_refused_total", reason=reason) for scrape in (before, after)]
        assert counts == [0, 1], reason


def test_health_says_whether_parties_may_come_and_rounds_go_on(place, partner):
    spec = place.spec(parties=2, min_parties=2, rounds=1, join_deadline=60.0)
    with place.coordinator(spec, metrics=ANYWHERE, stop_when_done=False) as coordinator:
        address, statuses = coordinator.metrics, Statuses(coordinator)
        assert fetched(address, "/livez") == (200, "alive\n")
        assert fetched(address, "/readyz")[0] == 200
        status, text = fetched(address, "/readyz/job")
        assert (status, text.splitlines()[0]) == (503, "not ready: too few parties are connected")
        assert fetched(address, "/readyz/other")[0] == 404
        for path in ("/", "/health", "/metrics/x"):
            assert fetched(address, path)[0] == 404, path
        for party in [partner(place, coordinator, name, np.full(4, 0.5)) for name in "ab"]:
            party.wait()
        statuses.wait_for(lambda status: status["state"] == "done")
        assert fetched(address, "/readyz/job")[0] == 200


def test_metrics_and_their_documentation_agree(place, partner, revoked):
    # Those of training are there once a round has a sum.
    measured = {"metrics": [bs.Metric("loss", 0, 1)], "stop": "plateau", "metric": "loss", "better": "lower"}
    spec = place.spec(parties=1, **measured)
    options = {"metrics": ANYWHERE, "revoked": revoked, "stop_when_done": False}
    with place.coordinator(spec, **options) as coordinator:
        partner(place, coordinator, "a", np.zeros(4), metrics={"loss": 0.5}).wait()
        page = Scrape(coordinator.metrics)
    # Those of noise are there from the beginning.
    noise = {"privacy": "discrete-gaussian", "epsilon": 20.0, "delta": 1e-5, "clipping": "l2"}
    spec = place.spec(protocol="secagg", parties=3, min_parties=3, adversary="semi-honest", **noise)
    with place.coordinator(spec, metrics=ANYWHERE) as coordinator:
        noisy = Scrape(coordinator.metrics)
    assert noisy.value("blindsum_privacy_target", job="job", delta="1e-5") == 20
    assert documented() == page.metrics() | noisy.metrics()
    own = {"job", "stage", "le", "metric"}
    words = {value for _, labels in page.rows for label, value in labels if label not in own}
    words -= {bs.__version__, "plain"}
    assert {word for word in words if f"`{word}`" not in PAGE} == set()


def test_another_server_has_metrics_without_jobs(place):
    spec = place.spec(protocol="mpc3", parties=4)
    with place.server(
        spec,
        [f"https://{host}:1" for host in ("localhost", "127.0.0.2", "127.0.0.3")],
        1,
        listen=ANYWHERE,
        metrics=ANYWHERE,
    ) as server:
        page = Scrape(server.metrics)
        assert fetched(server.metrics, "/readyz") == (200, "ready\n")
    assert not {name for name, labels in page.metrics().items() if "job" in labels}
    assert page.value("blindsum_certificate_expiry_seconds", whose="own") > 0


def test_an_address_that_cannot_be_used_is_refused_by_its_flag(processes, place, tmp_path):
    (tmp_path / "job.json").write_text(place.spec().to_json())
    words = [
        "--job",
        tmp_path / "job.json",
        "--identity",
        place.folder / "agg",
        "--ca",
        place.folder / "ca.pem",
    ]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for address, why in [("nowhere", "--metrics"), (f"127.0.0.1:{port}", "choose a free port")]:
            process = processes("serve", *words, "--listen", ANYWHERE, "--metrics", address)
            _, err = process.communicate(timeout=60)
            assert process.returncode != 0
            assert why in err


def documented():
    """By the name of each metric in the tables of the page, the names of its labels."""
    rows = re.findall(r"^\| `((?:blindsum|process)_\w+)` \|([^|]*)\|", PAGE, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


def named_in(text):
    """Names of metrics in queries, without the endings of histograms."""
    names = set(re.findall(r"\b(?:blindsum|process)_[a-z_]+\b", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def test_the_dashboard_and_the_alerts_name_metrics_that_exist():
    queries = [target["expr"] for panel in panels() for target in panel.get("targets", [])]
    assert queries
    alerts = (ROOT / "deploy" / "alerts.yml").read_text()
    expressions = re.sub(r"(?m)^ *(summary|action):.*$", "", alerts)
    for text in [*queries, expressions]:
        assert named_in(text) - set(documented()) == set(), text
    fired = set(re.findall(r"- alert: (\w+)", alerts))
    assert set(re.findall(r"`(Blindsum[A-Z]\w+)`", PAGE)) <= fired
    tests = (ROOT / "deploy" / "alerts_test.yml").read_text()
    assert {alert for alert in fired if alert not in tests} == set()


def test_panels_of_the_dashboard_have_titles_units_and_places_of_their_own():
    places = [panel["gridPos"] for panel in panels()]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    for panel in panels():
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"], panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


def panels():
    return json.loads((ROOT / "deploy" / "grafana.json").read_text())["panels"]
