"""The command line: what it prints, one-line errors, exit statuses."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import blindsum as bs
from blindsum import simulation
from blindsum.cli import SUBCOMMANDS, main
from blindsum.cli.jobs import spec_from_file

SIMULATE = ["simulate", "--protocol", "plain", "--parties", "5", "--dim", "20"]


@pytest.fixture
def command(capsys):
    def run(*words):
        try:
            status = main(list(words))
        except SystemExit as left:
            status = left.code
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def refused(said, *texts):
    """Whether something was refused by one line that holds these texts."""
    status, out, err = said
    assert out == ""
    assert err.startswith("blindsum: error: ")
    assert err.count("\n") == 1
    for text in texts:
        assert text in err
    return status


def test_simulate_prints_the_promised_object(command):
    status, out, err = command(*SIMULATE, "--drop", "0.2", "--seed", "7", "--json")
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert set(report) >= {
        *("protocol", "parties", "dim", "outcome", "fault", "survivors", "exact", "max_abs_error"),
        *("stages", "client_ms", "server_ms", "up_bytes_per_party", "down_bytes_per_party", "peak_rss_bytes"),
    }
    assert (report["outcome"], report["survivors"], report["exact"]) == ("sum", 4, True)
    stage = report["stages"][0]
    assert set(stage) == {"name", "client_ms", "server_ms", "virtual_seconds", "up_bytes", "down_bytes"}
    assert all(set(stage[name]) == {"median", "max"} for name in ("client_ms", "up_bytes", "down_bytes"))


def test_simulate_says_when_there_is_no_sum(command):
    words = [*SIMULATE, "--set", "min_parties=4", "--drop-at", "input:1", "--drop-at", "input:1"]
    status, out, _ = command(*words, "--json")
    report = json.loads(out)
    assert (status, report["outcome"], report["exact"]) == (3, "abort", False)
    assert report["fault"] == "too few parties are left: only 3 of the 4 answers that the round needs came"
    status, out, _ = command(*words)
    assert status == 3
    assert "no sum" in out


@pytest.mark.parametrize(("words", "wrong"), [([], 0), (["--rounds", "3"], 1), (["--rounds", "2"], 1)])
def test_simulate_fails_where_a_sum_is_wrong(command, monkeypatch, words, wrong):
    simulate = simulation.simulate

    def wronged(*args, **fields):
        result = simulate(*args, **fields)
        report = result.to_dict()
        rounds = report.get("rounds", [report])
        rounds[wrong]["exact"] = False
        report["exact"] = rounds[-1]["exact"]
        return dataclasses.replace(result, exact=report["exact"], _report=report)

    monkeypatch.setattr(simulation, "simulate", wronged)
    status, out, _ = command(*SIMULATE, *words, "--json")
    assert (status, json.loads(out)["outcome"]) == (1, "sum")
    status, out, _ = command(*SIMULATE, *words)
    assert status == 1
    assert "WRONG" in out
    assert not words or f"rounds with a WRONG sum: {wrong + 1}\n" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--drop-at", "9:1"], "--drop-at: stage 9 must be one of input, or its number from 0 on"),
        (["--drop-at", "input"], '--drop-at: "input" must be STAGE:COUNT'),
        (["--drop", "2"], "--drop: 2.0 must be a number from 0 to 1"),
    ],
)
def test_simulate_names_its_own_flags(command, words, text):
    status, _, err = command(*SIMULATE, *words)
    assert (status, err) == (2, f"blindsum: error: {text}\n")


def test_what_is_wrong_in_a_flag_of_serve_or_join_is_a_wrong_argument(command, place, tmp_path):
    (tmp_path / "job.json").write_text(place.spec().to_json())
    own = ["--identity", str(place.identity("agg")), "--ca", str(place.folder / "ca.pem")]
    said = command("serve", "--job", str(tmp_path / "job.json"), *own, "--listen", "nonsense")
    refused(said, '--listen: "nonsense" must be HOST:PORT')
    said = command("join", "https://localhost:1", "--job", "Tu mour", *own, "--train", "json:dumps")
    refused(said, '--job: "Tu mour": a name is 1 to 64 of a-z 0-9')


def test_set_reaches_every_field(command):
    settings = ["bits=8", "clip=0.5", "max_weight=10", "rounding=nearest", "job=other", "dropout=0.3"]
    settings += ['tensors=[{"name": "w", "len": 20, "clip": 0.25}]', "adversary=semi-honest"]
    words = [word for setting in settings for word in ("--set", setting)]
    status, out, _ = command(*SIMULATE, *words, "--json")
    assert status == 0
    # One level of 8 bits over [-0.25, 0.25].
    assert json.loads(out)["max_abs_error"] <= 0.5 / 255


def test_simulate_with_bounds_from_earlier_rounds(command):
    status, out, _ = command(*SIMULATE, "--clipping", "aciq", "--rounds", "2", "--json")
    report = json.loads(out)
    assert (status, report["exact"]) == (0, True)
    refused(command(*SIMULATE, "--clipping", "nonsense"), "clipping", "aciq")


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["--set", "neighbour=3"], ["neighbour", "neighbours"]),
        (["--set", "clip=much"], ["clip", "a number"]),
        (["--set", "clip"], ["--set", "OPTION=VALUE"]),
        (["--set", "clip=0"], ["clip"]),
        (["--bits", "99"], ["bits"]),
        (["--protocol", "nonsense"], ["protocol", "nonsense"]),
        (["--drop", "2"], ["drop"]),
        (["--drop-at", "nonsense:1"], ["nonsense"]),
        (["--drop-at", "input"], ["STAGE:COUNT"]),
        (["--nonsense"], ["--nonsense", "--help"]),
        (["--dim", "1.5"], ["dim", "whole number"]),
        (["--protocol", "flashe", "--density", "nan"], ["density is NaN and must be above 0"]),
        (["--density", "0.5"], ["density", "plain"]),
        (["--protocol", "flashe", "--masking", "triple"], ["masking", "cheaper"]),
        (["--protocol", "flashe", "--key-rounds", "-1"], ["key_rounds"]),
        (["--protocol", "flashe", "--density", "0"], ["density is 0 and must be above 0 and at most 1"]),
        (["--protocol", "flashe", "--set", "density_steps=3"], ["density_steps = 3 must be left at 0"]),
        (["--protocol", "flashe", "--set", "min_contributors=3"], ["min_contributors = 3"]),
        (
            ["--protocol", "flashe", "--density", "0.1", "--set", "density_start=0.05"],
            ["density = 0.1 <= density_start = 0.05"],
        ),
        (["--protocol", "flashe", "--density", "0.1", "--set", "min_contributors=9"], ["<= parties = 5"]),
        (["--protocol", "flashe", "--density", "0.1", "--set", "max_weight=5"], ["max_weight = 5 must be 1"]),
    ],
)
def test_wrong_arguments_are_named_in_one_line(command, words, texts):
    assert refused(command(*SIMULATE, *words), *texts) == 2


def test_numbers_may_be_written_with_exponents(command):
    _, out, _ = command(*SIMULATE, "--dim", "1e2", "--json")
    assert json.loads(out)["dim"] == 100


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_has_help_with_examples(command, name):
    status, out, _ = command(name, "--help")
    assert status == 0
    assert "example" in out
    assert f"blindsum {name}" in out


def test_the_version_is_that_of_the_package(command):
    from importlib.metadata import version

    assert command("--version")[1] == f"blindsum {bs.__version__}\n"
    assert bs.__version__ == version("blindsum")


def test_pki_from_init_to_show(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("pki", "init", "ca")[0] == 0
    assert command("pki", "issue", "ca", "agg", "--coordinator", "--host", "localhost")[0] == 0
    assert command("pki", "request", "hospital-a")[0] == 0
    assert command("pki", "sign", "ca", "hospital-a.csr")[0] == 0
    assert command("pki", "revoke", "ca", "hospital-a.pem")[0] == 0
    status, out, _ = command("pki", "show", "hospital-a.pem", "--json")
    assert (status, json.loads(out)["names"]) == (0, ["hospital-a"])
    assert "hospital-a" in command("pki", "show", "hospital-a.pem")[1]
    assert refused(command("pki", "init", "ca"), "not overwritten") == 2
    assert refused(command("pki", "issue", "ca", "x", "--coordinator"), "--host") == 2
    assert refused(command("pki", "issue", "ca", "x", "--host", "localhost"), "--coordinator") == 2
    assert refused(command("pki", "show", "nothing.pem"), "nothing.pem") == 2


JOIN = ["join", "https://localhost:1", "--job", "job", "--ca", "ca.pem", "--identity", "nobody"]


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ([*JOIN, "--train", "nonsense"], ["MODULE:FUNCTION"]),
        ([*JOIN, "--train", "no_such_module:f"], ["no_such_module"]),
        ([*JOIN, "--train", "json:nothing"], ["json has no function nothing"]),
        ([*JOIN, "--train", "json:dumps", "--policy", "nonsense=1"], ["min_cohort"]),
        ([*JOIN, "--train", "json:dumps", "--policy", "min_cohort=x"], ["whole number"]),
        ([*JOIN, "--train", "json:dumps", "--policy", "min_corrupt=x"], ["a number"]),
        ([*JOIN, "--train", "json:dumps"], ["identity nobody"]),
        ([*JOIN, "--train", "json:dumps", "--mask-memory", "-1"], ["--mask-memory: 0 <= -1 <", "MiB"]),
        ([*JOIN, "--train", "json:dumps", "--mask-memory", str(2**43)], ["--mask-memory"]),
        ([*JOIN, "--train", "json:dumps", "--out", "none/model.npy"], ["--out", "no folder none"]),
        ([*JOIN, "--train", "json:dumps", "--out", "."], ["--out", "not a folder"]),
        ([*JOIN, "--train", "json:dumps", "--out", ""], ["--out", "must name a file"]),
        (
            ["serve", "--job", "none.toml", "--ca", "ca.pem", "--store", "s", "--out", "none/model.npy"],
            ["--out", "no folder none"],
        ),
        (["demo", "--parties", "2"], ["3 <= parties = 2"]),
        (["demo", "--rounds", "0"], ["1 <= rounds = 0"]),
        (["demo", "--out", "/dev/null"], ["--out", "/dev/null"]),
        (["bench", "flashe", "--markdown", "none/page.md"], ["--markdown", "no folder none"]),
        (["bench", "secagg", "--markdown", "."], ["--markdown", "not a folder"]),
        (
            ["bench", "round", "--protocol", "flashe", "--parties", "3", "--dim", "9", "--rounds", "0"],
            ["--rounds: 1 <= 0"],
        ),
        (["serve", "--job", "none.toml", "--ca", "ca.pem"], ["none.toml"]),
    ],
)
def test_what_a_command_cannot_start_with_is_named(command, tmp_path, monkeypatch, words, texts):
    monkeypatch.chdir(tmp_path)
    assert refused(command(*words), *texts) == 2


def start_serving(processes, place, tmp_path, *words, **fields):
    spec = place.spec(**{"parties": 1, "max_weight": 5} | fields)
    job = tmp_path / "job.json"
    job.write_text(spec.to_json())
    certificates = ["--cert", place.folder / "agg.pem", "--key", place.folder / "agg.key"]
    rest = ["--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0", "--json", *words]
    process = processes("serve", "--job", job, *certificates, *rest)
    ready = json.loads(process.stdout.readline())
    assert ready["event"] == "ready", ready
    return process, f"https://localhost:{ready['address'].rpartition(':')[2]}"


FILES = json.loads((Path(__file__).parents[2] / "vectors/options.json").read_text())["files"]


@pytest.mark.parametrize("file", FILES, ids=range(len(FILES)))
def test_a_job_file_means_the_same_to_everybody(command, processes, place, tmp_path, file):
    """The daemon's reading of the same files is a test of Rust: ``jobs_mean_what_they_mean_to_everybody``."""
    job = tmp_path / "job.toml"
    job.write_text(file["toml"])
    assert spec_from_file(str(job)).hash == file["hash"]
    status, out, _ = command("spec", str(job), "--json")
    assert (status, json.loads(out)["hash"]) == (0, file["hash"])
    status, out, _ = command("simulate", "--job", str(job), "--json")
    assert (status, json.loads(out)["job_hash"]) == (0, file["hash"])
    certificates = ["--cert", place.folder / "agg.pem", "--key", place.folder / "agg.key"]
    rest = ["--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0", "--json"]
    ready = json.loads(processes("serve", "--job", job, *certificates, *rest).stdout.readline())
    policy = bs.Policy(**place.any_job, job_hash=file["hash"])
    url = f"https://localhost:{ready['address'].rpartition(':')[2]}"
    files = {"identity": place.identity("a"), "ca": place.folder / "ca.pem"}
    with contextlib.closing(bs.join(url, job=ready["job"], policy=policy, **files)) as session:
        assert session.spec.hash == file["hash"]


