"""The client's side: a mod that lets no update of a node out but inside a sum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from blindsum.arrays import Vector
from blindsum.errors import ConfigError
from blindsum.flower import (
    contents,
    enrolment,
    invitations,
    measured,
    node_machine,
    outgoing,
    refusals,
    simulated,
)
from blindsum.flower.direct import Guard, Identity, Invitation, take_part
from blindsum.flower.frames import packed
from blindsum.flower.letters import Letter
from blindsum.flower.metric_slots import MetricSlots
from blindsum.flower.records import (
    ModelArrays,
    check_weight,
    mean_content,
    metrics_of,
    only_arrays,
    only_metrics,
    weight_of,
)
from blindsum.flower.refusals import Refusal
from blindsum.flower.replies import MAX_DROPPED
from blindsum.flower.settings import PLAIN, SERVERS, NodeSettings
from blindsum.flower.texts import ENROL, FRAMES, MEAN, MESSAGES, RECORD, SIMULATION, logger, warn_once
from blindsum.flower.trained import Cohorts
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
    * A train message is refused where the job does not bind all its nodes to the same content
      (:mod:`blindsum.flower.contents`).
    * Replies to evaluate and query messages pass. They must have no arrays and nothing else that could hold a
      model, unless the node allows it (``blindsum-policy-arrays=true``).
    * The server hears of a failure what field and what rule it is about, and no value
      (:mod:`blindsum.flower.refusals`). The node's log has the rest.

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
        settings = _settings(context)
        if simulated.is_simulated_node(context.node_config):
            # Nodes and server are in one place, where errors show what is wrong.
            return _handled(message, context, settings, call_next)
        try:
            return _handled(message, context, settings, refusals.guarded(call_next))
        except Exception as error:
            raise refusals.for_server(error) from error

    return blindsum_mod


def _settings(context: Any) -> NodeSettings:
    """The node's settings; errors have no values."""
    try:
        return NodeSettings.read(context.node_config)
    except ConfigError as error:
        raise refusals.for_server(error) from error


