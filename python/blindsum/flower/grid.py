"""The server's side: a grid that gives a strategy the mean of a round, and nothing of single nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

from blindsum import checks
from blindsum.errors import BlindsumError, ConfigError, IdentityError, InputError
from blindsum.flower import simulated, strategies
from blindsum.flower.direct import Identity, Rounds, Sum
from blindsum.flower.enrolment import RunAuthority, check_spec
from blindsum.flower.exchange import SHORT_POLL, Replies, exchange
from blindsum.flower.message_rounds import MessageRounds
from blindsum.flower.records import (
    ModelArrays,
    mean_content,
    metrics_of,
    only_arrays,
    only_metrics,
    weight_of,
)
from blindsum.flower.settings import RunSettings, check_job, check_nodes
from blindsum.flower.texts import DIRECT, ENROL, MEAN, MESSAGES, RECORD, SIMULATION, logger, warn_once
from blindsum.spec import JobSpec

LONGEST = 24 * 3600.0
"""Seconds that a round may take where the strategy sets no timeout."""


class SecureGrid:
    """Flower's grid for ``strategy.start(grid=…)``: train replies are summed securely. Use it in a ``with``.

    The strategy gets one reply to its train messages: the arrays that it sent plus the weighted mean of what
    the nodes' training changed, with the sum of weights and the weighted means of the declared metrics.
    Averaging one reply is the identity, so strategies that need the mean alone work as they are. Nodes that
    failed are error replies, as ever. Where a round has no sum, all replies are errors, the log warns, and
    the strategy goes on with the arrays of before.

    Where Flower simulates, the same protocol runs in this process (:mod:`blindsum.flower.simulated`).

    Parameters
    ----------
    grid
        The grid of the ServerApp.
    job
        The ``Context`` of the ServerApp, whose run configuration has the settings (``blindsum-protocol``, …);
        a mapping of such settings; or a :class:`blindsum.JobSpec`, whose ``job``, ``dim``, ``parties`` and
        ``rounds`` are replaced.
    strategy
        The strategy, to refuse one that looks at single updates, and for its ``weighted_by_key``.
    settings
        Settings of :class:`blindsum.flower.settings.RunSettings` in place of those of the configuration, e.g.
        ``protocol="fssa"``, ``clip=0.5``, ``coordinator_identity="…"``.

    Raises
    ------
    blindsum.ConfigError
        A setting that breaks a rule, a strategy or a protocol that cannot work; ``field`` names it. Of sizes
        that only the first round shows, :meth:`send_and_receive` raises it.

    Examples
    --------
    ::

        with blindsum.flower.SecureGrid(grid, context, strategy=strategy) as secure:
            result = strategy.start(grid=secure, initial_arrays=arrays, num_rounds=10)
    """

    def __init__(self, grid: Any, job: object, strategy: Any = None, **settings: object) -> None:
        from flwr.serverapp import Grid

        Grid.register(type(self))
        self._grid = grid
        self._template = job if isinstance(job, JobSpec) else None
        self._settings = RunSettings.read(_configuration(job), settings)
        strategies.check(strategy)
        self._weighted_by = strategies.weighted_by(strategy)
        self._counts_replies = strategies.counts_replies(strategy)
        self._transport = self._settings.transport
        if self._transport == "auto":
            self._transport = SIMULATION if simulated.is_simulated_grid(grid) else DIRECT
        elif self._transport == DIRECT and simulated.is_simulated_grid(grid):
            raise ConfigError(
                "blindsum-transport",
                "cannot be 'direct' in a simulation: nodes would wait for others that start only when they "
                "have ended; leave it out, and the same protocol runs in this process",
            )
        if self._template is not None:
            check_job(self._template, self._transport)
        else:
            check_job(self._settings.spec("flower", 1, 4), self._transport)
        self._step = 0
        self._dropped = set[str]()
        self._rounds: Rounds | MessageRounds | None = None
        self._authority: RunAuthority | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop what this grid has started; it starts again where another message is sent."""
        rounds, self._rounds = self._rounds, None
        if rounds is not None:
            rounds.end()
        authority, self._authority = self._authority, None
        if authority is not None:
            authority.close()

    @property
    def run(self) -> Any:
        """Flower's run."""
        return self._grid.run

    def set_run(self, run: Any) -> None:
        """Initialise the run, as Flower does."""
        self._grid.set_run(run)

    def create_message(self, *arguments: Any, **named: Any) -> Any:
        """Make a message, as Flower does."""
        return self._grid.create_message(*arguments, **named)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that are connected."""
        ids: Iterable[int] = self._grid.get_node_ids()
        return ids

    def get_nodes(self) -> Iterable[Any]:
        """What Flower knows of the nodes that are connected."""
        nodes: Iterable[Any] = self._grid.get_nodes()
        return nodes

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str]:
        """Send messages as they are. Nodes refuse train messages that come so."""
        ids: Iterable[str] = self._grid.push_messages(messages)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
        """Replies to such messages."""
        messages: Iterable[Any] = self._grid.pull_messages(message_ids)
        return messages

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> Iterable[Any]:
        """Send messages and wait for replies; those to train messages are summed.

        Parameters
        ----------
        messages
            One for each node. Train messages have the same arrays.
        timeout
            Seconds to wait at most; ``None`` waits for ever.

        Returns
        -------
        list of Message
            Of train messages: error replies, and behind them one with the mean; several, all the same, where
            the strategy counts replies. Of other messages, Flower's replies.

        Raises
        ------
        blindsum.ConfigError
            Too few nodes for a sum, arrays that cannot be summed; ``field`` is ``"nodes"`` where all nodes
            refused the first round.
        blindsum.IdentityError, blindsum.NetworkError
            The coordinator cannot start.
        """
        sent = list(messages)
        if not sent or not all(_is_train(message) for message in sent):
            if any(_is_train(message) for message in sent):
                raise ConfigError("messages", "are of several types: send train messages by themselves")
            passed: Iterable[Any] = self._grid.send_and_receive(sent, timeout=timeout)
            return passed
        self._step += 1
        key, record = _same_arrays(sent)
        arrays = ModelArrays(record)
        if arrays.fixed:
            warn_once(
                "fixed",
                "arrays that are of no floats take no part, and stay those of the server: %s",
                ", ".join(arrays.fixed),
            )
        spec = self._spec(arrays.dim, len(sent), timeout)
        if self._transport == SIMULATION:
            replies, found = self._simulate(sent, arrays, spec, timeout)
        elif self._transport == MESSAGES:
            replies, found = self._sum_in_messages(sent, spec, timeout)
        else:
            replies, found = self._sum_directly(sent, spec, timeout)
        self._tell_dropped(replies)
        if isinstance(found, str):
            self._lost(found, replies)
            return replies.errors
        if self._settings.reply == MEAN and self._transport == DIRECT:
            return [*replies.errors, *_agreeing(replies, found)]
        content = mean_content(
            key, arrays.moved(found.mean), self._weighted_by, found.total_weight, found.metrics
        )
        return [*replies.errors, *self._copies(sent, content, found)]

    def _spec(self, dim: int, parties: int, timeout: float | None) -> JobSpec:
        """The job of this round."""
        job = f"flower-{self._grid.run.run_id}-{self._step}"
        template = self._template
        check_nodes(parties, str(self._settings.protocol if template is None else template.protocol))
        if template is None:
            spec = self._settings.spec(job, dim, parties)
        else:
            spec = template.replace(
                **{"job": job, "dim": dim, "parties": parties, "rounds": 1, "model_update": "none"}
            )
        # A round ends before Flower stops waiting for it.
        longest = min(timeout or LONGEST, LONGEST)
        return spec.replace(
            join_deadline=min(spec.join_deadline, longest / 4),
            stage_deadline=min(spec.stage_deadline, longest / 8),
            input_deadline=longest / 2,
        )

    def _sum_directly(
        self, messages: list[Any], spec: JobSpec, timeout: float | None
    ) -> tuple[Replies, Sum | str]:
        """Run a round over Blindsum's own connections."""
        rounds = self._coordinator(spec)
        refused = self._enrol(messages, timeout)
        url = rounds.begin(spec)
        for _ in refused:
            rounds.failed()
        told = {
            "how": DIRECT,
            "url": url,
            "job": spec.job,
            "job-hash": spec.hash,
            "timeout": min(timeout or LONGEST, LONGEST),
            "weighted-by": self._weighted_by,
            "reply": self._settings.reply,
        }
        try:
            sent = [
                _with_record(message, told | self._certificate(message))
                for message in messages
                if not self._lacks_certificate(message)
            ]
            replies = exchange(
                self._grid,
                sent,
                timeout,
                ended=rounds.wait,
                expected=lambda: _survivors(rounds.result()),
                failed=rounds.failed,
            )
            # Replies with content are of nodes that have the result: the coordinator is about to say it.
            rounds.wait(spec.stage_deadline if replies.good else 1.0)
            replies.errors += refused
            return replies, rounds.result()
        finally:
            rounds.end()

    def _sum_in_messages(
        self, messages: list[Any], spec: JobSpec, timeout: float | None
    ) -> tuple[Replies, Sum | str]:
        """Run a round in Flower's own messages."""
        end = time.monotonic() + min(timeout or LONGEST, LONGEST)
        if not isinstance(self._rounds, MessageRounds):
            self._rounds = MessageRounds(self._grid, self._settings)
        rounds = self._rounds
        if self._authority is None:
            self._authority = rounds.authority(spec)
        refused = self._enrol(messages, timeout, rounds.told)
        sent = [message for message in messages if not self._lacks_certificate(message)]
        told = {"weighted-by": self._weighted_by, **rounds.told}
        certificates = {message.metadata.dst_node_id: self._certificate(message) for message in sent}
        replies, found = rounds.run(sent, spec, self._step, told, certificates, end - time.monotonic())
        replies.errors += refused
        return replies, found

    def _coordinator(self, spec: JobSpec) -> Rounds:
        """The coordinator of this run."""
        if not isinstance(self._rounds, Rounds):
            settings = self._settings
            if settings.coordinator_identity:
                identity = Identity(
                    settings.coordinator_identity, settings.coordinator_ca, settings.coordinator_crl or None
                )
            else:
                check_spec(spec)
                self._authority = RunAuthority(self._grid.run.run_id, settings.url)
                identity = self._authority.identity
            self._rounds = Rounds(identity, settings.listen, settings.url)
        return self._rounds

    def _enrol(
        self, messages: list[Any], timeout: float | None, told: Mapping[str, str] = MappingProxyType({})
    ) -> list[Any]:
        """Give nodes without one a certificate of the run, and give error replies of those that have none."""
        authority = self._authority
        new = [message for message in messages if self._lacks_certificate(message)]
        if authority is None or not new:
            return []
        replies = exchange(self._grid, [_with_record(one, {"how": ENROL, **told}) for one in new], timeout)
        for reply in replies.good:
            said = reply.content.config_records.get(RECORD, {})
            try:
                authority.sign(reply.metadata.src_node_id, str(said.get("request", "")))
            except IdentityError as error:
                replies.errors.append(_refused(reply, messages, error))
        return replies.errors

    def _lacks_certificate(self, message: Any) -> bool:
        return self._authority is not None and self._authority.lacks(message.metadata.dst_node_id)

    def _certificate(self, message: Any) -> dict[str, str]:
        """What a message says of its node's certificate, where the run gives them."""
        authority = self._authority
        return {} if authority is None else authority.told(message.metadata.dst_node_id)

    def _simulate(
        self, messages: list[Any], arrays: ModelArrays, spec: JobSpec, timeout: float | None
    ) -> tuple[Replies, Sum | str]:
        """Run the round in this process, over the replies of a simulation."""
        warn_once(
            f"simulation {self._grid.run.run_id}",
            "simulation: nodes send their updates as they are, and %s runs in this process; a deployment "
            "protects them",
            spec.protocol,
        )
        told = {"how": SIMULATION}
        replies = exchange(
            self._grid, [_with_record(one, told) for one in messages], timeout, poll=SHORT_POLL
        )
        declared = [metric.name for metric in spec.metrics]
        taken: list[tuple[Any, int, Mapping[str, float]]] = []
        for reply in list(replies.good):
            metrics = only_metrics(reply.content)
            found, dropped = metrics_of(metrics, declared, self._weighted_by)
            try:
                weight = checks.weight("weight", weight_of(metrics, self._weighted_by) or 1, spec)
                update = arrays.difference(only_arrays(reply.content, "the reply")[1])
            except InputError as error:
                replies.good.remove(reply)
                replies.errors.append(_refused(reply, messages, error))
                continue
            self._dropped.update(dropped)
            if weight_of(metrics, self._weighted_by):
                taken.append((update, weight, found))
        updates = [update for update, _, _ in taken]
        weights = [weight for _, weight, _ in taken]
        return replies, simulated.summed(spec, updates, weights, [found for _, _, found in taken], self._step)

    def _tell_dropped(self, replies: Replies) -> None:
        """Say once which metrics nobody sums."""
        for reply in replies.good:
            if RECORD in reply.content:
                self._dropped.update(map(str, reply.content[RECORD].get("dropped", [])))
        if self._dropped:
            warn_once(
                f"metrics {self._grid.run.run_id}",
                "metrics that the job does not declare stay at the nodes: %s. To sum numbers among them, "
                "name them with their ranges, as in blindsum-metrics = 'train_loss:0:10'",
                ", ".join(sorted(self._dropped)),
            )

    def _lost(self, why: str, replies: Replies) -> None:
        """Say that a round has no sum; where nobody took part in the first one, none ever will."""
        began = self._rounds is not None and self._rounds.began
        if self._step == 1 and not (replies.good or replies.missing or began):
            self._raise_refused(replies)
        logger.warning(
            "round %d has no sum: %s; %d nodes failed. The strategy goes on with the arrays of before",
            self._step,
            why,
            len(replies.errors),
        )

    @staticmethod
    def _raise_refused(replies: Replies) -> None:
        reasons = list(dict.fromkeys(str(reply.error.reason) for reply in replies.errors))
        shown = "; ".join(reasons[:3])
        raise ConfigError(
            "nodes",
            f"{len(replies.errors)} of {len(replies.errors) + len(replies.good)} nodes refused the "
            f"first round, and would again: {shown}",
        )

    def _copies(self, messages: list[Any], content: Any, found: Sum) -> list[Any]:
        """The replies that the strategy gets: one, or as many as there are nodes in the sum if it counts."""
        from flwr.app import Message, MetricRecord, RecordDict

        if not self._counts_replies:
            return [Message(content, reply_to=messages[0])]
        count = min(len(found.survivors), len(messages))
        metrics = dict(content["metrics"])
        # Equal weights: who averages equal replies has any of them, and accounting wants them equal.
        metrics[self._weighted_by] = found.total_weight / count
        shared = {name: value for name, value in content.items() if name != "metrics"}
        return [
            Message(RecordDict(shared | {"metrics": MetricRecord(metrics)}), reply_to=message)
            for message in messages[:count]
        ]


