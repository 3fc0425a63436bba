"""The client's side: a mod that lets no update of a node out but inside a sum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from blindsum.arrays import Vector
from blindsum.errors import ConfigError
from blindsum.flower import enrolment, measured, node_machine, simulated
from blindsum.flower.direct import Identity, Invitation, take_part
from blindsum.flower.frames import packed, unpacked
from blindsum.flower.metric_slots import MetricSlots
from blindsum.flower.records import (
    ModelArrays,
    mean_content,
    metrics_of,
    only_arrays,
    only_metrics,
    weight_of,
)
from blindsum.flower.settings import ARRAYS, PLAIN, NodeSettings
from blindsum.flower.texts import DIRECT, ENROL, FRAMES, MEAN, MESSAGES, RECORD, SIMULATION, logger, warn_once
from blindsum.rounds import RoundResult
from blindsum.spec import JobSpec

Mod = Callable[[Any, Any, Callable[[Any, Any], Any]], Any]
"""A mod of Flower: of a message, a context and what comes next."""


def mod() -> Mod:
    """The mod for ``ClientApp(mods=[…])``: train replies leave the node only inside a secure sum.

    List it first: mods that clip or add noise come after it, so that they act on the update before it does.
    Everything that protects the node is read from its own configuration (``flower-supernode --node-config``).

    * A train message without Blindsum's record is refused where this is no simulation, unless the node allows
      it (``blindsum-policy-plain=true``). A server that leaves :class:`blindsum.flower.SecureGrid` out gets
      no update.
    * Replies to evaluate and query messages pass. They must have no arrays, unless the node allows it
      (``blindsum-policy-arrays=true``).

    Returns
    -------
    callable
        A mod. It raises :class:`blindsum.BlindsumError` where the node takes no part, which Flower sends to
        the server as an error reply.

    Examples
    --------
    ::

        app = ClientApp(mods=[blindsum.flower.mod()])
    """

    def blindsum_mod(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        settings = NodeSettings.read(context.node_config)
        if message.metadata.message_type.partition(".")[0] != "train":
            return _without_arrays(call_next(message, context), settings)
        record = message.content.config_records.get(RECORD)
        settings = simulated.node_settings(context, settings, record or {})
        node = _Node(message, context, settings)
        if record is None:
            node.check_plain()
            return call_next(message, context)
        told = dict(record)
        # Mods that come next expect one ConfigRecord, and one ArrayRecord.
        del message.content[RECORD]
        frames = message.content.pop(FRAMES, None)
        match told["how"]:
            case str(how) if how == ENROL:
                return node.enrol()
            case str(how) if how == SIMULATION:
                simulated.check_node(context.node_config, settings)
                return call_next(message, context)
            case str(how) if how == DIRECT:
                return node.take_part(told, call_next)
            case str(how) if how == MESSAGES:
                return node.answer(told, frames, call_next)
            case how:
                raise ConfigError(
                    "blindsum-transport",
                    f"{how!r} is not known to the Blindsum of this node: install the same version at the "
                    "ServerApp and at all nodes",
                )

    return blindsum_mod


def _without_arrays(reply: Any, settings: NodeSettings) -> Any:
    """A reply to another message than train: it passes if it has no arrays."""
    if reply.has_error() or settings.allows_arrays or not reply.content.array_records:
        return reply
    keys = ", ".join(map(repr, reply.content.array_records))
    raise ConfigError(
        ARRAYS,
        f"is not true, and the reply has arrays ({keys}), which would leave this node as they are: reply "
        "with metrics alone, or allow it in --node-config of the SuperNode",
    )


class _Node:
    """A node that was sent a train message."""

    def __init__(self, message: Any, context: Any, settings: NodeSettings) -> None:
        self._message = message
        self._context = context
        self._settings = settings

    def check_plain(self) -> None:
        """Refuse a train message without Blindsum's record."""
        if self._settings.allows_plain:
            warn_once("plain", "updates of this node leave as they are: %s is true", PLAIN)
        elif simulated.is_simulated_node(self._context.node_config):
            warn_once("plain", "the ServerApp has no SecureGrid: updates leave as they are; give it one")
        else:
            raise ConfigError(
                PLAIN,
                "is not true, and the train message has no record of Blindsum: this node's update would "
                "leave as it is. Run the strategy on a SecureGrid in the ServerApp: "
                "strategy.start(grid=blindsum.flower.SecureGrid(grid, context, strategy=strategy), …)",
            )

    def enrol(self) -> Any:
        """Reply with a signing request."""
        from flwr.app import ConfigRecord, Message, RecordDict

        request = enrolment.request(self._context.node_id, self._context.run_id, self._settings)
        return Message(RecordDict({RECORD: ConfigRecord({"request": request})}), reply_to=self._message)

    def take_part(self, told: Mapping[str, Any], call_next: Callable[[Any, Any], Any]) -> Any:
        """Train, add the update to the sum, and reply without it."""
        from flwr.app import ConfigRecord, Message, RecordDict

        message, settings = self._message, self._settings
        change = _Change(message, settings, str(told["weighted-by"]))
        invitation = Invitation(
            url=str(told["url"]),
            job=str(told["job"]),
            job_hash=str(told["job-hash"]),
            timeout=float(told["timeout"]),
        )
        reply, name, result = take_part(
            invitation,
            self._identity(told),
            settings.policy,
            settings.give_up_after,
            lambda: call_next(message, self._context),
            lambda reply, spec: change.of(reply, (metric.name for metric in spec.metrics)),
        )
        if reply.has_error():
            return reply
        said: dict[str, Any] = {"party": name, "dropped": change.dropped}
        if result is None:
            logger.info("job %r: no examples here, so this node gave no update", invitation.job)
            return Message(RecordDict({RECORD: ConfigRecord(said)}), reply_to=message)
        said["result"] = result.result
        content = RecordDict()
        if told["reply"] == MEAN:
            content = self._with_mean(change.key, change.arrays, change.weighted_by, result)
        content[RECORD] = ConfigRecord(said)
        return Message(content, reply_to=message)

    def answer(self, told: Mapping[str, Any], frames: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        """Hand in the frames of a message, train if it has the model, and reply with the party's frames."""
        from flwr.app import ConfigRecord, Message, RecordDict

        message, settings = self._message, self._settings
        if settings.state is None:
            raise ConfigError(
                "blindsum-state",
                "is missing, and blindsum-transport = 'messages' needs it: name a folder of this node that "
                "outlives its processes, and that no backup brings back, in --node-config of the SuperNode",
            )

        slots = MetricSlots.read(told)

        def train(spec: JobSpec) -> node_machine.Trained:
            change = _Change(message, settings, str(told["weighted-by"]))
            reply = call_next(message, self._context)
            if reply.has_error():
                raise node_machine.NoUpdate(reply)
            update, weight, metrics = change.of(reply, slots.names)
            filled = slots.filled(update, metrics, spec.clip or 1.0)
            return node_machine.Trained(filled, weight, {}, {"dropped": change.dropped})

        letter = node_machine.Letter.read(told, unpacked(frames))
        run = str(self._context.run_id)
        node = node_machine.Node(
            self._identity(told), settings.policy, settings.state, run, settings.give_up_after
        )
        try:
            answer = node_machine.answer(letter, node, train)
        except node_machine.NoUpdate as error:
            return error.reply
        content = RecordDict({RECORD: ConfigRecord(dict(answer.told))})
        if answer.frames:
            content[FRAMES] = packed(answer.frames)
        return Message(content, reply_to=message)

    @staticmethod
    def _with_mean(key: str, arrays: ModelArrays, weighted_by: str, result: RoundResult) -> Any:
        moved = arrays.moved(result.mean)
        return mean_content(key, moved, weighted_by, result.total_weight, result.metrics)

    def _identity(self, told: Mapping[str, Any]) -> Identity:
        """What this node shows the coordinator."""
        settings = self._settings
        if "certificate" in told:
            found = enrolment.received(self._context.node_id, self._context.run_id, settings, told)
            return dataclasses.replace(found, revoked=settings.revoked)
        if settings.identity is None or settings.ca is None:
            raise ConfigError(
                "blindsum-identity",
                "is missing: name this node's certificate and key, and the CA's certificate by blindsum-ca, "
                "in --node-config of the SuperNode",
            )
        return Identity(settings.identity, settings.ca, settings.revoked)


class _Change:
    """What training changes, as a party gives it."""

    def __init__(self, message: Any, settings: NodeSettings, weighted_by: str) -> None:
        self.key, self._record = only_arrays(message.content, "the train message")
        self.arrays = ModelArrays(self._record)
        self.weighted_by = weighted_by
        self.dropped: list[str] = []
        self._settings = settings

    def of(self, reply: Any, declared: Iterable[str]) -> tuple[Vector, int, Mapping[str, float]]:
        """Update, weight and those of the metrics that are declared, of a reply of training."""
        metrics = only_metrics(reply.content)
        weight = weight_of(metrics, self.weighted_by)
        found, left_out = metrics_of(metrics, declared, self.weighted_by)
        self.dropped.extend(left_out)
        if found and self._settings.state is not None:
            found = self._told_once(found, measured.model_hash(self._record))
        _, local = only_arrays(reply.content, "the reply")
        return self.arrays.difference(local), weight, found

    def _told_once(self, metrics: dict[str, float], model: str) -> dict[str, float]:
        """The metrics, unless this node has reported some of the same model before."""
        if measured.is_first_report(str(self._settings.state), model):
            return metrics
        logger.warning(
            "this node has reported metrics of this model before, and reports none again: a difference of "
            "two sums could be its own"
        )
        return {}
