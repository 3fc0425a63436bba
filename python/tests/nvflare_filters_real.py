"""What a filter of a site lets out and takes, with NVFlare's own containers: `make nvflare`."""

import numpy as np
import pytest
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_constant import ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel

import blindsum as bs
from blindsum.hosted import hash_of
from blindsum.nvflare.aggregators import SecureAggregator
from blindsum.nvflare.filters import _arrays_of, _told
from blindsum.nvflare.params import content_of
from blindsum.nvflare.texts import RECORD

ROUND = {"url": "https://a", "job": "j", "hash": "0" * 64, "reply": "hash", "parties": {}}


def metrics(**more):
    return DXO(DataKind.METRICS, data={"loss": 0.5, "accuracy": np.float32(1)} | more).to_shareable()


def with_entry(name, value):
    result = metrics()
    result[name] = value
    return result


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


def with_header(name, value):
    result = metrics()
    result.set_header(name, value)
    return result


def test_metrics_may_leave():
    assert _arrays_of(metrics(note="fold 3")) is None
    assert _arrays_of(metrics(passed=True, confusion=[[5, 1], [0, 4]], best=None, step=10**12)) is None
    assert _arrays_of(Shareable()) is None


@pytest.mark.parametrize(
    "result",
    [
        metrics(model=np.zeros(3)),
        metrics(model=[0.0] * 65),
        metrics(model="0.5 " * 300),
        metrics(model=b"bytes"),
        metrics(model={"deep": [np.zeros(1)]}),
        with_entry("model", {"w": np.zeros(3)}),
        with_header("model", np.zeros(3)),
        DXO(DataKind.WEIGHTS, data={"w": np.zeros(3)}).to_shareable(),
        DXO(DataKind.WEIGHTS, data={}, meta={"model": np.zeros(3)}).to_shareable(),
        Shareable({"anything": np.zeros(3)}),
        metrics(correct=[True, False] * 50),
        metrics(correct=[None, True] * 50),
        metrics(notes=["short"] * 100),
        metrics(notes=["x" * 1000] * 20),
        metrics(**{f"{n}" + "x" * 1000: 1 for n in range(20)}),
        metrics(step=1 << 1_000_000),
        metrics(model=nested(2000)),
        metrics(wide=np.longdouble(1)),
        metrics(two=np.complex128(1)),
    ],
)
def test_nothing_that_could_be_a_model_leaves_as_it_is(result):
    assert _arrays_of(result) is not None


def test_a_server_cannot_leave_the_hash_of_the_job_out():
    """With it the binding of what sites train on would be off."""
    task = Shareable()
    task.set_header(RECORD, ROUND)
    assert _told(task)["hash"] == "0" * 64
    for wrong in ("", "0" * 63, "x" * 64, None):
        task.set_header(RECORD, ROUND | {"hash": wrong})
        with pytest.raises(bs.ConfigError, match="no round of Blindsum"):
            _told(task)


def test_a_result_is_of_the_site_that_sent_it_whatever_it_says():
    """A site that names another one would have that one reported, or not be missed itself."""
    aggregator, context, peer = SecureAggregator(), FLContext(), FLContext()
    peer.set_prop(ReservedKey.IDENTITY_NAME, "site-1", private=False)
    context.set_peer_context(peer)
    said = DXO(DataKind.WEIGHT_DIFF, data={}, meta={"client_name": "site-2", RECORD: {"result": "a"}})
    aggregator.accept(said.to_shareable(), context)
    assert aggregator._replied == {"site-1": "a"}
    # FedAvg's controller has written the name of the connection into the model.
    aggregator.reset(FLContext())
    aggregator.accept_model(FLModel(params={}, meta={"client_name": "site-3", RECORD: {"result": "b"}}))
    assert aggregator._replied == {"site-3": "b"}


def test_what_training_reads_of_a_task_is_bound():
    task = DXO(DataKind.WEIGHTS, data={"w": np.zeros(3)}, meta={"lr": 0.1}).to_shareable()
    task.set_header("num_rounds", 3)
    found = hash_of(content_of(task))
    task.set_header("__task_id__", "of this site")
    task.set_header(RECORD, ROUND)
    assert hash_of(content_of(task)) == found
    task.set_header("num_rounds", 100)
    assert hash_of(content_of(task)) != found
