"""What a domain hands in, and what it refuses: learners are threads here, and talk over sockets."""

import subprocess
import sys
import threading
from contextlib import ExitStack

import numpy as np
import pytest

import blindsum as bs
from blindsum import errors
from blindsum.domains.messages import from_error, to_error
from blindsum.domains.sums import Own, Rules, Whole
from blindsum.testing.learners import SocketPeers

FLOATS = {"parties": 1, "encoding": "fixed64", "max_weight": 100}
INTEGERS = {"parties": 1, "encoding": "integers", "bits": 8, "max_weight": 4}
GOOD = np.full(4, 0.5)


@pytest.fixture
def learn(place, tmp_path):
    """Runs ``act(job, rank)`` in every learner of a domain; gives what each returned, or its error."""

    def start(spec, act, learners=2, speaker=0, each=None, **options):
        found = [None] * learners
        identity = place.identity("domain")

        def one(port, rank):
            try:
                peers = SocketPeers(tmp_path, rank, learners, speaker=speaker)
                own = options | (each or {}).get(rank, {})
                with bs.join_domain(
                    f"https://localhost:{port}",
                    job="job",
                    identity=identity,
                    ca=place.folder / "ca.pem",
                    policy=bs.Policy(**place.any_job),
                    peers=peers,
                    **own,
                ) as job:
                    found[rank] = act(job, rank)
            except bs.BlindsumError as error:
                found[rank] = error

        with place.coordinator(spec) as coordinator:
            port = coordinator.address.rpartition(":")[2]
            with ExitStack() as waits:
                for rank in range(learners):
                    thread = threading.Thread(target=one, args=(port, rank))
                    thread.start()
                    waits.callback(thread.join, 60)
        return found

    return start


def same(found):
    """The error of all learners, which is the same one."""
    assert {(type(error), str(error)) for error in found} == {(type(found[0]), str(found[0]))}
    return found[0]


REFUSED = [
    (FLOATS, [(GOOD, 1), (np.full(3, 0.5), 1)], (1, "update", None, "the job's dim is 4")),
    (FLOATS, [(np.array([0, 1, np.nan, 1]), 1), (GOOD, 1)], (0, "update", 2, "must be a finite number")),
    (FLOATS, [(GOOD, 1), ("words", 1)], (1, "update", None, "")),
    (FLOATS, [(GOOD, 1), ([GOOD[:2], [1, "x"]], 1)], (1, "update", None, "entry '1.0'")),
    (FLOATS, [(GOOD, 1.5), (GOOD, 1)], (0, "weight", None, "1.5 must be a whole number from 0")),
    (FLOATS, [(GOOD, 1), (GOOD, -1)], (1, "weight", None, "-1 must be a whole number from 0")),
    (FLOATS, [(GOOD, 0), (GOOD, 0)], (None, "weight", None, "0 + 0 = 0 must be at least 1")),
    (FLOATS, [(GOOD, 60), (GOOD, 41)], (None, "weight", None, "60 + 41 = 101 must be at most")),
    (FLOATS, [(np.full(4, 1e308), 9), (GOOD, 1)], (None, "update", 0, "must be a finite number")),
    (INTEGERS, [([1, 2, 3, 256], 1), ([0] * 4, 1)], (0, "update", 3, "from 0 to 2**8 - 1")),
    (INTEGERS, [([2, 3, 4, 6], 1), ([2, 4, 4, 6], 1)], (None, "update", 1, "mean 7 / 2")),
]


def test_counters_of_a_learner_are_left_out_as_by_flatten(place):
    rules = Rules(place.spec(**FLOATS), "mean", None)
    own = Own.checked(rules, 0, {"w": np.array(GOOD), "steps": np.array(3)}, 1)
    assert own.vector.tolist() == list(GOOD)
    with pytest.raises(
        bs.DomainInputError, match="entry 'steps': an integer is neither averaged nor left out"
    ):
        Own.checked(rules, 0, {"w": np.array(GOOD), "steps": 3}, 1)


