"""A grid of Flower in one process, a thread for each message, and an app whose updates are known."""

import os
import threading
import time
import uuid

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
# Ray gives its workers little of a machine that others use, too: a simulation takes minutes then.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - its name

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

import blindsum.flower
from blindsum import pki

SHAPES = {"conv": (3, 2), "bias": (4,), "scale": (), "none": (0, 3)}
BACKWARDS = tuple(reversed(SHAPES))


class Run:
    run_id = 77


class Threads(Grid):
    """Runs a ClientApp in a thread for each message, some of them never to reply."""

    def __init__(self, app, configs, run_config=None):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = Run.run_id, 1, 1
        self.app = app
        self.contexts = {
            100 + place: Context(Run.run_id, 100 + place, config, RecordDict(), dict(run_config or {}))
            for place, config in enumerate(configs)
        }
        self.replies = {}
        self.sent = []
        self.threads = []

    run = property(lambda self: Run)

    def set_run(self, run):
        pass

    def create_message(self, *arguments, **named):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.contexts)

    def get_nodes(self):
        return []

    def push_messages(self, messages):
        ids = []
        for message in messages:
            identifier = str(uuid.uuid4())
            message.metadata.__dict__["_message_id"] = identifier
            self.sent.append(message)
            thread = threading.Thread(target=self._answer, args=(identifier, message), daemon=True)
            self.threads.append(thread)
            thread.start()
            ids.append(identifier)
        return ids

    def _answer(self, identifier, message):
        node = message.metadata.dst_node_id
        # As over a network: the node has a content of its own.
        copied = RecordDict(dict(message.content))
        said = message.metadata
        own = Message(
            copied,
            dst_node_id=node,
            message_type=said.message_type,
            group_id=said.group_id,
            ttl=said.ttl,
        )
        own.metadata.__dict__["_message_id"] = identifier
        try:
            reply = self.app(own, self.contexts[node])
        except Vanished:
            return
        except Exception as error:  # noqa: BLE001 - as Flower does
            reply = Message(Error(code=2, reason=f"{type(error)}:<'{error}'>"), reply_to=own)
        reply.metadata.__dict__["_src_node_id"] = node
        self.replies[identifier] = reply

    def pull_messages(self, message_ids):
        return [self.replies.pop(one) for one in list(message_ids) if one in self.replies]

    def gather(self, messages, failed):
        """Send messages, and give all replies by node; ``failed`` is called with the node of each error."""
        nodes = dict(zip(self.push_messages(messages), messages, strict=True))
        found = {}
        while nodes:
            for reply in self.pull_messages(list(nodes)):
                node = nodes.pop(reply.metadata.reply_to_message_id).metadata.dst_node_id
                found[node] = reply
                if reply.has_error():
                    failed(node)
            time.sleep(0.01)
        return found

    def send_and_receive(self, messages, *, timeout=None):
        waiting, found = set(self.push_messages(list(messages))), []
        while waiting:
            came = self.pull_messages(waiting)
            waiting -= {one.metadata.reply_to_message_id for one in came}
            found += came
            time.sleep(0.01)
        return found


class Vanished(BaseException):
    """The process of a node is gone: nobody replies."""


def arrays(value=0.5, dtype=np.float32):
    return ArrayRecord({name: Array(np.full(shape, value, dtype)) for name, shape in SHAPES.items()})


def update_of(node, number):
    """What training changes at a node in a round, flat."""
    size = sum(int(np.prod(shape)) for shape in SHAPES.values())
    return np.random.default_rng([node, number]).uniform(-0.4, 0.4, size).astype(np.float32)


def client_app(mods, before=None, names=BACKWARDS):
    """An app of known updates; ``before(node, number)`` may raise. Replies have the keys in this order."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message, context):
        node = context.node_id
        number = int(message.content["config"]["server-round"])
        if before is not None:
            before(node, number)
        change, place, found = update_of(node, number), 0, {}
        for name in names:
            array = message.content["arrays"][name]
            size = int(np.prod(array.shape))
            found[name] = Array(np.asarray(array.numpy() + change[place : place + size].reshape(array.shape)))
            place += size
        metrics = {"num-examples": 10 + node % 100, "loss": 0.25 * (node % 100), "text-like": [1.0, 2.0]}
        content = {"arrays": ArrayRecord(found), "metrics": MetricRecord(metrics)}
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        content = {"metrics": MetricRecord({"num-examples": 10, "accuracy": 0.5})}
        if "leak" in message.content["config"]:
            content["arrays"] = message.content["arrays"]
        return Message(RecordDict(content), reply_to=message)

    return app


class Federation:
    """Certificates of nodes and of the coordinator."""

    def __init__(self, folder):
        self.folder = folder
        pki.init(folder)
        pki.issue(folder, "agg", hosts=["127.0.0.1"])
        self.server = {"coordinator_identity": str(folder / "agg"), "coordinator_ca": str(folder)}

    def node(self, place, **further):
        """The configuration of a node; a key with the value None is left out."""
        name = f"hospital-{place}"
        if not (self.folder / f"{name}.pem").exists():
            pki.issue(self.folder, name)
        config = {
            "blindsum-identity": str(self.folder / name),
            "blindsum-ca": str(self.folder),
            "blindsum-state": str(self.folder / f"state-{place}"),
        }
        return {key: value for key, value in (config | further).items() if value is not None}

    def nodes(self, count, **further):
        return [self.node(place, **{"partition-id": place} | further) for place in range(count)]


def flat(record):
    return np.concatenate([record[name].numpy().ravel() for name in SHAPES])


ANY = {
    "blindsum-policy-require-adversary": "none",
    "blindsum-policy-allowed-protocols": "plain,secagg,secagg+,fssa,pss,paillier-ring",
    "blindsum-policy-min-corrupt": 0,
}
"""A policy of nodes that takes what the tests run."""

__all__ = ["ANY", "ConfigRecord", "Federation", "Threads", "Vanished", "arrays", "client_app", "flat"]
_ = blindsum.flower
