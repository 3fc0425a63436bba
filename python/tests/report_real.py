"""The report of a training run in a real browser, offline: `make report` runs this where Chromium is.

What can be tested without it is in test_training_report.py.
"""

import json

import pytest
from chromium import Chromium
from training_records import record

MAX_CPU = 4.0
"""Seconds of CPU time for a thousand rounds of 200 parties: twice what they took on two busy cores."""

BUTTONS = ["Zoom", "Pan", "Reset axes", "Download plot as a PNG"]


@pytest.fixture
def browser(tmp_path):
    started = Chromium(tmp_path)
    started.ask(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
    )
    yield started
    started.close()


def opened(browser, run, folder, **options):
    """Write the page of a run, and open it as a file."""
    path = folder / "report.html"
    run.report(path, **options)
    browser.ask("Page.navigate", url=path.as_uri())
    drawn(browser)
    return path


def drawn(browser, times=1):
    """Wait until all charts have been drawn so often."""
    browser.wait_for(f"Number(document.documentElement?.dataset.drawn ?? 0) >= {times}")


def point_at(browser, figure, across, down):
    """Move the pointer over a chart, to a place in it from 0 to 1."""
    box = json.loads(
        browser.value(
            f"(() => {{ const it = document.querySelector('#chart-{figure} .nsewdrag');"
            "it.scrollIntoView({block: 'center'}); return JSON.stringify(it.getBoundingClientRect()) })()"
        )
    )
    x, y = box["x"] + across * box["width"], box["y"] + down * box["height"]
    # Where the pointer was before, it may have been seen already.
    for step in (-2, 0):
        browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x + step, y=y)
    return x, y


def test_a_browser_shows_a_run_and_asks_for_nothing(browser, tmp_path):
    run = record(rounds=40, parties=12)
    path = opened(browser, run, tmp_path, command="blindsum report run.jsonl")
    charts = "[...document.querySelectorAll('.chart')]"
    assert browser.value(f"{charts}.length") == 8
    assert browser.value(f"{charts}.every((it) => it.querySelector('.main-svg .xtick'))")
    titles = "[...document.querySelectorAll('.modebar-btn')].map((it) => it.ariaLabel)"
    assert set(browser.value(titles)) == set(BUTTONS)
    # What a party gave as its reason is text.
    assert browser.value("document.title") == "tumour: training run"
    assert browser.value("document.querySelectorAll('main img, main script').length") == 0
    assert "</script>" in browser.value("document.querySelector('main').innerText")
    browser.picture(tmp_path / "light.png", dark=False)
    browser.picture(tmp_path / "dark.png", dark=True)
    background = "getComputedStyle(document.body).backgroundColor"
    dark = browser.wait_for(f"{background} === 'rgb(16, 20, 26)' && {background}")
    browser.picture(tmp_path / "narrow.png", dark=True, width=420)
    assert browser.value("document.documentElement.scrollWidth") <= 420
    # The button changes what the system says, and back.
    browser.value("document.getElementById('theme').click()")
    assert browser.value(background) != dark
    browser.value("document.getElementById('theme').click()")
    assert browser.value(background) == dark
    paper = browser.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
    assert len(paper["data"]) > 50_000
    foreign = [
        it for it in browser.requests if not it.startswith((path.as_uri(), "data:", "blob:", "about:"))
    ]
    assert (foreign, browser.complaints) == ([], [])


def test_charts_answer_the_pointer_and_show_the_same_rounds(browser, tmp_path):
    run = record(rounds=20, parties=5)
    browser.ask(
        "Emulation.setDeviceMetricsOverride", width=1280, height=1000, deviceScaleFactor=1, mobile=False
    )
    opened(browser, run, tmp_path)
    last = run.rounds[-1]
    point_at(browser, "metric-0", 0.985, 0.5)
    label = "document.querySelector('#chart-metric-0 .hoverlayer')?.textContent ?? ''"
    browser.wait_for(f"({label}).includes('round 20')")
    assert f"{last.test['accuracy']:.4g}" in browser.value(label)
    party = next(iter(run.rounds[1].lost), None) or run.parties[0]
    row = run.parties.index(party)
    point_at(browser, "strip", 1.5 / 20, (row + 0.5) / 5)
    label = "document.querySelector('#chart-strip .hoverlayer')?.textContent ?? ''"
    browser.wait_for(f"({label}).includes({party!r}) && ({label}).includes('round 2')")
    # Zoom in one chart, and all others follow.
    x, y = point_at(browser, "time", 0.25, 0.5)
    press = {"button": "left", "clickCount": 1, "y": y}
    browser.ask("Input.dispatchMouseEvent", type="mousePressed", x=x, **press)
    for step in range(1, 6):
        browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x + 40 * step, **press | {"buttons": 1})
    browser.ask("Input.dispatchMouseEvent", type="mouseReleased", x=x + 200, **press)
    first = "document.getElementById('chart-{}').layout.xaxis.range[0]"
    browser.wait_for(f"{first.format('time')} > 3")
    for name in ("metric-0", "strip", "bytes"):
        browser.wait_for(f"Math.abs({first.format(name)} - {first.format('time')}) < 1e-6")
    assert browser.complaints == []


def test_a_thousand_rounds_of_two_hundred_parties_open_soon(browser, tmp_path):
    browser.ask("Performance.enable", timeDomain="threadTicks")
    opened(browser, record(rounds=1000, parties=200), tmp_path)
    found = {one["name"]: one["value"] for one in browser.ask("Performance.getMetrics")["metrics"]}
    paint = browser.value("performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")
    whole = browser.value("performance.now() / 1000")
    print(f"readable after {paint:.2f} s, drawn after {whole:.2f} s, {found['ThreadTime']:.2f} s of CPU time")
    assert found["ThreadTime"] < MAX_CPU
    assert browser.complaints == []
