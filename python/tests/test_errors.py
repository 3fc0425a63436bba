"""Errors go from process to process, and into copies, as they are."""

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest

import blindsum as bs
from blindsum import errors
from blindsum.domains import PeerLost
from blindsum.training.callbacks import Raised

SAMPLES = [
    bs.ForkedError("this process was forked"),
    bs.LayoutError(3, "entry 3: this party has none"),
    errors.BlindsumError("something"),
    errors.BlindsumError(),
    errors.ConfigError("rounds", "1 <= rounds = 0"),
    errors.SpecError("dim", "1 <= dim = 0"),
    errors.InputError("update", "too long"),
    errors.InputError("update", "coordinate 3 is not finite", 3),
    errors.Fault("server", "sent something wrong"),
    errors.Fault("round", "too few were left"),
    errors.RoundAborted(3, "too few", True),
    errors.RoundAborted(3, "too few"),
    errors.OtherContent(3, "round 3 of the tag 4 is about something else", 4),
    errors.OtherTag(3, "round 3 has the tag 5, and this party waits for tag 4", 4, 5),
    errors.RoundLost(3, "too few", 7, {"node-2": "it left"}),
    errors.CallError("busy", "round of job a: one is under way"),
    errors.ResultMissed(3, "too late"),
    errors.RoundUnknown(3, "not reached"),
    errors.SubmitError(3, "over", "the round is over"),
    errors.PolicyError("min_honest", "policy min_honest: 2 are left"),
    errors.PolicyError(None, "too many graphs"),
    errors.IdentityError("no key"),
    errors.NetworkError("not reached"),
    errors.WaitTimeoutError("waited 3 s in vain: the next round"),
    errors.SessionClosedError("closed"),
    errors.StoreError("in use"),
    errors.MemoryLimitError("too large"),
    errors.ModelError("not finite"),
    errors.AuditError("audit.jsonl", 7, "has the number 8"),
    errors.DataError("train-labels-idx1-ubyte", "it has no example"),
    errors.OrderError("state", "pause job a: the job is done; only a running job can be paused"),
    errors.PromiseBroken(7, "kill", "two sums", ["a", "b"]),
    errors.HiddenModelError("only the parties"),
    errors.DomainError(2, "lost"),
    errors.DomainInputError(None, "weight", "0 < 1"),
    errors.DomainInputError(2, "update", "not finite", 5),
    PeerLost(2, "silent"),
]


def classes():
    """Every exception that a module of the package defines and that can reach a caller."""
    found = set()
    package = importlib.import_module("blindsum")
    for module in pkgutil.walk_packages(package.__path__, "blindsum."):
        # What needs a package that may be missing defines none.
        if module.name in (
            "blindsum.domains.gloo",
            "blindsum.learning.nets",
            "blindsum.__main__",
        ) or module.name.startswith("blindsum.cli."):
            continue
        # Those of NVFlare define none, and need it.
        if module.name.startswith("blindsum.nvflare."):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Exception):
                found.add(value)
    return {kind for kind in found if kind.__module__.startswith("blindsum.")}


def test_there_is_a_sample_of_every_class():
    # What a function of the caller's raised goes to the command line only, what a node of Flower tells its
    # server to that alone.
    own = {kind for kind in classes() if kind.__module__.startswith("blindsum.flower.")}
    assert {type(sample) for sample in SAMPLES} == classes() - own - {errors.Portable, Raised}


def same(again, error):
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert vars(again) == vars(error)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickle_and_copies(error):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        same(pickle.loads(pickle.dumps(error, protocol)), error)
    same(copy.copy(error), error)
    same(copy.deepcopy(error), error)
    # Copies of copies too, in something else, with notes and what a program adds.
    noted = copy.copy(error)
    noted.add_note("in round 3")
    noted.shard = {"rank": 2}
    (again,) = pickle.loads(pickle.dumps([pickle.loads(pickle.dumps(noted))]))
    same(again, noted)
    assert again.__notes__ == ["in round 3"]


def test_an_input_error_has_its_parts():
    error = bs.InputError("updates[2]", "coordinate 3 is not a finite number", 3)
    assert (error.field, error.rule, error.index) == ("updates[2]", "coordinate 3 is not a finite number", 3)
    assert str(error) == "updates[2]: coordinate 3 is not a finite number"


def test_an_input_error_of_the_core_has_its_parts():
    spec = bs.JobSpec(protocol="plain", parties=2, dim=3)
    with pytest.raises(bs.InputError) as caught:
        bs.simulate(spec, updates=[np.zeros(3), np.array([0.0, np.inf, 0.0])])
    assert (caught.value.field, caught.value.index) == ("updates[1]", 1)
    assert str(caught.value) == f"updates[1]: {caught.value.rule}"


def test_an_input_error_of_a_learner_says_whose_it_is_and_where():
    named = bs.InputError("metrics['loss']", "must be a number, not str")
    error = bs.DomainInputError.of(1, "metrics", named)
    assert str(error) == "metrics of learner 1 of the domain: metrics['loss']: must be a number, not str"
    assert (error.field, error.rule, error.learner) == ("metrics", str(named), 1)
    error = bs.DomainInputError.of(1, "update", bs.InputError("update", "coordinate 3 is nan", 3))
    assert str(error) == "update of learner 1 of the domain: coordinate 3 is nan"
    assert (error.field, error.rule, error.index) == ("update", "coordinate 3 is nan", 3)


def test_an_error_of_a_subclass_survives():
    same(pickle.loads(pickle.dumps(Own(4))), Own(4))


class Own(bs.ConfigError):
    """A program's own error, with arguments of its own."""

    def __init__(self, shard):
        super().__init__("shard", f"{shard} is not there")
        self.shard = shard


def raise_sample(place, _=None):
    raise SAMPLES[place]


def bad_job(_):
    return bs.JobSpec(protocol="secagg", parties=3, dim=0).hash


def check_pool(start):
    pool = multiprocessing.get_context(start).Pool(1)
    for place, error in enumerate(SAMPLES):
        with pytest.raises(type(error)) as raised:
            pool.map_async(partial(raise_sample, place), [0]).get(timeout=60)
        same(raised.value, error)
    with pytest.raises(bs.SpecError) as raised:
        pool.map_async(bad_job, [0]).get(timeout=60)
    assert raised.value.field == "dim"
    pool.close()
    pool.join()


def check_executor(start):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(start)) as executor:
        for place, error in enumerate(SAMPLES):
            with pytest.raises(type(error)) as raised:
                executor.submit(raise_sample, place).result(timeout=60)
            same(raised.value, error)
        with pytest.raises(bs.SpecError):
            executor.submit(bad_job, 0).result(timeout=60)


CHECKS = {"pool": check_pool, "executor": check_executor}


@pytest.mark.parametrize("start", ["spawn", "fork"])
@pytest.mark.parametrize("check", CHECKS)
def test_workers_give_errors_to_their_caller(check, start):
    # In a process of its own: Python keeps a process of pools that would outlive this test.
    words = [sys.executable, "-W", "ignore::DeprecationWarning", __file__, check, start]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    CHECKS[sys.argv[1]](sys.argv[2])