def _configuration(job: object) -> Mapping[str, object]:
    """The run's configuration."""
    if isinstance(job, JobSpec):
        return {}
    found = getattr(job, "run_config", job)
    if not isinstance(found, Mapping):
        kind = type(job).__name__
        raise ConfigError(
            "job", f"must be the ServerApp's Context, a mapping or a blindsum.JobSpec, not a {kind}"
        )
    return found


def _is_train(message: Any) -> bool:
    return str(message.metadata.message_type).partition(".")[0] == "train"


def _same_arrays(messages: list[Any]) -> tuple[str, Any]:
    """The arrays of all messages, with their key.

    Raises
    ------
    blindsum.ConfigError
        Messages of one round with different arrays, or two for one node.
    """
    nodes = [message.metadata.dst_node_id for message in messages]
    if len(set(nodes)) < len(nodes):
        raise ConfigError("messages", "a node has two train messages in one round: send it one")
    key, first = only_arrays(messages[0].content, "the train message")
    for message in messages[1:]:
        other_key, other = only_arrays(message.content, "the train message")
        if other is not first and (other_key, dict(other)) != (key, dict(first)):
            raise ConfigError(
                "messages",
                "train messages of one round have different arrays, and a mean has no meaning then: send all "
                "nodes the same model",
            )
    return key, first