@pytest.mark.parametrize(("fields", "given", "expected"), REFUSED)
def test_every_learner_hears_whose_field_breaks_which_rule_and_may_submit_again(
    learn, place, fields, given, expected
):
    again = [2, 4, 6, 8] if fields is INTEGERS else GOOD
    refused = [None, None]

    def act(job, rank):
        for rnd in job.rounds():
            with pytest.raises(bs.DomainInputError) as caught:
                rnd.submit(*given[rank])
            refused[rank] = caught.value
            rnd.submit(again)
            mean = rnd.result().tolist()
        return mean

    assert learn(place.spec(**fields), act) == [list(again)] * 2
    error = same(refused)
    learner, field, index, rule = expected
    assert (error.learner, error.field, error.index) == (learner, field, index)
    assert rule in error.rule
    whose = "the domain" if learner is None else f"learner {learner} of the domain"
    assert str(error) == f"{field} of {whose}: {error.rule}"


def test_a_sum_that_the_job_cannot_hold_is_refused(learn, place):
    def act(job, rank):
        for rnd in job.rounds():
            rnd.submit([1, 2, 200, 4])

    error = same(learn(place.spec(**INTEGERS), act, combine="sum"))
    assert (error.learner, error.field, error.index) == (None, "update", 2)
    assert "the sum 400 of the learners' integers must be at most 2**8 - 1" in error.rule


def result(update, weight):
    """What a learner does that submits once."""

    def act(job, rank):
        for rnd in job.rounds():
            rnd.submit(update(rank), weight(rank))
            done = rnd.outcome()
        return done.mean.tolist(), done.total_weight, job.speaks

    return act


def test_a_mean_of_integers_is_exact(learn, place):
    act = result(lambda rank: [rank, 255, 3 * rank, 4], lambda rank: (1, 3)[rank])
    expected = ([0.75, 255, 2.25, 4], 4)
    error = same(learn(place.spec(**INTEGERS), act))
    assert (error.field, error.index) == ("update", 0)
    act = result(lambda rank: [4 * rank, 255, 8 - 8 * rank, 4], lambda rank: (1, 3)[rank])
    expected = ([3, 255, 2, 4], 4)
    assert [one[:2] for one in learn(place.spec(**INTEGERS), act)] == [expected] * 2


def test_any_integers_are_added_exactly(place):
    # In one part or in four, and never as floats.
    largest = 2**64 - 1
    for bits, values, weights in (
        (64, [largest, largest - 2], [2**32 - 1, 2**32 - 1]),
        (32, [7, 2**32 - 1], [1, 3]),
        (64, [2**62, 2**62], [1, 1]),
        (64, [2**62 - 1, 2**62], [1, 1]),
    ):
        rules = Rules(place.spec(encoding="integers", bits=bits), "sum", None)
        owns = [
            Own.checked(rules, 0, [value] * 4, weight) for value, weight in zip(values, weights, strict=True)
        ]
        whole = Whole.of(rules, [own.said() for own in owns])
        added = sum(own.addend(whole.parts) for own in owns)
        exact = sum(value * weight for value, weight in zip(values, weights, strict=True))
        if exact < 2**bits:
            assert whole.handed_in(rules, added).tolist() == [exact] * 4
        else:
            with pytest.raises(bs.DomainInputError, match=f"the sum {exact} of"):
                whole.handed_in(rules, added)


def test_a_domain_counts_as_it_says(learn, place):
    # Their own weights still count among the learners, and may be more than the job's largest.
    spec = place.spec(parties=1, encoding="fixed64")
    act = result(lambda rank: np.full(4, rank / 4), lambda rank: (100, 300)[rank])
    assert [one[:2] for one in learn(spec, act, counts_as=1)] == [([0.1875] * 4, 1)] * 2


def test_any_learner_may_speak(learn, place):
    act = result(lambda rank: np.full(4, rank / 4), lambda rank: 1)
    found = learn(place.spec(**FLOATS), act, learners=3, speaker=2)
    assert found == [([0.25] * 4, 3, rank == 2) for rank in range(3)]


