"""What objects show of themselves in a notebook: enough, escaped, and nothing that is not for others."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import blindsum as bs
from blindsum.display import MAX_TEXT, html_pairs, html_table, names_text

UPDATE = np.array([0.8125, -0.4375, 0.3125, 5.5])
"""The last coordinate is clipped."""


class Cells(HTMLParser):
    """The cells of tables, and that every tag is closed."""

    def __init__(self, html):
        super().__init__()
        self.rows, self._open = [], []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        # No colours: the page may be light or dark.
        assert not re.search("color|background", str(attributes))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1] in ("td", "th"):
            self.rows[-1].append(data)


def shown(value):
    """Names and values that an object shows."""
    html = value._repr_html_()
    assert len(html) < 10_000
    assert html.startswith(f'<table><caption style="text-align:left"><b>blindsum.{type(value).__name__}</b>')
    return {row[0]: row[1] if len(row) > 1 else "" for row in Cells(html).rows}


def test_text_is_escaped_and_short():
    bad = "<script>alert(1)</script>&"
    for html in (html_pairs(bad, {bad: bad}), html_table(bad, [bad], [[bad]], [bad])):
        assert "<script" not in html
        assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;") in (3, 4)
    long = html_pairs("a", {"b": "x" * 1000, "none": None})
    assert ("x" * (MAX_TEXT - 1) + "…" in long, "x" * MAX_TEXT in long) == (True, False)
    assert "none" not in long
    assert names_text([f"p{rank}" for rank in range(10)]) == "p0, p1, p2, p3, p4, p5, p6, p7 and 2 more"
    assert names_text(["a"]) == "a"


def test_a_job_shows_what_was_said_and_what_follows():
    tensors = [bs.Tensor(name="<b>", len=1000, clip=0.5)]
    spec = bs.JobSpec(
        protocol=bs.SecAggPlus(neighbours=60), parties=100, dim=1000, encoding=bs.Quantised(tensors=tensors)
    )
    found = shown(spec)
    assert found["protocol"] == "secagg+ (neighbours = 60)"
    assert "<b>" in found["encoding"]
    assert (found["parties"], found["dim"], found["hash"]) == ("100", "1000", spec.hash)
    assert found["a sum needs"] == f"{spec.quorum} survivors"
    assert found["a sum survives the loss of"] == f"{100 - spec.quorum} parties"
    assert found["planned dropouts"] == "10 parties"
    assert f"threshold {spec.chosen['threshold']}" in found["chosen"]


def test_a_simulation_shows_whether_the_sum_is_exact_beside_what_was_clipped():
    spec = bs.JobSpec(protocol="secagg", parties=4, dim=4)
    result = bs.simulate(spec, [UPDATE] * 4, seed=3)
    found = shown(result)
    assert (found["outcome"], found["survivors"], found["sum"], found["seed"]) == ("sum", "4", "exact", "3")
    assert found["clipped coordinates"] == "4"
    assert "; 4.50e+00 against unclipped updates" in found["largest error of the mean"]
    assert {stage.name for stage in result.stages} <= set(found)
    assert "0.8125" not in result._repr_html_()
    lost = shown(bs.simulate(spec, drop=0.9))
    assert lost["outcome"].startswith("abort: too few parties are left")
    assert not {"survivors", "sum"} & set(lost)


def test_a_comparison_shows_its_summary():
    table = bs.sweep(protocol=["plain", "secagg"], parties=[2, 10], dim=5)
    html = table._repr_html_()
    rows = Cells(html).rows
    assert [row[:3] for row in rows] == [
        ["protocol", "parties", "outcome"],
        ["plain", "2", "sum"],
        ["plain", "10", "sum"],
        ["secagg", "2", "impossible"],
        ["secagg", "10", "sum"],
    ]
    assert "parties: must be at least 3 (is 2)" in html


@pytest.fixture
def clipped(place, partner):
    """Everything of a job whose parties were clipped, as shown on the way."""
    spec = place.spec(parties=2, rounds=1)
    found = {}
    with place.coordinator(spec) as coordinator:
        found["coordinator"] = (coordinator, shown(coordinator), repr(coordinator))
        other = partner(place, coordinator, "b", UPDATE, 1)
        with place.join(coordinator, "a") as session:
            found["session"] = (session, shown(session), repr(session))
            for current in session.rounds():
                found["before"] = shown(current)["state"]
                current.submit(UPDATE)
                found["waiting"] = shown(current)["state"]
                outcome = current.outcome()
                found["round"] = (current, shown(current), repr(current))
                found["result"] = (outcome, shown(outcome), outcome._repr_html_())
        other.wait()
    return spec, found


def test_a_job_over_the_network_shows_who_and_how_far(clipped):
    spec, found = clipped
    coordinator, said, line = found["coordinator"]
    assert said["address"] == coordinator.address
    assert (said["job"], said["hash"], said["model"]) == (spec.job, spec.hash, "zeros, version 0")
    assert line.startswith(
        f"<blindsum.Coordinator job: {spec.job}, protocol: {spec.protocol}, up to 2 parties"
    )
    _, said, line = found["session"]
    assert (said["party"], said["job"], said["hash"]) == ("a", spec.job, spec.hash)
    assert line.startswith("<blindsum.Session party: a, job: ")
    assert (found["before"], found["waiting"]) == ("needs an update", "waits for the result")
    current, said, line = found["round"]
    assert said == {"number": str(current.number), "parties": "a, b", "state": "has a result"}
    assert line == f"<blindsum.Round number: {current.number}, parties: a, b, state: has a result>"
    outcome, said, _ = found["result"]
    assert (said["survivors"], said["total weight"], said["result"]) == ("a, b", "2", outcome.result)
    assert said["mean"] == "4 coordinates, float32"


def test_nothing_of_an_update_or_a_file_is_shown(clipped, place):
    _, found = clipped
    outcome, _, html = found["result"]
    assert outcome.clipped.coordinates == 1
    texts = [html, *(str(found[name][1:]) for name in ("coordinator", "session", "round"))]
    for text in texts:
        assert "clipped" not in text.lower()
        assert str(place.folder) not in text
        assert not re.search(r"0\.8125|-?0\.43|0\.31", text)


def test_a_round_that_failed_shows_the_kind_of_error_alone(clipped):
    _, found = clipped
    current = found["round"][0]
    current._outcome, current.lost = None, bs.RoundAborted(1, "cannot write /home/somebody/state")
    assert shown(current)["state"] == "RoundAborted"
