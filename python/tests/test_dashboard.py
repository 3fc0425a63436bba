"""The dashboard as HTTP has it: who may see it, what a browser may do with it, what its events say."""

import http.client
import json
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import blindsum as bs

TOKEN = "0123456789abcdef0123456789abcdef"
PAGE = Path(__file__).resolve().parents[2] / "crates" / "monitor" / "src" / "page"


@contextmanager
def shown(place, spec, folder, **options):
    """A coordinator with a dashboard."""
    (folder / "token").write_text(TOKEN + "\n")
    options = {"dashboard": "127.0.0.1:0", "dashboard_token_file": folder / "token"} | options
    with place.coordinator(spec, stop_when_done=False, **options) as coordinator:
        yield coordinator


class Asked:
    """An answer of the dashboard."""

    def __init__(self, address, path, method="GET", **headers):
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.connection.request(method, path, headers=headers)
        self.answer = self.connection.getresponse()

    def events(self):
        """What its events say."""
        for line in self.answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def events(coordinator):
    asked = Asked(coordinator.dashboard, "/events", Authorization=f"Bearer {TOKEN}")
    assert asked.answer.status == 200
    assert asked.answer.headers["content-type"] == "text/event-stream"
    return asked.events()


def test_events_need_the_token_and_the_page_does_not(place, tmp_path):
    with shown(place, place.spec(), tmp_path) as coordinator:
        address = coordinator.dashboard
        for headers in ({}, {"Authorization": f"Bearer {TOKEN[:-1]}"}, {"Authorization": f"Basic {TOKEN}"}):
            refused = Asked(address, "/events", **headers).answer
            assert refused.status == 401
            assert b"job" not in refused.read()
        assert Asked(address, f"/events?token={TOKEN}").answer.status == 401
        for file in [path for path in PAGE.iterdir() if path.name != "index.html"]:
            answer = Asked(address, f"/{file.name}").answer
            assert (answer.status, answer.read()) == (200, file.read_bytes())
        for path, method, status in [("/x", "GET", 404), ("/", "POST", 405), ("/events", "POST", 405)]:
            assert Asked(address, path, method).answer.status == status


def test_a_browser_may_load_nothing_from_elsewhere(place, tmp_path):
    with shown(place, place.spec(), tmp_path) as coordinator:
        for path in ("/", "/app.js", "/events", "/x"):
            headers = Asked(coordinator.dashboard, path).answer.headers
            assert headers["content-security-policy"].startswith("default-src 'self';")
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
    text = "".join(file.read_text() for file in PAGE.iterdir())
    assert set(re.findall(r"https?://[^\s\"'`)]+", text)) == {"http://www.w3.org/2000/svg"}
    # Names and reasons come from parties: nothing sets them as HTML.
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="):
        assert forbidden not in text, forbidden


def test_events_say_how_a_round_goes_and_whom_it_lost(place, partner, tmp_path):
    hostile = "<script>alert('x')</script>\n\ndata: {}"
    spec = place.spec(parties=3, min_parties=2, rounds=2, join_deadline=60.0)
    with shown(place, spec, tmp_path) as coordinator:
        told = events(coordinator)
        first = next(told)
        assert [alert["text"] for alert in first["alerts"]] == ["0 parties are connected, a round needs 2"]
        assert first["jobs"][0]["status"]["job"] == "job"
        stays = [partner(place, coordinator, name, np.full(4, 0.5)) for name in "ab"]
        with place.join(coordinator, "c") as lost:
            lost.next_round().skip(hostile)
        for party in stays:
            party.wait()
        last = next(state for state in told if len(state["jobs"][0]["rounds"]) == 2)
    job = last["jobs"][0]
    assert job["stages"] == ["input"]
    ended, second = job["rounds"]
    assert (second["number"], second["lost"]) == (2, [])
    assert (ended["number"], ended["state"], ended["parties"], ended["survivors"]) == (1, "done", 3, 2)
    [loss] = ended["lost"]
    assert (loss["name"], loss["stage"], loss["cause"]) == ("c", "input", "not_accepted")
    assert "<script>alert('x')</script>" in loss["reason"]
    assert ended["up"] > 0
    assert last["version"]
    assert {ends["whose"] for ends in last["certificates"]} == {"certificate", "CA"}


def test_a_page_that_stays_open_keeps_no_store_open(place, tmp_path):
    pages = []
    for _ in range(3):
        options = {"store": tmp_path / "s.sqlite", "metrics": "127.0.0.1:0"}
        with shown(place, place.spec(), tmp_path, **options) as coordinator:
            pages.append(events(coordinator))
            assert next(pages[-1])["jobs"]


def test_settings_that_cannot_be_used_are_refused(place, tmp_path):
    short = tmp_path / "short"
    short.write_text("secret\n")
    cases = [
        ({"dashboard": "127.0.0.1:0", "dashboard_token_file": None}, "dashboard_token_file: is missing"),
        ({"dashboard": "127.0.0.1:0", "dashboard_token_file": short}, "has 6 characters, a token needs 16"),
        ({"dashboard": "127.0.0.1:0", "dashboard_token_file": tmp_path / "none"}, "cannot be read"),
        ({"dashboard": None}, "there is no dashboard"),
        ({"dashboard": "nowhere"}, 'dashboard: "nowhere" must be HOST:PORT'),
    ]
    for options, why in cases:
        with (
            pytest.raises(bs.ConfigError, match=re.escape(why)),
            shown(place, place.spec(), tmp_path, **options),
        ):
            pass
