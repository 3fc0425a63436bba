"""The nodes' side: an app for each way in which updates come together."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS

import blindsum.flower
from blindsum.flower.texts import RECORD
from blindsum.rounds import Round

from . import work


class Lost(RuntimeError):
    """The node is lost on purpose."""


def node_of(context: Any) -> int:
    """The partition of a node."""
    return int(context.node_config["partition-id"])


def round_of(message: Any) -> int:
    """The number of the round: that of the strategy, of Blindsum's exchanges in it, or of flwr's SecAgg+."""
    configs = message.content.config_records
    if "config" in configs:
        return int(configs["config"]["server-round"])
    return int(configs[RECORD]["tag"] if RECORD in configs else message.metadata.group_id)


def lost_now(message: Any, context: Any) -> str:
    """Where this node is to be lost in the round of a message."""
    if node_of(context) != work.VICTIM:
        return work.NOBODY
    return work.lost_at(str(context.run_config["lost"]), round_of(message))


def fails(message: Any, context: Any, call_next: Any) -> Any:
    """Lose the node where the plan says so: a mod."""
    where = lost_now(message, context)
    configs = message.content.config_records
    stage = configs[RECORD_KEY_CONFIGS]["stage"] if RECORD_KEY_CONFIGS in configs else ""
    if where in ("before it joins", stage):
        raise Lost(where)
    if where == work.KILLED and stage == "collect_masked_vectors":
        os._exit(9)
    if where == "after its upload":
        Round.outcome = _ends  # type: ignore[method-assign]
    return call_next(message, context)


def _ends(*_arguments: Any, **_named: Any) -> Any:
    raise Lost("after its upload")


def measures(message: Any, context: Any, call_next: Any) -> Any:
    """Write the most memory that this process has had until the reply is there: a mod, the outermost one."""
    try:
        return call_next(message, context)
    finally:
        most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        file = Path(str(context.run_config["out"])) / f"node-{os.getpid()}"
        file.write_text(str(most), encoding="utf-8")


def trains(message: Any, context: Any) -> Any:
    """Reply with the model of the message, moved by this node's update."""
    node, dim = node_of(context), int(context.run_config["dim"])
    where = lost_now(message, context)
    if where == work.KILLED:
        os._exit(9)
    if where == "training raises":
        raise Lost(where)
    model = message.content["arrays"]["model"].numpy() + work.update(node, dim)
    content = {
        "arrays": ArrayRecord({"model": Array(np.asarray(model, np.float32))}),
        "metrics": MetricRecord({"num-examples": work.weight(node)}),
    }
    return Message(content=RecordDict(content), reply_to=message)


class Client(NumPyClient):  # type: ignore[misc]
    """The same for the older interface, which flwr's SecAgg+ needs."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def fit(self, parameters: Any, _config: Any) -> Any:
        """Give the model moved by this node's update, and its weight."""
        node, dim = node_of(self._context), int(self._context.run_config["dim"])
        return [parameters[0] + work.update(node, dim)], work.weight(node), {}


def made(context: Any) -> Any:
    """A client of the older interface."""
    return Client(context).to_client()


plain = ClientApp(mods=[measures, fails])
plain.train()(trains)
ours = ClientApp(mods=[measures, fails, blindsum.flower.mod()])
ours.train()(trains)
peer = ClientApp(client_fn=made, mods=[measures, fails, secaggplus_mod])