def test_a_whole_job_is_printed_as_a_job_file(command, tmp_path):
    job = tmp_path / "job.toml"
    for file in FILES:
        job.write_text(file["toml"])
        status, out, _ = command("spec", str(job))
        assert (status, out.splitlines()[0]) == (0, f"# hash {file['hash']}")
        job.write_text(out)
        assert spec_from_file(str(job)).hash == file["hash"]
        assert len(tomllib.loads(out)) == sum(field.init for field in dataclasses.fields(bs.JobSpec))


def test_a_job_is_a_file_or_flags(command, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(FILES[0]["toml"])
    refused(command("simulate", "--job", str(job), "--bits", "8"), "--job", "--bits")
    refused(command("simulate", "--job", str(job), "--set", "bits=8"), "--job", "--set")
    refused(command("simulate", "--protocol", "plain", "--dim", "4"), "parties: must be given")


def test_a_job_file_says_nothing_twice(command, tmp_path):
    said = '{"protocol": "plain", "parties": 3, "dim": 4, "dim": 5}'
    files = {"job.json": said, "job.toml": 'protocol = "plain"\nparties = 3\ndim = 4\ndim = 5\n'}
    for name, text in files.items():
        job = tmp_path / name
        job.write_text(text)
        refused(command("spec", str(job)), "JOB", name)
    refused(
        command(*SIMULATE, "--set", 'tensors=[{"name": "a", "len": 9, "len": 20, "clip": 1}]'), "len", "twice"
    )


def test_the_schema_is_printed(command):
    status, out, _ = command("spec", "--schema")
    schema = json.loads(out)
    assert (status, schema["$schema"]) == (0, "https://json-schema.org/draft/2020-12/schema")
    assert schema["required"] == ["protocol", "parties"]
    assert schema["anyOf"] == [{"required": ["dim"]}, {"required": ["layout"]}]
    neighbours = schema["$defs"]["protocol.secagg+"]["properties"]["neighbours"]
    assert (neighbours["default"], neighbours["type"]) == (0, "integer")


def join_words(place, url, train):
    identity = ["--identity", place.identity("a"), "--ca", place.folder / "ca.pem"]
    return ["join", url, "--job", "job", *identity, *place.take_any, "--train", train, "--json"]


def test_serve_and_join_run_a_job_to_its_end(processes, place, tmp_path):
    options = ["--store", tmp_path / "job.sqlite", "--out", tmp_path / "final.npy"]
    coordinator, url = start_serving(processes, place, tmp_path, *options, rounds=2)
    party = processes(*join_words(place, url, "training:step"))
    out, err = party.communicate(timeout=60)
    assert (party.returncode, err) == (0, "")
    rounds = [json.loads(line) for line in out.splitlines()]
    assert [one["round"] for one in rounds] == [1, 2]
    assert all(one["survivors"] == ["a"] and one["total_weight"] == 2 for one in rounds)
    out, err = coordinator.communicate(timeout=60)
    events = [json.loads(line) for line in out.splitlines()]
    assert (coordinator.returncode, err) == (0, "")
    assert {event["event"] for event in events} == {"status", "stopped"}
    assert events[-1]["rounds_done"] == 2
    assert np.allclose(np.load(tmp_path / "final.npy"), 1.0, atol=1e-3)


def test_an_exception_in_the_training_function_is_shown(processes, place, tmp_path):
    _, url = start_serving(processes, place, tmp_path)
    party = processes(*join_words(place, url, "training:broken"))
    out, err = party.communicate(timeout=60)
    assert party.returncode == 1
    assert "no data today" in json.loads(out)["fault"]
    assert 'raise ValueError("no data today")' in err


def test_ctrl_c_stops_coordinator_and_party(processes, place, tmp_path):
    coordinator, url = start_serving(processes, place, tmp_path, parties=2, min_parties=2, join_deadline=60.0)
    party = processes(*join_words(place, url, "training:step"))
    for line in coordinator.stdout:
        if json.loads(line).get("connected") == ["a"]:
            break
    party.send_signal(signal.SIGINT)
    _, err = party.communicate(timeout=60)
    assert (party.returncode, err) == (130, "blindsum: interrupted\n")
    coordinator.send_signal(signal.SIGINT)
    out, _ = coordinator.communicate(timeout=60)
    assert coordinator.returncode == 0
    assert json.loads(out.splitlines()[-1])["event"] == "stopped"


def test_output_may_be_cut_off(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "blindsum", *SIMULATE, "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    "modules", ["blindsum.cli", "blindsum.cli.serve, blindsum.coordinator, blindsum.server"]
)
def test_importing_is_cheap(modules):
    program = f"import sys, blindsum, {modules}; print('numpy' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_plain_tables_need_no_rich():
    from blindsum.cli.console import markdown_table, plain_table

    text = plain_table("title", ["a", "bb"], [["long", "1"]])
    assert text.splitlines() == ["title", "a     bb", "----  --", "long   1"]
    assert markdown_table(["a", "b"], [["1", "2"]]).splitlines() == [
        "| a | b |",
        "| --- | ---: |",
        "| 1 | 2 |",
    ]


def test_progress_on_a_log_is_a_line_now_and_then(capsys, monkeypatch):
    from blindsum.cli import console

    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with console.progress("work", 10) as bar:
        bar.update(1, "early")
        now[0] = 11.0
        bar.update(5, "half")
    assert capsys.readouterr().err == "work: 5 of 10, half\n"


def test_outside_of_the_source_tree_bench_says_where_it_is(command, monkeypatch, tmp_path):
    monkeypatch.setattr("blindsum.cli.bench.ROOT", tmp_path)
    status, _, said = command("bench", "round", "--parties", "3")
    assert status == 2
    assert "not in the wheel" in said
    assert "make bench" in said


def test_a_printed_job_says_what_it_leaves_to_the_protocol(command, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(
        'job = "robust"\nprotocol = { name = "mpc3", rule = "krum" }\nparties = 16\ndim = 10\n'
        'encoding = { name = "quantised", clipping = "l2" }\n'
    )
    status, out, _ = command("spec", str(job))
    assert status == 0
    assert out.splitlines()[1:4] == [
        "# a sum is of at least 5 of 16 parties",
        "# a round of all has a sum also after the loss of 11 parties; planned dropouts: 1 party",
        "# bad: 2 with all parties",
    ]
    status, out, _ = command("spec", str(job), "--json")
    told = json.loads(out)
    assert (told["quorum"], told["chosen"]) == (5, {"bad": 2})
    assert told["spec"]["min_parties"] == told["spec"]["protocol"]["bad"] == 0
