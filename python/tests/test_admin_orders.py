"""Orders of operators and programs: a wrong value is named with its rule, and is not sent."""

import math

import pytest

import blindsum as bs
from blindsum.cli import main


@pytest.fixture(scope="module")
def operator(place):
    return place.operator("alice")


@pytest.fixture
def run(place, operator, capsys):
    """Runs `blindsum admin`; gives its exit status, standard output and standard error."""

    def run(coordinator, *words):
        address = "127.0.0.1:1" if coordinator is None else coordinator.admin
        at = f"https://localhost:{address.rpartition(':')[2]}"
        status = main(
            ["admin", *words, "--at", at, "--identity", str(operator), "--ca", str(place.folder / "ca.pem")]
        )
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.mark.parametrize("rounds", ["-4", "4294967296"])
def test_rounds_that_no_job_can_have_are_named_with_their_flag(run, rounds):
    status, out, err = run(None, "extend", "job", "--reason", "more", "--rounds", rounds)
    rule = f"{rounds} must be a whole number from 0 (without end) to 4294967295"
    assert (status, out, err) == (2, "", f"blindsum: error: --rounds: {rule}\n")


@pytest.mark.parametrize(
    ("command", "values", "said"),
    [
        ("nosuch", {}, "command: 'nosuch' must be one of drain, pause, resume, extend, end, ban, unban"),
        ("ban", {"party": "a", "seconds": math.nan}, "seconds: nan must be a number from 0 to 1000000"),
        (
            "ban",
            {"party": "a", "seconds": 0},
            "seconds: 0 must be above 0 and at most 1000000 seconds: raise it",
        ),
        ("ban", {}, "party: is missing: name the party, as its certificate does"),
        ("pause", {"party": "a"}, "party: is no argument of pause, it has none: leave it out"),
        ("drain", {"rounds": 3}, "rounds: is no argument of drain, it has within: leave it out"),
        (
            "extend",
            {"rounds": True},
            "rounds: True must be a whole number from 0 (without end) to 4294967295",
        ),
        ("extend", {"stage_deadline": "long"}, "stage_deadline: 'long' must be a number from 0 to 1000000"),
        (
            "extend",
            {"input_deadline": 10**5000},
            "input_deadline: is too large a number, and must be from 0 to 1000000",
        ),
    ],
)
def test_a_wrong_argument_of_an_order_is_named(place, operator, command, values, said):
    admin = bs.Admin("https://localhost:1", identity=operator, ca=place.folder / "ca.pem")
    with pytest.raises(bs.ConfigError) as refused:
        admin.order("job", command, "why not", **values)
    assert str(refused.value) == said


def test_what_is_no_text_is_named(place, operator):
    admin = bs.Admin("https://localhost:1", identity=operator, ca=place.folder / "ca.pem")
    for words, said in (
        ((3, "pause", "why"), "job: must be a text, not a int"),
        (("job", "pause", None), "reason: must be a text, not a NoneType"),
        (("job", "pause", "half \ud800"), "reason: must be a text of Unicode, and has half a character at 5"),
    ):
        with pytest.raises(bs.ConfigError) as refused:
            admin.order(*words)
        assert str(refused.value) == said


def test_a_drain_of_all_jobs_names_them_and_their_time(place, run):
    spec = place.spec(parties=1, min_parties=1, rounds=0, input_deadline=60.0)
    options = {"admin": "127.0.0.1:0", "stop_when_done": False}
    with place.coordinator(spec, **options) as coordinator, place.join(coordinator, "slow") as session:
        current = session.next_round(timeout=30)
        status, out, err = run(coordinator, "drain", "--within", "1s", "--reason", "upgrade")
        lines = [
            f"job job: stops after round {current.number}, which is under way, in 1 s at the latest",
            "the coordinator stops then",
        ]
        assert (status, out.splitlines()) == (0, lines), err
        *_, last = coordinator.statuses()
    reason = f"the coordinator drained, and round {current.number} had not ended within 1 s"
    assert last["round"]["reason"] == reason


def test_a_training_function_that_ends_the_process_is_named(place, processes, tmp_path):
    (tmp_path / "training.py").write_text("import sys\n\ndef leave(model, number):\n    sys.exit(3)\n")
    with place.coordinator(place.spec(parties=1, min_parties=1)) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        identity = ["--identity", place.identity("a"), "--ca", place.folder / "ca.pem"]
        party = processes(
            "join", url, "--job", "job", *identity, *place.take_any, "--train", "training:leave"
        )
        out, _ = party.communicate(timeout=60)
    assert party.returncode == 1
    assert "lost a round: " in out
    assert "the training function ended the process with sys.exit(3): raise an error, or return None" in out
