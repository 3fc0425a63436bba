"""The Flower package as far as it needs no flwr: settings, and the rounds of its coordinator."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import blindsum as bs
from blindsum import pki
from blindsum.flower.direct import Identity, Invitation, Rounds, Sum, check_host, take_part
from blindsum.flower.settings import NodeSettings, RunSettings, check_job, check_nodes
from blindsum.flower.simulated import check_node, is_simulated_node, summed


def test_the_package_needs_no_flwr_to_be_imported():
    code = (
        "import sys; sys.modules['flwr'] = None\n"
        "import blindsum, blindsum.flower\n"
        "blindsum.flower.mod(); blindsum.flower.SecureGrid"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_blindsum_does_not_import_its_flower_package():
    code = "import sys, blindsum; blindsum.JobSpec; sys.exit('blindsum.flower' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_policy_of_a_node_is_read_from_its_configuration():
    found = NodeSettings.read(
        {
            "partition-id": 3,
            "blindsum-identity": "/keys/hospital-a",
            "blindsum-ca": "/keys/ca.pem",
            "blindsum-policy-allowed-protocols": "secagg+, pss",
            "blindsum-policy-require-adversary": "none",
            "blindsum-policy-min-honest": 4,
            "blindsum-policy-min-corrupt": 0.2,
        }
    )
    assert found.identity == "/keys/hospital-a"
    assert found.policy == bs.Policy(
        allowed_protocols=["secagg+", "pss"], require_adversary=None, min_honest=4, min_corrupt=0.2
    )
    assert not found.allows_plain
    assert not found.allows_arrays
    assert NodeSettings.read({}).policy == bs.Policy()


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"blindsum-policy-min-honset": 4}, "blindsum-policy-min-honset"),
        ({"blindsum-policy-min-honest": "four"}, "blindsum-policy-min-honest"),
        ({"blindsum-policy-allowed-protocols": 3}, "blindsum-policy-allowed-protocols"),
        ({"blindsum-policy-allowed-protocols": "secag"}, "blindsum-policy-allowed-protocols"),
        ({"blindsum-policy-plain": "false"}, "blindsum-policy-plain"),
        ({"blindsum-policy-arrays": 1}, "blindsum-policy-arrays"),
        ({"blindsum-identity": "/keys/a"}, "blindsum-ca"),
        ({"blindsum-identity": ""}, "blindsum-identity"),
        ({"blindsum-policy-min-cohort-change": 2}, "blindsum-policy-min-cohort-change"),
        ({"blindsum-policy-job-hash": "0" * 64}, "blindsum-policy-job-hash"),
        ({"blindsum-give-up-after": -1}, "blindsum-give-up-after"),
        ({"blindsum-protocol": "plain"}, "blindsum-protocol"),
        (
            {"blindsum-identity": "/keys/a", "blindsum-ca": "/keys", "blindsum-trust-run": True},
            "blindsum-trust-run",
        ),
    ],
)
def test_an_error_names_the_key_of_the_node(config, field):
    with pytest.raises(bs.ConfigError) as caught:
        NodeSettings.read(config)
    assert caught.value.field == field


def test_a_run_says_its_job():
    config = {
        "learning-rate": 0.1,
        "blindsum-protocol": "fssa",
        "blindsum-adversary": "semi-honest",
        "blindsum-clip": 2,
        "blindsum-max-weight": 500,
        "blindsum-metrics": "train_loss:0:20, accuracy:0:1,other",
        "blindsum-metric-bound": 7.5,
    }
    settings = RunSettings.read(config, {"bits": 16})
    spec = settings.spec("flower-1-1", dim=10, parties=5)
    assert str(spec.protocol) == "fssa"
    assert spec.clip == 2.0
    assert spec.max_weight == 500
    assert spec.encoding.bits == 16
    assert spec.rounds == 1
    assert spec.model_update == "none"
    assert spec.metrics == (
        bs.Metric("train_loss", 0.0, 20.0),
        bs.Metric("accuracy", 0.0, 1.0),
        bs.Metric("other", -7.5, 7.5),
    )


@pytest.mark.parametrize(
    ("config", "given", "field"),
    [
        ({"blindsum-protokol": "fssa"}, {}, "blindsum-protokol"),
        ({"blindsum-identity": "/keys/a"}, {}, "blindsum-identity"),
        ({"blindsum-policy-plain": True}, {}, "blindsum-policy-plain"),
        ({"blindsum-bits": 16.5}, {}, "blindsum-bits"),
        ({"blindsum-clip": "1"}, {}, "blindsum-clip"),
        ({"blindsum-transport": "pigeon"}, {}, "blindsum-transport"),
        ({"blindsum-reply": "all"}, {}, "blindsum-reply"),
        ({"blindsum-coordinator-identity": "/keys/agg"}, {}, "blindsum-coordinator-ca"),
        ({}, {"protokol": "fssa"}, "protokol"),
    ],
)
def test_an_error_names_the_key_of_the_run(config, given, field):
    with pytest.raises(bs.ConfigError) as caught:
        RunSettings.read(config, given)
    assert caught.value.field == field


def test_metrics_without_a_right_range_are_refused():
    with pytest.raises(bs.ConfigError) as caught:
        _ = RunSettings.read({"blindsum-metrics": "loss:0"}, {}).declared
    assert caught.value.field == "blindsum-metrics"


@pytest.mark.parametrize("protocol", ["secagg+", "fssa", "pss", "plain", "paillier-ring"])
@pytest.mark.parametrize("adversary", ["active", "semi-honest"])
@pytest.mark.parametrize("parties", [3, 4, 10])
def test_the_smallest_sum_is_one_that_policies_accept(protocol, adversary, parties):
    settings = RunSettings(protocol=protocol, adversary=adversary)
    assert settings.spec("flower", 1, parties).quorum >= 3


def test_two_nodes_are_refused_with_what_to_change():
    with pytest.raises(bs.ConfigError, match="num-supernodes") as caught:
        check_nodes(2, "secagg+")
    assert caught.value.field == "min_train_nodes"
    check_nodes(2, "plain")
    check_nodes(3, "secagg+")


@pytest.mark.parametrize("protocol", ["flashe", "mpc3"])
def test_protocols_that_a_strategy_cannot_use_are_refused(protocol):
    spec = bs.JobSpec(protocol=protocol, parties=4, dim=1)
    with pytest.raises(bs.ConfigError) as caught:
        check_job(spec, "direct")
    assert caught.value.field == "blindsum-protocol"


def test_a_node_of_a_deployment_does_not_take_it_for_a_simulation():
    config = {"partition-id": 0, "num-partitions": 4}
    assert not is_simulated_node(config)
    with pytest.raises(bs.ConfigError) as caught:
        check_node(config, NodeSettings.read(config))
    assert caught.value.field == "blindsum-transport"


def test_a_simulated_round_has_the_mean_and_bears_what_the_job_bears():
    spec = RunSettings(metrics="loss:0:10").spec("flower", 3, 4)
    updates = [np.full(3, 0.1 * place) for place in range(4)]
    metrics = [{"loss": float(place)} for place in range(4)]
    found = summed(spec, updates, [1, 2, 3, 4], metrics, 7)
    assert isinstance(found, Sum)
    assert np.allclose(found.mean, 0.2, atol=spec.max_error)
    assert found.total_weight == 10
    assert found.metrics["loss"] == pytest.approx(2.0, abs=1e-5)
    left = summed(spec, updates[:3], [1, 2, 3], metrics[:3], 7)
    assert isinstance(left, Sum)
    assert np.allclose(left.mean, 0.8 / 6, atol=spec.max_error)
    assert "too few parties" in summed(spec, updates[:2], [1, 2], metrics[:2], 7)


# Rounds


class Answer:
    """What training replies, as far as `take_part` looks at it."""

    def has_error(self):
        return False


@pytest.fixture
def place(tmp_path):
    pki.init(tmp_path)
    pki.issue(tmp_path, "agg", hosts=["127.0.0.1"])
    for number in range(5):
        pki.issue(tmp_path, f"node-{number}")
    return tmp_path


def spec_of(step, parties=4, **fields):
    fields = {"min_parties": 3, "join_deadline": 20.0, "input_deadline": 20.0} | fields
    return bs.JobSpec(
        job=f"flower-{step}",
        protocol="secagg+",
        parties=parties,
        dim=3,
        model_update="none",
        encoding=bs.Quantised(bits=20, max_weight=100),
        **fields,
    )


class Node(threading.Thread):
    """A node in a thread; ``train`` is called in place of training."""

    def __init__(self, place, url, spec, number, train=Answer, value=0.0, weight=1):
        super().__init__(daemon=True)
        self.result = self.error = None
        self.work = (place, url, spec, number, train, value, weight)
        self.start()

    def run(self):
        place, url, spec, number, train, value, weight = self.work
        try:
            _, _, self.result = take_part(
                Invitation((url,), spec.job, spec.hash, 30.0),
                Identity(place / f"node-{number}", place),
                bs.Policy(),
                2.0,
                train,
                lambda reply, job: (np.full(3, value), weight, {}),
            )
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error


def ended(*nodes):
    for node in nodes:
        node.join(60)
        assert not node.is_alive()


def test_a_round_gives_the_host_and_the_nodes_one_sum(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    for step in (1, 2):
        spec = spec_of(step)
        url = rounds.begin(spec)
        nodes = [Node(place, url, spec, n, value=0.1 * n, weight=n + 1) for n in range(4)]
        ended(*nodes)
        assert rounds.wait(10)
        found = rounds.result()
        assert isinstance(found, Sum)
        assert np.allclose(found.mean, 0.2, atol=spec.max_error)
        assert found.total_weight == 10
        assert found.survivors == ("node-0", "node-1", "node-2", "node-3")
        assert [node.error for node in nodes] == [None] * 4
        assert {node.result.result for node in nodes} == {found.result}
    rounds.end()


def test_a_node_whose_training_fails_costs_no_deadline(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    spec = spec_of(1, join_deadline=600.0, input_deadline=600.0)

    def fail():
        raise ValueError("no data")

    url = rounds.begin(spec)
    broken = Node(place, url, spec, 0, train=fail)
    nodes = [Node(place, url, spec, n, value=0.3) for n in (1, 2, 3)]
    # Long before a deadline.
    ended(broken, *nodes)
    assert isinstance(broken.error, ValueError)
    assert rounds.wait(10)
    assert rounds.result().survivors == ("node-1", "node-2", "node-3")
    rounds.end()


def test_a_node_that_never_comes_is_not_waited_for_once_flower_says_so(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    spec = spec_of(1, join_deadline=600.0)
    url = rounds.begin(spec)
    nodes = [Node(place, url, spec, n, value=0.3) for n in (1, 2, 3)]
    assert not rounds.wait(1)
    assert not rounds.began
    rounds.failed()
    ended(*nodes)
    assert rounds.wait(10)
    assert rounds.result().survivors == ("node-1", "node-2", "node-3")
    rounds.end()


def test_a_round_to_which_too_few_come_does_not_begin(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    rounds.begin(spec_of(1, join_deadline=600.0))
    for _ in range(4):
        rounds.failed()
    assert rounds.wait(10)
    assert not rounds.began
    assert "too few nodes came: 0 of 4" in rounds.result()
    rounds.end()


def test_an_update_of_one_step_never_gets_into_the_next(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    first = spec_of(1, input_deadline=2.0)
    go_on = threading.Event()

    def slow():
        go_on.wait(60)
        return Answer()

    url = rounds.begin(first)
    late = Node(place, url, first, 0, train=slow, value=0.9)
    ended(*[Node(place, url, first, n, value=0.1) for n in (1, 2, 3)])
    assert rounds.wait(20)
    assert rounds.result().survivors == ("node-1", "node-2", "node-3")
    second = spec_of(2, parties=3)
    url = rounds.begin(second)
    go_on.set()
    ended(late)
    assert isinstance(late.error, bs.BlindsumError)
    ended(*[Node(place, url, second, n, value=0.2) for n in (1, 2, 3)])
    assert rounds.wait(10)
    assert np.allclose(rounds.result().mean, 0.2, atol=second.max_error)
    rounds.end()


def test_a_round_that_is_lost_says_why(place):
    rounds = Rounds(Identity(place / "agg", place), "127.0.0.1:0", "")
    spec = spec_of(1, min_parties=4)

    def fail():
        raise ValueError("no data")

    url = rounds.begin(spec)
    nodes = [Node(place, url, spec, n, train=fail if n == 0 else Answer) for n in range(4)]
    ended(*nodes)
    assert rounds.wait(10)
    assert rounds.began
    assert "too few parties" in rounds.result()
    assert isinstance(nodes[1].error, bs.RoundAborted)
    rounds.end()


def test_a_url_that_is_not_in_the_certificate_is_refused(place):
    with pytest.raises(bs.ConfigError) as caught:
        check_host("https://elsewhere.example:9443", place / "agg")
    assert caught.value.field == "blindsum-url"