def _with_record(message: Any, told: Mapping[str, Any]) -> Any:
    """A copy of a message with Blindsum's record; strategies give all messages one content."""
    from flwr.app import ConfigRecord, Message, RecordDict

    content = RecordDict(dict(message.content))
    content[RECORD] = ConfigRecord(dict(told))
    metadata = message.metadata
    return Message(
        content,
        dst_node_id=metadata.dst_node_id,
        message_type=metadata.message_type,
        group_id=metadata.group_id,
        ttl=metadata.ttl,
    )


def _survivors(found: Sum | str) -> float:
    """How many replies with content a round has that has ended."""
    return math.inf if isinstance(found, str) else len(found.survivors)


def _agreeing(replies: Replies, found: Sum) -> list[Any]:
    """The replies of nodes with the coordinator's result, without Blindsum's record."""
    agreeing = []
    for reply in replies.good:
        said = dict(reply.content.pop(RECORD))
        if said.get("result") == found.result:
            agreeing.append(reply)
        elif "result" in said:
            logger.warning("party %s replied with another result than the coordinator's", said["party"])
    return agreeing


def _refused(reply: Any, messages: list[Any], error: BlindsumError) -> Any:
    """An error reply in place of one that cannot be summed."""
    from flwr.app import Error, Message

    (message,) = (one for one in messages if one.metadata.dst_node_id == reply.metadata.src_node_id)
    return Message(Error(code=6, reason=f"{type(error).__name__}: {error}"), reply_to=message)
