"""Arrays that take no part in sums: `make flower`."""

import numpy as np
from flower_real import averaged, federation
from flower_world_real import ANY, Threads
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import blindsum.flower

_ = federation


def test_arrays_of_integers_and_truth_values_stay_what_they_are_for_all_rounds(federation):
    """Flower's own average makes floats of them: in the next round they would be summed and clipped."""
    seen = []

    def app(mods):
        found = ClientApp(mods=mods)

        @found.train()
        def train(message, context):
            seen.append({name: array.numpy() for name, array in message.content["arrays"].items()})
            arrays = dict(message.content["arrays"])
            arrays["w"] = Array(arrays["w"].numpy() + np.float32(0.25))
            arrays["count"] = Array(np.asarray(arrays["count"].numpy() + 50))
            content = {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 10})}
            return Message(RecordDict(content), reply_to=message)

        return found

    first = {
        "w": Array(np.zeros(3, np.float32)),
        "count": Array(np.asarray(7, np.int64)),
        "mask": Array(np.array([True, False, True])),
    }
    inner = Threads(app([blindsum.flower.mod()]), federation.nodes(4, **ANY))
    strategy = averaged()
    with blindsum.flower.SecureGrid(inner, {}, strategy=strategy, **federation.server) as grid:
        result = strategy.start(grid=grid, initial_arrays=ArrayRecord(first), num_rounds=3, timeout=60)
    assert len(seen) == 12
    for arrays in seen:
        assert (arrays["count"].dtype, int(arrays["count"])) == (np.int64, 7)
        assert (arrays["mask"].dtype, arrays["mask"].tolist()) == (np.bool_, [True, False, True])
    assert np.allclose(result.arrays["w"].numpy(), 0.75, atol=1e-4)
    assert int(result.arrays["count"].numpy()) == 7
    assert result.arrays["mask"].numpy().astype(bool).tolist() == [True, False, True]
