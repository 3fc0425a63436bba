"""The page of a training run, and ``blindsum report``: what is in it, and that it asks for nothing."""

import base64
import dataclasses
import hashlib
import json
import math
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from command_lines import refused
from training_records import HOSTILE, one_round, record

import blindsum as bs
from blindsum.cli import main
from blindsum.training import figures, sections
from blindsum.training.report import page

EMPTY = ("meta", "br", "img", "link", "input")


class Page(HTMLParser):
    """A page: its elements with their attributes, its scripts, its tables and its text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.scripts, self.rows, self.text, self._open = [], [], [], "", []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        match self._open[-1:]:
            case ["script"]:
                self.scripts[-1] += data
            case ["td" | "th"]:
                self.rows[-1][-1] += data
                self.text += f" {data}"
            case _:
                self.text += f" {data}"

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self):
        return json.loads(self.scripts[0])

    def figure(self, name):
        (found,) = [figure for figure in self.data["figures"] if figure["name"] == name]
        return found


@pytest.fixture(scope="module")
def shown():
    return Page(page(record(), "blindsum report --store 'my <job>.sqlite'"))


def test_a_page_asks_for_nothing_from_elsewhere(shown):
    for tag, attributes in shown.elements:
        for name in ("src", "srcset", "action", "data", "poster", "background", "ping", "formaction"):
            assert name not in attributes, (tag, attributes)
        assert attributes.get("href", "#").startswith("#")
        assert "url(" not in attributes.get("style", "")
    assert {tag for tag, _ in shown.elements} & {"link", "img", "iframe", "object", "embed", "base"} == set()
    style = re.search(r"<style>(.*?)</style>", page(record()), re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = [it["content"] for it in shown.all("meta") if "http-equiv" in it]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data: blob:"
    assert set(rules) == {"default-src", "img-src", "style-src", "script-src", "base-uri", "form-action"}
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for code in shown.scripts[1:]
    }
    assert set(rules["script-src"].split()) == hashes


def test_the_charts_library_sends_nothing(shown):
    # Its buttons are named one by one: there is one among all others that sends a chart to its makers.
    own = shown.scripts[2]
    assert 'modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]]' in own
    assert 'plotlyServerURL: ""' in own
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "http",
    ):
        assert forbidden not in own, forbidden


def test_a_report_is_written_from_python(tmp_path):
    bs.report(record(), tmp_path / "report.html", command="python analyse.py")
    record().report(tmp_path / "again.html", command="python analyse.py")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text == (tmp_path / "again.html").read_text(encoding="utf-8")
    assert "python analyse.py" in text
    with pytest.raises(bs.ConfigError, match="path: '' must name a file"):
        bs.report(record(), "")


def test_what_parties_say_is_text(shown):
    assert len(shown.scripts) == 3
    assert any(HOSTILE in cell for row in shown.rows for cell in row)
    assert shown.all("img") == []
    assert "<" not in shown.scripts[0]
    (strip,) = [figure["strip"] for figure in shown.data["figures"] if figure["strip"]]
    reason = next(text for text in strip["reasons"] if "taken" in text)
    assert "<" not in reason
    assert "&lt;script&gt;" in reason
    name = "<b>loss</b>"
    odd = dataclasses.replace(record(), job=name, rounds=(one_round(test={name: 0.5}, survivors=(name,)),))
    again = Page(page(odd, name))
    assert again.all("b") == []
    assert again.figure("metric-0")["layout"]["yaxis"]["title"]["text"] == "&lt;b&gt;loss&lt;/b&gt;"
    assert again.figure("strip")["strip"]["parties"] == ["&lt;b&gt;loss&lt;/b&gt;"]


def test_headlines_tell_how_the_run_went(shown):
    run = record()
    sums = sum(one.outcome == "sum" for one in run.rounds)
    best = run.best("accuracy")
    for said in (
        "Training run, as processes of one machine",
        "Protocol secagg+: all rounds are done.",
        f"{sums} of 12",
        f"best {best.test['accuracy']:.4g} in round {best.number}",
        "within the bound by quantisation, 3.0e-05",
        "blindsum report --store 'my <job>.sqlite'",
        "ε = 0.3464",
    ):
        assert said in shown.text, said
    worse = dataclasses.replace(run, error_bound=1e-9)
    assert "MORE than the bound by quantisation, 1.0e-09" in Page(page(worse)).text
    unknown = dataclasses.replace(run, error_bound=None)
    assert "from the mean in the clear" in Page(page(unknown)).text


def test_every_chart_has_its_numbers(shown):
    run = record()
    accuracy = shown.figure("metric-0")
    test, parties, plain, band = accuracy["traces"]
    assert test["x"] == [one.number for one in run.rounds]
    assert test["y"] == [one.test.get("accuracy") for one in run.rounds]
    assert parties["customdata"] == [one.reported.get("accuracy") for one in run.rounds]
    assert plain["y"] == [one.plain_test.get("accuracy") for one in run.rounds]
    assert band["x"] == [one.number for one in run.rounds if one.outcome == "abort"]
    times = shown.figure("time")["traces"]
    assert [trace["name"] for trace in times] == [
        *("share-keys", "masked-input", "unmasking", "joining, and between stages")
    ]
    for place, one in enumerate(run.rounds):
        assert sum(trace["y"][place] for trace in times) == pytest.approx(one.seconds)
    up, down = shown.figure("bytes")["traces"]
    assert [up["y"][0], down["y"][0]] == pytest.approx([run.rounds[0].up / 2**20, run.rounds[0].down / 2**20])
    deviation, bound = shown.figure("deviation")["traces"]
    assert deviation["y"] == [one.deviation for one in run.rounds]
    assert set(bound["y"]) == {3e-5}
    assert shown.figure("clipping")["traces"][0]["y"] == [one.clipped for one in run.rounds]
    assert shown.figure("privacy")["traces"][0]["y"] == [one.epsilon for one in run.rounds]
    charts = [it for it in shown.all("div") if it.get("class") == "chart"]
    assert [it["id"] for it in charts] == [f"chart-{figure['name']}" for figure in shown.data["figures"]]
    assert all(it["role"] == "group" and len(it["aria-label"]) > 20 for it in charts)


def test_the_strip_says_who_was_in_which_round():
    rounds = (
        one_round(number=4, survivors=("a", "b"), roster=("a", "b")),
        one_round(
            number=5, survivors=("a",), lost={"b": "gone"}, lost_stages={"b": "keys"}, roster=("a", "b", "c")
        ),
        one_round(
            number=7,
            survivors=(),
            lost={"a": "gone"},
            lost_stages={"a": "keys"},
            outcome="abort",
            fault="few",
            roster=("a", "b"),
        ),
        one_round(number=8, survivors=(), lost={"a": "x"}, outcome="abort"),
    )
    strip = figures.strip_figure(dataclasses.replace(record(), rounds=rounds)).strip
    assert strip["parties"] == ["a", "b", "c"]
    assert strip["rounds"] == [4, 5, 7, 8]
    assert strip["rows"] == ["++--", "+-oo", "...o"]
    assert strip["reasons"] == ["keys: gone", "x"]
    assert strip["lost"] == [[(2, 0), (3, 1)], [(1, 0)], []]
    assert strip["faults"] == {"7": "few"}


def test_tables_say_who_was_lost_and_which_rounds_have_no_sum():
    rounds = (
        *(
            one_round(number=number, lost={"b": "gone: away"}, lost_stages={"b": "keys"})
            for number in (2, 3, 5)
        ),
        one_round(number=6, lost={"a": "without: a stage"}, outcome="abort", fault="too few"),
        one_round(number=7, outcome="abort"),
    )
    found = Page(page(dataclasses.replace(record(), rounds=rounds)))
    assert ["b", "keys", "gone: away", "3", "2\N{EN DASH}3, 5"] in found.rows
    assert ["a", "", "without: a stage", "1", "6"] in found.rows
    assert ["too few", "1", "6"] in found.rows
    assert ["no reason is known", "1", "7"] in found.rows
    assert "No party was lost." in Page(page(dataclasses.replace(record(), rounds=(one_round(),)))).text


def told_of(**fields):
    """What the page says of a job, by field."""
    spec = bs.JobSpec(**{"job": "tumour", "protocol": "secagg+", "parties": 10, "dim": 3} | fields).to_dict()
    return dict(Page(sections.the_job(record(spec=spec))).rows)


def test_the_job_is_told_as_people_read_it():
    metrics = [bs.Metric("loss", -2.5, 10), bs.Metric("accuracy", 0, 1)]
    spec = bs.JobSpec(protocol="secagg+", parties=10, dim=3)
    told = told_of(metrics=metrics, rounds=0)
    assert told["metrics"] == "loss (-2.5 to 10), accuracy (0 to 1)"
    assert told["min_parties"] == f"{spec.quorum} of 10 (chosen)"
    assert told["protocol.neighbours"] == f"{spec.chosen['neighbours']} (chosen)"
    assert told["protocol.threshold"] == f"{spec.chosen['threshold']} (chosen)"
    assert told["rounds"] == "until the job is stopped"
    assert told["dim"] == "3"
    assert told_of(min_parties=8)["min_parties"] == "8"


def test_a_job_of_all_parties_says_so():
    assert bs.JobSpec(protocol="secagg+", parties=3, dim=3).quorum == 3
    assert told_of(parties=3)["min_parties"] == "all parties (chosen)"


def test_a_job_that_this_version_does_not_know_is_told_as_it_is():
    odd = {
        "protocol": {"name": "later", "neighbours": 0},
        "min_parties": 0,
        "rounds": 3,
        "metrics": ["loss", 7],
    }
    told = dict(Page(sections.the_job(record(spec=odd))).rows)
    assert told["min_parties"] == "chosen by the protocol"
    assert told["protocol.neighbours"] == "chosen by the protocol"
    assert (told["rounds"], told["metrics"]) == ("3", "loss, 7")


def test_a_page_of_little_is_a_page():
    empty = Page(page(dataclasses.replace(record(), rounds=(), spec={}, parameters={})))
    assert "no round that has ended" in empty.text
    assert empty.data == {"figures": [], "span": None}
    assert "a version that did not keep it" in empty.text
    little = Page(page(dataclasses.replace(record(), rounds=(one_round(),))))
    assert [figure["name"] for figure in little.data["figures"]] == ["strip", "time", "bytes"]
    nothing = one_round(test={"loss": math.nan}, metrics={"loss": None}, deviation=math.inf, survivors=())
    strange = Page(page(dataclasses.replace(record(), rounds=(nothing,))))
    assert strange.figure("metric-0")["traces"] == []
    assert "1 values are not finite" in strange.text


def test_a_run_of_many_rounds_and_parties_stays_small():
    run = record(rounds=1000, parties=200)
    html = page(run)
    found = Page(html)
    assert len(html) - len(found.scripts[1]) < 2_000_000
    assert {trace["type"] for trace in found.figure("time")["traces"]} == {"scatter"}


def test_a_long_table_says_how_much_it_leaves_out():
    many = {f"party-{rank}": "gone" for rank in range(sections.MAX_ROWS + 3)}
    lost = one_round(lost=many, lost_stages=dict.fromkeys(many, "keys"))
    found = Page(page(dataclasses.replace(record(), rounds=(lost,))))
    assert len([row for row in found.rows if row[1:3] == ["keys", "gone"]]) == sections.MAX_ROWS
    assert "And 3 further lines: the CSV file has all." in found.text


def test_what_draws_is_asked_for_first(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(bs.ConfigError, match=r"pip install 'blindsum\[report\]'"):
        bs.report(record(), tmp_path / "report.html")
    record().to_jsonl(tmp_path / "run.jsonl")
    said = refused(capsys, "report", tmp_path / "run.jsonl", "--out", tmp_path / "report.html")
    assert "--out: needs plotly" in said
    assert not (tmp_path / "report.html").exists()
    # The other files need nothing.
    assert main(["report", str(tmp_path / "run.jsonl"), "--csv", str(tmp_path / "rounds.csv")]) == 0


@pytest.fixture(scope="module")
def folder(place, tmp_path_factory):
    """A folder with the store of a job of one round, its job file, and a module."""
    path = tmp_path_factory.mktemp("report")
    spec = place.spec(parties=1, rounds=1)
    (path / "job.json").write_text(spec.to_json())
    (path / "own_tests.py").write_text(
        "def measure(model):\n    return {'accuracy': float(model.mean())}\n"
        "def fails(model):\n    raise KeyError('no test data')\n"
    )
    with (
        place.coordinator(spec, store=path / "job.sqlite") as coordinator,
        place.join(coordinator, "a") as session,
    ):
        for current in session.rounds():
            current.submit(np.full(4, 0.5))
            current.outcome()
    record().to_jsonl(path / "run.jsonl")
    return path


def test_the_command_reports_a_store(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    words = ["report", "--store", "job.sqlite", "--evaluate", "own_tests:measure"]
    assert main(words) == 0
    assert capsys.readouterr().out == "job job: 1 round, 1 with a sum: report.html\n"
    found = Page((folder / "report.html").read_text(encoding="utf-8"))
    (accuracy,) = found.figure("metric-0")["traces"][0]["y"]
    assert accuracy == pytest.approx(0.5, abs=1e-3)
    assert f"blindsum {' '.join(words)}" in found.text
    assert main([*words, "--jsonl", "new.jsonl", "--csv", "new.csv"]) == 0
    assert "new.csv, new.jsonl" in capsys.readouterr().out
    (one,) = bs.TrainingRecord.from_jsonl("new.jsonl").rounds
    assert one.test == {"accuracy": accuracy}
    assert main(["report", "new.jsonl", "--out", "again.html"]) == 0
    assert Page((folder / "again.html").read_text(encoding="utf-8")).figure("metric-0") == found.figure(
        "metric-0"
    )


def test_a_function_that_raises_is_shown(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    assert main(["report", "--store", "job.sqlite", "--evaluate", "own_tests:fails", "--out", "x.html"]) == 1
    said = capsys.readouterr().err
    assert "in fails" in said
    assert "--evaluate own_tests:fails: raised KeyError: 'no test data'; mend the function" in said
    assert not (folder / "x.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--store: is missing"),
        (["run.jsonl", "--store", "job.sqlite"], "--store: a run comes from one place"),
        (["run.jsonl", "--job", "tumour"], "--job: belongs to a store"),
        (["run.jsonl", "--evaluate", "a:b"], "--evaluate: belongs to a store"),
        (["run.jsonl", "--out", "run.jsonl"], "--out: run.jsonl is a file of the run and would be replaced"),
        (["--store", "job.sqlite", "--csv", "job.sqlite"], "--csv: job.sqlite is a file of --store"),
        (["--store", "job.sqlite", "--csv", "job.sqlite-wal"], "--csv: job.sqlite-wal is a file of --store"),
        (["run.jsonl", "--out", "x", "--csv", "x"], "--csv: x is a file of --out and would be replaced"),
        (["run.jsonl", "--out", "none/x"], "--out: none/x: there is no folder none"),
        (["--store", "job.sqlite", "--job", "other"], "--job: give one of the store's jobs: job"),
        (["--store", "job.sqlite", "--evaluate", "own"], "--evaluate: 'own' must be MODULE:FUNCTION"),
        (["job.json"], "record job.json, line 1, format: must be 'blindsum-training-1'"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(words, said, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.suffix != ".sqlite"}
    assert said in refused(capsys, "report", *words)
    assert {path: path.read_bytes() for path in before} == before
