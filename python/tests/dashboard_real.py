"""The dashboard in a real browser, while a party is killed: `make dashboard` runs this where Chromium is.

What can be tested without it is in test_dashboard.py.
"""

import queue
import signal
import threading

import numpy as np
import pytest
from chromium import Chromium
from test_dashboard import TOKEN, shown

import blindsum as bs

HOSTILE = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>"


@pytest.fixture
def browser(tmp_path):
    started = Chromium(tmp_path)
    yield started
    started.close()


class Trains(threading.Thread):
    """A party that gives an update to a round, or skips it, when it is told to."""

    def __init__(self, place, coordinator, name):
        super().__init__(daemon=True)
        self._turns = queue.Queue()
        self._session = place.join(coordinator, name)
        self.start()

    def run(self):
        with self._session as session:
            for current in session.rounds():
                match self._turns.get(timeout=60):
                    case "":
                        current.submit(np.full(4, 0.5), metrics={"accuracy": 0.75})
                    case why:
                        current.skip(why)

    def goes_on(self, why=""):
        """Let it give its update to the round under way, or skip it for a reason."""
        self._turns.put(why)


def cell(name, column):
    """The text of a cell in the row of a party."""
    row = f"[...document.querySelectorAll('tbody tr')].find((it) => it.cells[0].textContent === {name!r})"
    return f"(({row})?.cells[{column}].textContent ?? '')"


def test_a_browser_shows_who_is_killed_and_why(place, processes, browser, tmp_path):
    fields = {"join_deadline": 60.0, "input_deadline": 600.0, "metrics": [bs.Metric("accuracy", 0, 1)]}
    spec = place.spec(parties=4, min_parties=2, rounds=0, **fields)
    with shown(place, spec, tmp_path) as coordinator:
        address = f"http://{coordinator.dashboard}"
        browser.ask("Page.navigate", url=address)
        browser.wait_for("document.getElementById('token') && !document.getElementById('login').hidden")
        enter(browser, "x" * 32)
        browser.wait_for("document.getElementById('refused').textContent.includes('not the token')")
        complaints = [said for said in browser.complaints if "401" not in said]
        assert complaints == []
        browser.complaints.clear()
        enter(browser, TOKEN)
        browser.wait_for("document.getElementById('link').textContent === 'live'")
        browser.wait_for("document.body.innerText.includes('Nobody is here yet')")
        browser.wait_for("document.querySelector('.alert').textContent.includes('0 parties are connected')")
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        words = [
            "--job",
            "job",
            "--ca",
            place.folder / "ca.pem",
            "--train",
            "training:forever",
            *place.take_any,
        ]
        training = tmp_path / "training.py"
        training.write_text(training.read_text() + "\n\ndef forever(model, number):\n    time.sleep(3600)\n")
        killed = processes("join", url, "--identity", place.identity("hospital-killed"), *words)
        stays = [Trains(place, coordinator, f"hospital-{name}") for name in ("north", "south", "west")]
        browser.wait_for(f"{cell('hospital-killed', 1)} === 'awaited'")
        browser.picture(tmp_path / "round-light.png", dark=False)
        north, south, west = stays
        north.goes_on()
        south.goes_on()
        browser.wait_for(f"{cell('hospital-north', 1)} === 'has answered'")
        west.goes_on(HOSTILE)
        browser.wait_for(f"{cell('hospital-west', 2)}.includes({HOSTILE!r})")
        killed.send_signal(signal.SIGKILL)
        for number in range(1, 5):
            browser.wait_for(f"document.querySelector('.facts dd').innerText.startsWith('{number}')")
            if number < 4:
                for party in stays:
                    party.goes_on()
        browser.wait_for("document.querySelectorAll('svg.chart rect').length >= 3 * 4")
        lost = "[...document.querySelectorAll('h3')].find((it) => it.textContent.startsWith('Lost'))"
        why = f"{lost}?.parentElement.innerText ?? ''"
        browser.wait_for(f"({why}).includes('hospital-killed') && ({why}).includes('connection was lost')")
        told = "[...document.querySelectorAll('h3')].find((it) => it.textContent.startsWith('Metrics'))"
        browser.wait_for(f"({told}?.parentElement.innerText ?? '').includes('0.75')")
        browser.picture(tmp_path / "light.png", dark=False)
        browser.picture(tmp_path / "dark.png", dark=True)
        browser.picture(tmp_path / "narrow.png", dark=True, width=420)
        assert browser.value("document.title") == "Blindsum"
        assert browser.value("document.querySelectorAll('#main img, #main script').length") == 0
    browser.wait_for("document.getElementById('link').textContent.startsWith('connection lost')")
    assert {request for request in browser.requests if not request.startswith((address, "about:"))} == set()
    # That the coordinator has gone may be said.
    assert [said for said in browser.complaints if "ERR_" not in said and "TypeError" not in said] == []


def enter(browser, token):
    """Fill the form in and send it."""
    browser.value(f"document.getElementById('token').value = {token!r}")
    browser.value("document.getElementById('login').requestSubmit()")
