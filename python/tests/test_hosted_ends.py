"""Rounds of a host that end otherwise than by a sum, and what a host may not say."""

import time

import numpy as np
import pytest
from test_hosted import Nodes, names, spec_of

import blindsum as bs
from blindsum.hosted import PendingRound


@pytest.fixture(params=["here", "elsewhere"])
def host(place, request):
    """Begins rounds: the coordinator itself, or an operator of it."""
    options = {"hosted": True, "admin": "127.0.0.1:0", "stop_when_done": False}
    with place.coordinator(spec_of(place), **options) as coordinator:
        if request.param == "here":
            yield coordinator.begin, coordinator.round, coordinator
            return
        at = f"https://localhost:{coordinator.admin.rpartition(':')[2]}"
        admin = bs.Admin(at, identity=place.operator("olga"), ca=place.folder / "ca.pem")

        def begin(*words, **named):
            return admin.begin("job", *words, **named)

        def run(*words, **named):
            return admin.round("job", *words, **named)

        yield begin, run, coordinator


def test_a_host_that_is_interrupted_leaves_no_round_behind(host, monkeypatch):
    """As by Ctrl-C: whoever called `round` has nothing in hand to end it with."""
    begin, run, _ = host

    def interrupted(self, timeout=None):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PendingRound, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(names(0, 1, 2), tag=1, join_within=600)
    while True:
        try:
            begun = begin(names(0, 1, 2), tag=1)
        except bs.CallError:
            # The word is on its way.
            time.sleep(0.01)
        else:
            break
    begun.call_off()
    with pytest.raises(bs.RoundLost):
        begun.result()


def test_who_was_waited_for_to_the_end_is_named(host, place):
    begin, run, coordinator = host
    with pytest.raises(bs.RoundLost) as late:
        run(names(0, 1, 2), tag=1, join_within=60, deadline=0.2)
    assert dict(late.value.lost) == dict.fromkeys(names(0, 1, 2), "it had not come when the round ended")
    with place.join(coordinator, "node-0"):
        begun = begin(names(0, 1, 2), tag=2, join_within=60)
        begun.call_off("enough")
        with pytest.raises(bs.RoundLost) as off:
            begun.result()
    assert off.value.lost["node-0"] == "the round ended while it was waited for"
    assert off.value.lost["node-1"] == "it had not come when the round ended"


@pytest.mark.parametrize("wrong", ["", " b", "nobody\n", "x" * 300, "Klinik", "a..b"])
def test_names_that_no_certificate_has_are_refused_at_once(host, wrong):
    begin, _, _ = host
    with pytest.raises(bs.ConfigError, match="no name of a certificate") as caught:
        begin([*names(0, 1), wrong])
    assert caught.value.field == "parties"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 5])
def test_parties_must_be_a_list(host, wrong):
    begin, _, _ = host
    with pytest.raises(bs.ConfigError, match="parties: must be a list of names"):
        begin(wrong)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hosted": "yes"}, "hosted: 'yes' must be True or False"),
        ({"hosted": True, "choice": "turns"}, "choice: 'turns' cannot be kept"),
    ],
)
def test_a_coordinator_is_hosted_or_not(place, options, said):
    with pytest.raises(bs.ConfigError, match=said), place.coordinator(spec_of(place), **options):
        pass


def test_a_refusal_of_another_tag_is_no_answer_to_this_one(place):
    """A party gave up waiting for step 3, was offered step 4 meanwhile, and asks for step 4 then."""
    with (
        place.coordinator(spec_of(place), hosted=True) as coordinator,
        Nodes(place, coordinator) as nodes,
        place.join(coordinator, "node-0") as late,
    ):
        with pytest.raises(bs.WaitTimeoutError):
            late.next_round(0.1, tag=3)
        told = nodes.train(names(1, 2, 3), 4)
        result = coordinator.round(names(0, 1, 2, 3), tag=4)
        assert result.survivors == names(1, 2, 3)
        assert all(isinstance(one.result(), bs.RoundResult) for one in told.values())
        with pytest.raises(bs.RoundAborted, match="while this party waited for tag 3") as caught:
            late.next_round(10, tag=4)
        assert not isinstance(caught.value, bs.OtherTag)
        # It is in the next one.
        told = nodes.train(names(1, 2), 5)
        begun = coordinator.begin(names(0, 1, 2), tag=5)
        late.next_round(tag=5).submit(np.zeros(4))
        assert begun.result().survivors == names(0, 1, 2)