@pytest.mark.parametrize("other", [0, 1])
def test_learners_whose_calls_do_not_match_end_the_domain(learn, place, other):
    def act(job, rank):
        for rnd in job.rounds():
            if rank != other:
                rnd.submit(GOOD)
            rnd.result()

    error = same(learn(place.spec(**FLOATS), act))
    assert (type(error), error.learner) == (bs.DomainError, 1)
    calls = ["submit of round 1", "result of round 1"]
    assert "it is at {}, where the speaker is at {}".format(*calls[:: 1 if other == 0 else -1]) in str(error)


def test_learners_that_join_differently_end_the_domain(learn, place):
    error = same(learn(place.spec(**FLOATS), None, each={1: {"counts_as": 2}}))
    assert (type(error), error.learner) == (bs.DomainError, 1)
    assert "it joined with" in str(error)


def test_what_the_job_cannot_keep_is_refused_at_every_learner(learn, place):
    spec = place.spec(**FLOATS)
    for options, field in (
        ({"combine": "median"}, "combine"),
        ({"combine": "sum"}, "combine"),
        ({"counts_as": 101}, "counts_as"),
    ):
        error = same(learn(spec, None, **options))
        assert (type(error), error.field) == (bs.ConfigError, field)


@pytest.mark.parametrize(
    "wrong", [{"counts_as": 0}, {"counts_as": 1.5}, {"timeout": 0}, {"timeout": "long"}], ids=str
)
def test_arguments_that_cannot_be_right_are_refused_before_anything_else(wrong):
    with pytest.raises(bs.ConfigError) as caught:
        bs.join_domain("https://localhost:1", job="job", identity="a", ca="ca.pem", **wrong)
    assert caught.value.field == next(iter(wrong))


def test_without_torch_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(bs.ConfigError) as caught:
        bs.join_domain("https://localhost:1", job="job", identity="a", ca="ca.pem")
    assert caught.value.field == "group"
    assert "pip install 'blindsum[domains]'" in caught.value.rule


def test_nothing_imports_torch_before_it_is_needed():
    program = "import sys, blindsum, blindsum.domains; blindsum.join_domain; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


SAMPLES = [
    errors.BlindsumError("text"),
    errors.ConfigError("field", "rule"),
    errors.SpecError("field", "rule"),
    errors.SpecError("field", "rule", "job.toml"),
    errors.LayoutError(3, "rule"),
    errors.InputError("field", "rule", 3),
    errors.Fault("party 3", "kind"),
    errors.RoundAborted(2, "reason", True),
    errors.ResultMissed(2, "reason"),
    errors.RoundUnknown(2, "reason"),
    errors.SubmitError(2, "over", "rule"),
    errors.PolicyError("min_honest", "rule"),
    errors.PolicyError(None, "rule"),
    errors.IdentityError("text"),
    errors.NetworkError("text"),
    errors.WaitTimeoutError("text"),
    errors.SessionClosedError("text"),
    errors.ForkedError("text"),
    errors.StoreError("text"),
    errors.HiddenModelError("text"),
    errors.MemoryLimitError("text"),
    errors.ModelError("text"),
    errors.DomainError(1, "reason"),
    errors.DomainInputError(1, "update", "rule", 2),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_of_the_speaker_is_the_same_at_every_learner(error):
    back = to_error(from_error(error), 0)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_every_error_of_a_job_is_among_them():
    kinds = (one for one in vars(errors).values() if isinstance(one, type))
    defined = {one for one in kinds if issubclass(one, bs.BlindsumError)}
    # Those of a simulation, an operator, a file of the coordinator, data and a host are raised in no job.
    of_others = {errors.PromiseBroken, errors.OrderError, errors.AuditError, errors.DataError}
    of_others |= {errors.CallError, errors.RoundLost, errors.OtherContent, errors.OtherTag}
    assert defined - {type(error) for error in SAMPLES} == of_others
