"""What a caller and the lines of `join` are told of a round is never the opposite of what happened."""

import json
import logging

import numpy as np
import pytest

import blindsum as bs
from blindsum.cli.told import Told
from blindsum.clipping import ClippingLog
from blindsum.rounds import Clipped, Round


class NativeRound:
    """A round of which the core says this, once an update was given."""

    number = 7
    tag = None
    parties = ("a", "b", "c")
    model_version = 0

    def __init__(self, *ends):
        self._ends = list(ends)
        self._needs_update = True
        self.asked = 0

    def needs_update(self):
        return self._needs_update

    def submit(self, vector, weight, _metrics):
        self._needs_update = False

    def result(self, timeout):
        self.asked += 1
        raise self._ends.pop(0)


def given(*ends):
    """A round to which an update was given, and which ends so."""
    spec = bs.JobSpec(protocol="plain", parties=3, dim=4)
    native = NativeRound(*ends)
    current = Round(native, spec, ClippingLog(spec))
    current.submit(np.zeros(4))
    return current, native


FULL = bs.StoreError("state folder x: no space left on device")


def test_what_ended_the_session_is_told_again_and_the_core_not_asked():
    current, native = given(FULL)
    for _ in range(3):
        with pytest.raises(bs.StoreError, match="no space left"):
            current.result()
    assert native.asked == 1
    assert not current.submitted


def test_a_wait_that_was_too_short_may_be_repeated():
    current, native = given(bs.WaitTimeoutError("1 s"), bs.WaitTimeoutError("1 s"), FULL)
    for _ in range(2):
        with pytest.raises(bs.WaitTimeoutError):
            current.result(1.0)
    with pytest.raises(bs.StoreError):
        current.result()
    assert native.asked == 3


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def told(current, capsys):
    """The line of a round that is lost for its party."""
    says = Told(as_json=True)
    says.begins(current)
    assert current.result() is None
    says.lost(current.lost)
    (line,) = lines(capsys)
    return line


def test_a_result_that_is_missed_is_no_round_without_one(capsys):
    line = told(given(bs.ResultMissed(7, "it came too late"))[0], capsys)
    assert (line["round"], line["outcome"]) == (7, "missed")
    assert "counts this party's update" in line["fault"]


def test_a_fault_after_the_update_says_nothing_of_the_round(capsys):
    line = told(given(bs.Fault("server", "bad survivor list"))[0], capsys)
    assert (line["round"], line["outcome"]) == (7, "unknown")


def test_a_round_without_a_sum_is_one(capsys):
    line = told(given(bs.RoundAborted(7, "too few were left", only_me=False))[0], capsys)
    assert (line["round"], line["outcome"]) == (7, "abort")


def test_a_fault_before_any_update_is_an_end(capsys):
    says = Told(as_json=True)
    says.lost(bs.Fault("server", "two different beginnings"))
    (line,) = lines(capsys)
    assert line["outcome"] == "abort"


def test_whoever_leaves_with_an_update_out_is_told_and_the_cause_comes_through(capsys):
    """The state folder is full: what ended the session is told behind the line of the round."""
    says = Told(as_json=True)
    says.begins(given(FULL)[0])
    says.left()
    (line,) = lines(capsys)
    assert (line["round"], line["outcome"]) == (7, "unknown")
    assert "no space left" in line["fault"]


def test_bounds_of_earlier_rounds_that_go_on_cutting_are_told_again(caplog):
    spec = bs.JobSpec(protocol="plain", parties=3, dim=4, encoding=bs.Quantised(clipping="aciq"))
    log = ClippingLog(spec)
    with caplog.at_level(logging.INFO, "blindsum"):
        for number in range(1, 21):
            log.tell(number, Clipped(0, None))
            log.tell(number, Clipped(2, None))
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text.split(":")[0] for text in warned] == [f"job 'job', round {n}" for n in (1, 4, 16)]
    assert "earlier rounds" not in warned[0]
    assert "so it was in 15 earlier rounds" in warned[2]
    assert all(text.endswith("take clipping = tensor") for text in warned)
    assert len(caplog.records) == 20


class Unwritable:
    """A round at a party whose state folder is full: nothing of an update goes out."""

    number, tag, parties, model_version = 1, None, ("a",), 0
    given = False

    def needs_update(self):
        return not self.given

    def submit(self, *_):
        self.given = True
        raise bs.StoreError("state folder s: No space left on device")


def test_an_update_that_never_went_out_is_not_said_to_be_out():
    spec = bs.JobSpec(protocol="plain", parties=3, dim=2)
    current = Round(Unwritable(), spec, ClippingLog(spec))
    with pytest.raises(bs.StoreError, match="No space left"):
        current.submit(np.array([0.5, 0.5]))
    assert not current.submitted
    # Whoever asks hears the same again.
    with pytest.raises(bs.StoreError, match="No space left"):
        current.result(timeout=0)