def _handled(message: Any, context: Any, settings: NodeSettings, call_next: Callable[[Any, Any], Any]) -> Any:
    """Handle a message; errors may say more than the server may hear."""
    if message.metadata.message_type.partition(".")[0] != "train":
        reply = call_next(message, context)
        if not (reply.has_error() or settings.allows_arrays):
            outgoing.check(reply)
        return reply
    record = message.content.get(RECORD)
    if record is None:
        _Node(message, context, settings).check_plain()
        return call_next(message, context)
    told = dict(record)
    node = _Node(message, context, simulated.node_settings(context, settings, told))
    # Mods that come next expect one ConfigRecord.
    del message.content[RECORD]
    match invitations.how(told):
        case how if how == ENROL:
            return node.enrol()
        case how if how == SIMULATION:
            simulated.check_node(context.node_config, settings)
            return call_next(message, context)
        case how if how == MESSAGES:
            # And one ArrayRecord.
            return node.answer(told, message.content.pop(FRAMES, None), call_next)
        case _:
            return node.take_part(invitations.Told.read(told), call_next)


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
            raise Refusal(
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

    def take_part(self, told: invitations.Told, call_next: Callable[[Any, Any], Any]) -> Any:
        """Train, add the update to the sum, and reply without it."""
        from flwr.app import ConfigRecord, Message, RecordDict

        message, settings = self._message, self._settings
        invitations.check_weighted_by(told.weighted_by, self._context.run_config)
        change = _Change(message, settings, told.weighted_by)
        reply, name, result = take_part(
            self._invitation(told),
            self._identity(told),
            settings.policy,
            settings.give_up_after,
            lambda: call_next(message, self._context),
            lambda reply, spec: _fitting(
                change.of(reply, (metric.name for metric in spec.metrics)), told.weighted_by, spec
            ),
            _NodeGuard(message, self._context, settings, told, change.model),
        )
        if reply.has_error():
            return reply
        said: dict[str, Any] = {"party": name, "dropped": change.dropped[:MAX_DROPPED]}
        if result is None:
            logger.info("job %r: no examples here, so this node gave no update", told.job)
            return Message(RecordDict({RECORD: ConfigRecord(said)}), reply_to=message)
        said["result"] = result.result
        content = RecordDict()
        if told.reply == MEAN:
            content = self._with_mean(change.key, change.arrays, told.weighted_by, result)
        content[RECORD] = ConfigRecord(said)
        return Message(content, reply_to=message)

    def _invitation(self, told: invitations.Told) -> Invitation:
        """The round, with what the node adds: the servers that it trusts, and its folder."""
        settings = self._settings
        urls = settings.servers or (told.url,)
        if urls[0] != told.url:
            raise Refusal(
                SERVERS,
                "begins with another coordinator than the one that the ServerApp names: name the servers of "
                "the job of this run, the coordinator first, in --node-config of the SuperNode",
            )
        if told.tag is None:
            # Each round is a job of its own; a budget is over all of them.
            state = None if settings.policy.max_epsilon is None else settings.state
            return Invitation(urls, told.job, told.job_hash, told.timeout, state=state)
        about = contents.about(self._message, self._context, told.weighted_by)
        return Invitation(urls, told.job, told.job_hash, told.timeout, told.tag, about, settings.state)

    def answer(self, told: Mapping[str, Any], frames: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        """Hand in the frames of a message, train if it has the model, and reply with the party's frames."""
        from flwr.app import ConfigRecord, Message, RecordDict

        message, context, settings = self._message, self._context, self._settings
        if settings.state is None:
            raise Refusal(
                "blindsum-state",
                "is missing, and blindsum-transport = 'messages' needs it: name a folder of this node that "
                "outlives its processes, and that no backup brings back, in --node-config of the SuperNode",
            )
        letter = Letter.read(told, frames, message)
        invitations.check_weighted_by(letter.weighted_by, context.run_config)

        def train(spec: JobSpec) -> node_machine.Trained:
            slots = MetricSlots.read(spec.parameters)
            change = _Change(message, settings, letter.weighted_by)
            reply = call_next(message, context)
            if reply.has_error():
                raise node_machine.NoUpdate(reply)
            update, weight, metrics = change.of(reply, slots.names)
            check_weight(weight, letter.weighted_by, spec.max_weight)
            filled = slots.filled(update, metrics, spec.clip or 1.0)
            dropped = {"dropped": change.dropped[:MAX_DROPPED]}
            return node_machine.Trained(filled, weight, change.model, dropped)

        node = node_machine.Node(
            identity=self._identity(letter),
            policy=settings.policy,
            state=settings.state,
            run=str(context.run_id),
            wait=settings.give_up_after,
            bound=contents.run_digest(context.run_id, context.run_config, letter.weighted_by),
            cohorts=_cohorts(settings),
            accept=self._acceptance(letter),
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

    def _acceptance(self, letter: Letter) -> Callable[[JobSpec], None]:
        """What a node of a job over messages looks at. Nodes of a simulation have no secrets to lose."""
        is_simulated = simulated.is_simulated_node(self._context.node_config)
        return enrolment.check_spec if letter.certificate and not is_simulated else lambda spec: None

    def _identity(self, told: invitations.Told | Letter) -> Identity:
        """What this node shows the coordinator."""
        settings = self._settings
        if told.certificate:
            node, run = self._context.node_id, self._context.run_id
            found = enrolment.received(node, run, settings, told.certificate, told.ca)
            return dataclasses.replace(found, revoked=settings.revoked)
        if settings.identity is None or settings.ca is None:
            raise Refusal(
                "blindsum-identity",
                "is missing: name this node's certificate and key, and the CA's certificate by blindsum-ca, "
                "in --node-config of the SuperNode",
            )
        return Identity(settings.identity, settings.ca, settings.revoked)


def _fitting(
    given: tuple[Vector, int, Mapping[str, float]], weighted_by: str, spec: JobSpec
) -> tuple[Vector, int, Mapping[str, float]]:
    """An update whose weight the job takes: it is 1 where the job weighs all nodes alike."""
    update, weight, metrics = given
    if weight > 1 and getattr(spec.encoding, "max_weight", None) == 1:
        text = "job %r weighs all nodes alike (max_weight = 1): examples are not counted"
        warn_once("alike", text, spec.job)
        weight = 1
    check_weight(weight, weighted_by, spec.max_weight)
    return update, weight, metrics


class _NodeGuard(Guard):
    """What a node checks of the job and of those who are in the round."""

    def __init__(
        self, message: Any, context: Any, settings: NodeSettings, told: invitations.Told, model: str
    ) -> None:
        self._message = message
        self._context = context
        self._told = told
        self._model = model
        self._cohorts = _cohorts(settings)

    def accept(self, spec: JobSpec) -> None:
        if self._told.certificate:
            enrolment.check_spec(spec)
        # In a job of many rounds each round is bound to what its nodes train on.
        if self._told.tag is None:
            contents.check_job(spec, self._message, self._context, self._told.weighted_by)

    def enter(self, parties: Sequence[str]) -> None:
        if self._cohorts is not None:
            self._cohorts.enter(self._model, parties)

    def lost(self, parties: Sequence[str]) -> None:
        if self._cohorts is not None:
            self._cohorts.lost(self._model, parties)


def _cohorts(settings: NodeSettings) -> Cohorts | None:
    """The cohorts that a node remembers, if it does."""
    guards = settings.state is not None and not settings.allows_repeats
    return Cohorts(str(settings.state)) if guards else None


class _Change:
    """What training changes, as a party gives it."""

    def __init__(self, message: Any, settings: NodeSettings, weighted_by: str) -> None:
        self.key, record = only_arrays(message.content, "the train message")
        self.arrays = ModelArrays(record)
        self.model = measured.model_hash(record)
        self.dropped: list[str] = []
        self._settings, self._weighted_by = settings, weighted_by

    def of(self, reply: Any, declared: Iterable[str]) -> tuple[Vector, int, Mapping[str, float]]:
        """Update, weight and those of the metrics that are declared, of a reply of training."""
        metrics = only_metrics(reply.content)
        weight = weight_of(metrics, self._weighted_by)
        found, left_out = metrics_of(metrics, declared, self._weighted_by)
        self.dropped.extend(left_out)
        if found:
            found = self._told_once(found)
        _, local = only_arrays(reply.content, "the reply")
        return self.arrays.difference(local), weight, found

    def _told_once(self, metrics: dict[str, float]) -> dict[str, float]:
        """The metrics, unless this node has reported some of the same model before, or cannot know."""
        if self._settings.state is None:
            warn_once(
                "state",
                "this node reports no metrics: a server that asks twice for those of one model, the second "
                "time without this node, would learn its own; name a folder by blindsum-state in "
                "--node-config of the SuperNode, in which the node remembers of which models it has "
                "reported some",
            )
            return {}
        if measured.is_first_report(self._settings.state, self.model):
            return metrics
        logger.warning(
            "this node has reported metrics of this model before, and reports none again: a difference of "
            "two sums could be its own"
        )
        return {}
