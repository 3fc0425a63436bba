"""What the tests of deviating servers and nodes share; with a real flwr."""

import flower_world_real as world
from flower_world_real import Threads
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import strategy as strategies

from blindsum.flower import contents
from blindsum.flower.direct import Identity, Rounds
from blindsum.flower.settings import RunSettings
from blindsum.flower.texts import RECORD

DIM = 6 + 4 + 1


def averaged(**changes):
    options = {"min_train_nodes": 4, "min_available_nodes": 4, "fraction_evaluate": 0.0}
    return strategies.FedAvg(**options | changes)


def content(number=1, arrays=None, **config):
    config = {"server-round": number} | config
    return RecordDict({"arrays": arrays or world.arrays(), "config": ConfigRecord(config)})


class Deviant:
    """A ServerApp that begins a job itself, and sends each node what it likes."""

    def __init__(self, federation, app, configs, **settings):
        self.grid = Threads(app, configs)
        files = federation.server
        identity = Identity(files["coordinator_identity"], files["coordinator_ca"])
        self.rounds = Rounds(identity, "127.0.0.1:0", "")
        self.settings = RunSettings(**settings)
        self.step = 0

    def round(self, sent, told=None, bound=None, dim=DIM, weighted_by="num-examples"):
        """Run a round; ``sent`` are contents by node, ``bound`` the message that the job binds."""
        self.step += 1
        messages = {
            node: Message(RecordDict(dict(one)), dst_node_id=node, message_type="train")
            for node, one in sent.items()
        }
        first = messages[min(messages)] if bound is None else bound
        spec = self.settings.spec(f"flower-77-{self.step}", dim, len(sent)).replace(
            join_deadline=20.0,
            stage_deadline=20.0,
            parameters={
                "flower_content": contents.content_digest(first).hex(),
                "flower_run": contents.run_digest(77, {}, weighted_by).hex(),
            },
        )
        url = self.rounds.begin(spec)
        base = {
            "how": "direct",
            "url": url,
            "job": spec.job,
            "job-hash": spec.hash,
            "timeout": 30.0,
            "weighted-by": weighted_by,
            "reply": "one",
        }
        for message in messages.values():
            message.content[RECORD] = ConfigRecord(base | (told or {}))
        replies = self.grid.gather(list(messages.values()), self.rounds.failed)
        assert self.rounds.wait(30)
        found = self.rounds.result()
        self.rounds.end()
        return found, replies


def reasons(replies):
    return {node: reply.error.reason for node, reply in replies.items() if reply.has_error()}


def asked(app, config, record, kind="train", one=None):
    """The reply of one node to Blindsum's record; an error is raised."""
    inner = Threads(app, [config])
    own = RecordDict(dict(one or content()))
    if record is not None:
        own[RECORD] = ConfigRecord(record)
    message = Message(own, dst_node_id=100, message_type=kind)
    message.metadata.__dict__["_message_id"] = "1"
    return app(message, inner.contexts[100])


DIRECT = {
    "how": "direct",
    "url": "https://127.0.0.1:1",
    "job": "x",
    "job-hash": "0" * 64,
    "timeout": 5.0,
    "weighted-by": "num-examples",
    "reply": "one",
}
