"""The server's side: a grid that gives a strategy the mean of a round, and nothing of single nodes."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

from blindsum.errors import ConfigError, IdentityError, InputError
from blindsum.flower import contents, simulated, strategies
from blindsum.flower.direct import Identity, Rounds, Sum
from blindsum.flower.enrolment import RunAuthority, check_spec, node_name
from blindsum.flower.exchange import SHORT_POLL, Replies, exchange
from blindsum.flower.fixed import FixedArrays
from blindsum.flower.message_rounds import MessageRounds
from blindsum.flower.party_names import PartyNames
from blindsum.flower.records import (
    ModelArrays,
    mean_content,
    metrics_of,
    only_arrays,
    only_metrics,
)
from blindsum.flower.refusals import foreign
from blindsum.flower.replies import MAX_KNOWN, NodeReply, agreeing, all_refused, clean, read, refuse
from blindsum.flower.sent import configuration, is_train, with_record
from blindsum.flower.settings import RunSettings, check_job, check_nodes
from blindsum.flower.standing import StandingRounds
from blindsum.flower.texts import DIRECT, ENROL, MEAN, MESSAGES, SIMULATION, logger, warn_once
from blindsum.framework_jobs import MANY
from blindsum.spec import JobSpec

TOKEN = 12
"""Random bytes in the name of a job, so many that the name has no more than 64 characters."""

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
    context
        The ServerApp's ``Context``, where ``job`` is something else and the run's configuration has keys of
        the app: all nodes are bound to that configuration.
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

    def __init__(
        self, grid: Any, job: object, strategy: Any = None, *, context: Any = None, **settings: object
    ) -> None:
        from flwr.serverapp import Grid

        Grid.register(type(self))
        self._grid = grid
        self._template = job if isinstance(job, JobSpec) else None
        self._settings = RunSettings.read(configuration(job), settings)
        self._run_config = configuration(job if context is None else context)
        strategies.check(strategy)
        self._weighted_by = strategies.weighted_by(strategy)
        if strategy is None:
            self._weighted_by = self._settings.weighted_by
        elif self._weighted_by != self._settings.weighted_by:
            raise ConfigError(
                "blindsum-weighted-by",
                f"is {self._settings.weighted_by!r}, and the strategy weighs by {self._weighted_by!r}: nodes "
                "take no weight that the run does not declare; set it in [tool.flwr.app.config] of "
                "pyproject.toml",
            )
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
            self._settings.check_early()
            check_job(JobSpec(protocol=self._settings.protocol, parties=MANY, dim=1), self._transport)
        self._step = 0
        self._dropped = set[str]()
        self._parties = PartyNames()
        self._fixed = FixedArrays()
        self._rounds: Rounds | MessageRounds | None = None
        self._authority: RunAuthority | None = None
        self._standing: StandingRounds | None = None
        if self._settings.coordinator and self._transport == SIMULATION:
            raise ConfigError(
                "blindsum-coordinator",
                "cannot be kept in a simulation, which runs the protocol in this process: leave it out and "
                "what belongs to it, or run the app in a deployment",
            )
        if self._settings.coordinator and self._transport == DIRECT:
            if self._template is not None:
                rule = (
                    "cannot be a JobSpec beside blindsum-coordinator, whose job is its own: give the context"
                )
                raise ConfigError("job", rule)
            self._standing = StandingRounds(self._settings)

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
        if self._standing is not None:
            self._standing.end()
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
            One for each node. Train messages say the same, but for the node.
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
            Too few nodes for a sum, messages that differ, arrays that cannot be summed; ``field`` is
            ``"nodes"`` where all nodes refused the first round.
        blindsum.IdentityError, blindsum.NetworkError
            The coordinator cannot start.
        """
        sent = list(messages)
        if not sent or not all(is_train(message) for message in sent):
            if any(is_train(message) for message in sent):
                raise ConfigError("messages", "are of several types: send train messages by themselves")
            passed = list(self._grid.send_and_receive(sent, timeout=timeout))
            clean(reply for reply in passed if reply.has_error())
            return passed
        self._step += 1
        sent = self._fixed.restored(sent)
        contents.check_same(sent)
        key, record = only_arrays(sent[0].content, "the train message")
        arrays = ModelArrays(record)
        if arrays.fixed:
            warn_once(
                "fixed",
                "arrays that are of no floats take no part, and stay those of the server: %s",
                ", ".join(arrays.fixed),
            )
        if self._standing is not None:
            spec = self._standing.spec(arrays.dim, len(sent))
            check_job(spec, "standing")
        else:
            spec = self._spec(arrays.dim, len(sent), timeout)
            if self._transport != MESSAGES:
                spec = self._bound(spec, sent[0])
        said: list[tuple[Any, NodeReply]] = []
        if self._transport == SIMULATION:
            replies, found = self._simulate(sent, arrays, spec, timeout)
        elif self._transport == MESSAGES:
            replies, found = self._sum_in_messages(sent, spec, timeout)
        else:
            replies, found = self._sum_directly(sent, spec, min(timeout or LONGEST, LONGEST))
            said = self._read(replies, found)
        self._tell_dropped()
        content = None
        if isinstance(found, Sum):
            content = mean_content(
                key, arrays.moved(found.mean), self._weighted_by, found.total_weight, found.metrics
            )
        with_mean = self._settings.reply == MEAN and self._transport == DIRECT
        if with_mean and isinstance(found, Sum):
            means = agreeing(replies, said, found.result, content)
        replies.errors = clean(replies.errors)
        if isinstance(found, str):
            self._lost(foreign(found, 2000), replies)
            return replies.errors
        return [*replies.errors, *(means if with_mean else self._copies(sent, content, found))]

    def _bound(self, spec: JobSpec, message: Any) -> JobSpec:
        """The job with what its nodes train on, which each of them compares with what it gets."""
        run = contents.run_digest(self._grid.run.run_id, self._run_config, self._weighted_by)
        bound = {contents.CONTENT: contents.content_digest(message).hex(), contents.RUN: run.hex()}
        return spec.replace(parameters=dict(spec.parameters) | bound)

    def _read(self, replies: Replies, found: Sum | str) -> list[tuple[Any, NodeReply]]:
        """What nodes say in their replies; wrong ones become error replies."""
        said = read(replies)
        names = dict[int, str]()
        for reply, says in said:
            self._drop(says.dropped)
            # Who names a party that gave no update, or has not the result, is nobody that took part.
            if isinstance(found, Sum) and says.result == found.result and says.party in found.survivors:
                names[replies.asked(reply).metadata.dst_node_id] = says.party
        self._parties.heard(names, {asked.metadata.dst_node_id for asked in replies.messages.values()})
        return said

    def _drop(self, names: Iterable[str]) -> None:
        """Remember metrics that nobody sums, a bounded number of them."""
        for name in names:
            if len(self._dropped) < MAX_KNOWN:
                self._dropped.add(name)

    def _spec(self, dim: int, parties: int, timeout: float | None) -> JobSpec:
        """The job of this round. Only nodes that were sampled are told its name, which nobody can guess."""
        job = f"flower-{self._grid.run.run_id}-{self._step}-{secrets.token_hex(TOKEN)}"
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

    def _sum_directly(self, messages: list[Any], spec: JobSpec, timeout: float) -> tuple[Replies, Sum | str]:
        """Run a round over Blindsum's own connections."""
        rounds: Rounds | StandingRounds
        refused = Replies()
        if self._standing is not None:
            rounds = self._standing
            nodes = [message.metadata.dst_node_id for message in messages]
            run = contents.run_digest(self._grid.run.run_id, self._run_config, self._weighted_by)
            about = [contents.content_digest(messages[0]), run]
            told = rounds.begin(spec, nodes, self._parties, about, timeout)
        else:
            rounds = self._coordinator(spec)
            refused = self._enrol(messages, timeout)
            url = rounds.begin(spec, self._known(messages))
            for message in filter(self._lacks_certificate, messages):
                rounds.failed(message.metadata.dst_node_id)
            told = {"url": url, "job": spec.job, "job-hash": spec.hash}
        told |= {
            "how": DIRECT,
            "timeout": timeout,
            "weighted-by": self._weighted_by,
            "reply": self._settings.reply,
        }
        try:
            sent = [
                with_record(message, told | self._certificate(message))
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
            _add(replies, refused)
            return replies, rounds.result()
        finally:
            rounds.end()

    def _sum_in_messages(
        self, messages: list[Any], spec: JobSpec, timeout: float | None
    ) -> tuple[Replies, Sum | str]:
        """Run a round in Flower's own messages."""
        end = time.monotonic() + min(timeout or LONGEST, LONGEST)
        if not isinstance(self._rounds, MessageRounds):
            self._rounds = MessageRounds(self._grid, self._settings, self._weighted_by, self._run_config)
        rounds = self._rounds
        if self._authority is None:
            self._authority = rounds.authority(spec)
        refused = self._enrol(messages, timeout, rounds.told)
        sent = [message for message in messages if not self._lacks_certificate(message)]
        certificates = {message.metadata.dst_node_id: self._certificate(message) for message in sent}
        replies, found = rounds.run(sent, spec, self._step, certificates, end - time.monotonic())
        self._drop(rounds.dropped)
        _add(replies, refused)
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

    def _known(self, messages: list[Any]) -> dict[int, str]:
        """Names of parties by the nodes that were sampled, as far as they are known."""
        nodes = [message.metadata.dst_node_id for message in messages]
        if self._authority is not None:
            return {node: node_name(node) for node in nodes}
        return {node: self._parties[node] for node in nodes if node in self._parties}

    def _enrol(
        self, messages: list[Any], timeout: float | None, told: Mapping[str, str] = MappingProxyType({})
    ) -> Replies:
        """Give nodes without one a certificate of the run; those that get none have error replies."""
        authority = self._authority
        new = [message for message in messages if self._lacks_certificate(message)]
        if authority is None or not new:
            return Replies()
        replies = exchange(self._grid, [with_record(one, {"how": ENROL, **told}) for one in new], timeout)
        for reply, says in read(replies):
            try:
                authority.sign(replies.asked(reply).metadata.dst_node_id, says.request)
            except IdentityError as error:
                refuse(replies, reply, error)
        return replies

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
        replies = exchange(self._grid, [with_record(one, told) for one in messages], timeout, poll=SHORT_POLL)
        declared = [metric.name for metric in spec.metrics]
        taken: list[tuple[Any, int, Mapping[str, float]]] = []
        for reply in list(replies.good):
            try:
                metrics = only_metrics(reply.content)
                found, dropped = metrics_of(metrics, declared, self._weighted_by)
                weight = simulated.weight_in(metrics, self._weighted_by, spec)
                update = arrays.difference(only_arrays(reply.content, "the reply")[1])
            except (InputError, ConfigError) as error:
                refuse(replies, reply, error)
                continue
            self._drop(foreign(name, 64) for name in dropped)
            if weight:
                taken.append((update, weight, found))
        updates = [update for update, _, _ in taken]
        weights = [weight for _, weight, _ in taken]
        return replies, simulated.summed(spec, updates, weights, [found for _, _, found in taken], self._step)

    def _tell_dropped(self) -> None:
        """Say once which metrics nobody sums."""
        if self._dropped:
            warn_once(
                f"metrics {self._grid.run.run_id}",
                "metrics that the job does not declare stay at the nodes: %s. To sum numbers among them, "
                "name them with their ranges, as in blindsum-metrics = 'train_loss:0:10'",
                ", ".join(sorted(self._dropped)),
            )

    def _lost(self, why: str, replies: Replies) -> None:
        """Say that a round has no sum; where nobody took part in the first one, none ever will."""
        rounds = self._rounds if self._standing is None else self._standing
        began = rounds is not None and rounds.began
        if self._step == 1 and not (replies.good or replies.missing or began):
            raise all_refused(replies)
        logger.warning(
            "round %d has no sum: %s; %d nodes failed. The strategy goes on with the arrays of before",
            self._step,
            why,
            len(replies.errors),
            extra={"round_without_sum": self._step},
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


def _add(replies: Replies, refused: Replies) -> None:
    """Add what came of nodes that have got no certificate."""
    replies.errors += refused.errors
    replies.missing += refused.missing


def _survivors(found: Sum | str) -> float:
    """How many replies with content a round has that has ended."""
    return math.inf if isinstance(found, str) else len(found.survivors)
