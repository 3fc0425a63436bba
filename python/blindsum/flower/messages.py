"""Frames of a job in Flower's messages, the server's side: each round of it inside one train phase.

Each node has at most one message at a time. It takes the frames that wait for the node, and its reply brings
the party's. The coordinator is a machine in this process, and the round is over for the strategy as soon as
it has the sum: what the parties still are to hear rides with the first message of the next round.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blindsum import _native
from blindsum.errors import BlindsumError
from blindsum.flower.direct import Sum
from blindsum.flower.exchange import NO_REPLY, NOT_SENT, SETTLE, SHORT_POLL, Replies, push
from blindsum.flower.frames import packed, unpacked
from blindsum.flower.node_machine import certified_name
from blindsum.flower.peers import Peer, Peers, Turn
from blindsum.flower.refusals import foreign
from blindsum.flower.replies import MAX_KNOWN, MAX_REASON, NodeReply, refused
from blindsum.flower.texts import FRAMES, MESSAGES, RECORD, logger
from blindsum.machines import JobOver, LinkEnded, RoundOver, ServerMachine, Waits
from blindsum.pki import AnyPath
from blindsum.spec import JobSpec

TOKEN = 12
"""Random bytes in the name of a job, so many that the name has no more than 64 characters."""

MAX_CONNECTIONS = 3
"""Connections of a node in one round."""

LONGEST_WAIT = 1.0
"""Seconds after which to look again, where nothing is to be sent."""

SHORTEST_WAIT = 0.01

GRACE = 0.5
"""Seconds in which a node may make another connection within one answer, and its round waits for it."""

_OVER = 1e6
"""Rounds that may fail in a row: the strategy decides, and not the job."""


class Exchanges:
    """The rounds of one job over Flower's messages.

    Parameters
    ----------
    spec
        The job of the first round; it serves later ones as long as their nodes fit.
    run, order
        The run, and a number above those of all its earlier jobs.
    ca, revoked
        The job's CA, and its revocation list.

    Attributes
    ----------
    began : bool
        Whether the latest round has begun, with whoever was ready for it.
    exchanges : int
        Messages that a node was sent in it, at most.
    dropped : set of str
        Metrics that nodes have and nobody sums.
    """

    def __init__(self, spec: JobSpec, run: str, order: int, ca: AnyPath, revoked: AnyPath | None) -> None:
        # Only nodes that were sampled are told the name, which nobody can guess.
        self.spec = spec.replace(job=f"flower-{run}-{order:x}-{secrets.token_hex(TOKEN)}", rounds=0)
        self._order = order
        waits = Waits(failed_rounds=int(_OVER), patience=_OVER, reconnect_grace=GRACE)
        self.server = ServerMachine.open(self.spec, ca=ca, revoked=revoked, waits=waits, hosted=True)
        self._peers = Peers()
        self._connections = 0
        self._is_over = False
        self.dropped = set[str]()
        self.began = False
        self.exchanges = 0

    def fits(self, spec: JobSpec) -> bool:
        """Whether a round of so many nodes can be one of this job."""
        fields = {"job": self.spec.job, "rounds": 0, "parties": self.spec.parties}
        for name in ("min_parties", "join_deadline", "stage_deadline", "input_deadline"):
            fields[name] = getattr(self.spec, name)
        is_same = spec.replace(**fields).hash == self.spec.hash
        return is_same and not self._is_over and self.spec.least_roster <= spec.parties <= self.spec.parties

    def end(self) -> None:
        """Forget the job: its frames have nobody to carry them any more."""
        self._is_over = True
        self._peers.clear()

    def peer(self, node: int) -> Peer:
        """What is known of a node."""
        return self._peers[node]

    def take_connection(self, peer: Peer, certificate: str, expected: str) -> None:
        """Take the connection of a node, with its certificate.

        Raises
        ------
        blindsum.IdentityError
            The CA has not signed it, the node had another name before, or another node has this name in this
            round.
        """
        name = certified_name(_native.pki_describe(certificate))
        self._peers.check(peer, name, expected)
        self.drop(peer)
        link = self.server.connected(certificate, f"node {peer.node}")
        # Not before: nobody loses its name to a certificate that the CA has not signed.
        for other in self._peers.take(peer, name):
            self.drop(other)
        peer.link = link

    def begin(self, nodes: Iterable[int]) -> None:
        """Begin a round of these nodes: each name is that of one of them."""
        for peer in self._peers.begin(nodes):
            self.drop(peer)

    def claim(self, nodes: Iterable[int]) -> None:
        """The round has begun with the names of these nodes: nobody else takes one of them meanwhile."""
        for node in nodes:
            self._peers.claim(self.peer(node))

    def drop(self, peer: Peer) -> None:
        """The connection of a node is of no use any more."""
        link, peer.link = peer.link, None
        peer.waiting.clear()
        if link is not None:
            self.server.lost(link)

    def next_connection(self) -> int:
        """A number above those of all earlier connections."""
        self._connections += 1
        return self._connections

    def collect(self) -> list[RoundOver]:
        """Put frames where they wait for their nodes, and give what came of the round."""
        by_link = {peer.link: peer for peer in self._peers if peer.link is not None}
        for outgoing in self.server.frames():
            peer = by_link.get(outgoing.link)
            if peer is not None:
                peer.waiting.append(outgoing.frame)
        found = []
        for event in self.server.events():
            match event:
                case RoundOver():
                    found.append(event)
                case LinkEnded(link=link) if link in by_link:
                    # The last frames of the connection still go to the node: they say why it has ended.
                    by_link[link].link = None
                case JobOver(error=error):
                    self._is_over = True
                    logger.warning("job %r goes on no more: %s", self.spec.job, error or "it was stopped")
        return found

    def run(
        self,
        grid: Any,
        messages: list[Any],
        tag: int,
        about: Sequence[bytes],
        told: Mapping[str, Any],
        further: Mapping[int, Mapping[str, str]],
        names: Mapping[int, str],
        timeout: float,
        poll: float,
    ) -> tuple[Replies, Sum | str]:
        """Run a round.

        Parameters
        ----------
        grid
            Flower's grid.
        messages
            The strategy's messages, one for each node of the round.
        tag
            The number of the round.
        about
            The hashes of what the nodes train on and of what they have of the run.
        told
            What each message says.
        further
            What each message to a node says besides.
        names
            The names of nodes that are known already.
        timeout
            Seconds after which it is over in any case.
        poll
            Seconds between two looks for replies.

        Returns
        -------
        tuple of Replies and Sum or str
            Replies without content; the sum, or why there is none.
        """
        step = _Step(tag, about, told, further, names)
        phase = _Phase(self, grid, messages, step, time.monotonic() + timeout)
        return phase.run(poll)

    @property
    def order(self) -> int:
        """The number of the job in its run."""
        return self._order


@dataclass(frozen=True)
class _Step:
    """What :meth:`Exchanges.run` is given of a round."""

    tag: int
    about: Sequence[bytes]
    told: Mapping[str, Any]
    further: Mapping[int, Mapping[str, str]]
    names: Mapping[int, str]


class _Phase:
    """One round: messages go out as soon as frames wait for a node that has answered the one before."""

    def __init__(self, job: Exchanges, grid: Any, messages: list[Any], step: _Step, end: float) -> None:
        self._job, self._grid, self._step, self._end = job, grid, step, end
        self._turns = {message.metadata.dst_node_id: Turn(message) for message in messages}
        self._began_at = time.monotonic()
        self._has_begun = False
        self._over: RoundOver | None = None
        self._why = ""
        job.began = False
        job.begin(self._turns)
        for node in self._turns:
            peer = job.peer(node)
            peer.name = peer.name or step.names.get(node, "")

    def run(self, poll: float) -> tuple[Replies, Sum | str]:
        """Run the round to its end."""
        job = self._job
        try:
            while not self._is_over():
                self._push()
                came = self._pull()
                self._look_at_time()
                if not came and not self._is_over():
                    time.sleep(self._pause(poll))
            self._hear_reasons()
        finally:
            self._leave()
        job.exchanges = max(turn.exchanges for turn in self._turns.values())
        return self._replies(), self._result()

    def _is_over(self) -> bool:
        """Whether the round has ended; it begins here as soon as all names are known."""
        if not self._has_begun and not self._why:
            self._begin()
        for event in self._job.collect():
            self._over = event
        if self._job.server.stage not in (None, "offered"):
            self._job.began = True
        return self._over is not None or bool(self._why)

    def _begin(self) -> None:
        """Begin the round when each node has said its name or has failed, or enough have and time is up."""
        job, spec = self._job, self._job.spec
        awaited = [node for node, turn in self._turns.items() if not (turn.why_out or job.peer(node).name)]
        names = [job.peer(node).name for node, turn in self._turns.items() if not turn.why_out]
        names = [name for name in names if name]
        now = time.monotonic()
        is_late = now >= self._began_at + spec.join_deadline and len(names) >= spec.least_roster
        if awaited and not is_late and now < self._end:
            return
        for node in awaited:
            self._turns[node].why_out = f"it did not answer within {now - self._began_at:.0f} s"
        if len(names) < spec.least_roster:
            came = f"{len(names)} of {len(self._turns)}"
            self._why = f"too few nodes came: {came}, and a round needs {spec.least_roster}"
            return
        # Before Flower, and this grid, stop waiting.
        left = max(self._end - now, 0.01)
        try:
            job.server.begin(names, tag=self._step.tag, about=list(self._step.about), deadline=left * 0.95)
        except BlindsumError as error:
            self._why = str(error)
            return
        self._has_begun = True
        job.claim(node for node, turn in self._turns.items() if not turn.why_out)

    def _push(self) -> None:
        """Send what waits, to each node that has answered the message before."""
        out, nodes = [], []
        sends_model = self._job.server.stage == self._job.spec.input_stage
        for node, turn in self._turns.items():
            peer = self._job.peer(node)
            if turn.pending or turn.why_out:
                continue
            if peer.link is None and not peer.waiting:
                if self._over is not None or self._why:
                    continue
                if turn.connections >= MAX_CONNECTIONS:
                    self._fail(node, f"the coordinator ended {turn.connections} connections of it")
                    continue
                turn.connections += 1
                peer.connection, peer.number = self._job.next_connection(), 0
            needs_model = sends_model and not turn.has_model and peer.link is not None
            # The welcome waits for the offer: they go in one message.
            has_word = bool(peer.waiting) and (self._has_begun or peer.link is None)
            if peer.number and not (has_word or needs_model):
                continue
            turn.has_model = turn.has_model or needs_model
            out.append(self._letter(turn, peer, needs_model))
            nodes.append(node)
            peer.number += 1
            peer.waiting = []
            turn.exchanges += 1
        if out:
            for node, identifier in zip(nodes, push(self._grid, out), strict=True):
                self._turns[node].pending = identifier
                if not identifier:
                    self._fail(node, NOT_SENT)

    def _letter(self, turn: Turn, peer: Peer, has_model: bool) -> Any:
        """The next message to a node. The model goes with the one after which the party must train."""
        from flwr.app import ConfigRecord, Message, RecordDict

        told = {
            "how": MESSAGES,
            "job": self._job.spec.job,
            "order": self._job.order,
            "link": peer.connection,
            "number": peer.number,
            "tag": self._step.tag,
            "content": self._step.about[0].hex(),
            "has-model": has_model,
            **self._step.told,
            **self._step.further.get(peer.node, {}),
        }
        content = RecordDict(dict(turn.message.content) if has_model else {})
        content[RECORD] = ConfigRecord(told)
        if peer.waiting:
            content[FRAMES] = packed(peer.waiting)
        metadata = turn.message.metadata
        return Message(
            content,
            dst_node_id=metadata.dst_node_id,
            message_type=metadata.message_type,
            group_id=metadata.group_id,
            ttl=metadata.ttl,
        )

    def _pull(self) -> bool:
        """Take replies to messages of this round; gives whether one came."""
        pending = {turn.pending: node for node, turn in self._turns.items() if turn.pending}
        came = False
        for reply in self._grid.pull_messages(list(pending)) if pending else ():
            node = pending.get(str(reply.metadata.reply_to_message_id))
            if node is not None:
                came = True
                self._take(node, reply)
        return came

    def _take(self, node: int, reply: Any) -> None:
        turn = self._turns[node]
        turn.pending = ""
        turn.reply = reply
        if reply.has_error():
            self._fail(node, foreign(reply.error.reason, MAX_REASON))
            return
        try:
            self._read(node, reply)
        # Of what a node says nothing may end the ServerApp.
        except BlindsumError as error:
            turn.reply = refused(turn.message, error)
            self._fail(node, foreign(turn.reply.error.reason, MAX_REASON))

    def _read(self, node: int, reply: Any) -> None:
        """Hand in what a reply with content says."""
        turn, peer, job = self._turns[node], self._job.peer(node), self._job
        said = NodeReply.read(reply.content)
        frames = unpacked(reply.content.get(FRAMES))
        if said.certificate:
            job.take_connection(peer, said.certificate, self._step.names.get(node, ""))
        job.dropped.update(said.dropped[: max(0, MAX_KNOWN - len(job.dropped))])
        turn.sat_out = turn.sat_out or said.sat_out
        if said.lost:
            logger.info("node %d: %s", node, said.lost)
        if peer.link is None:
            return
        for frame in frames:
            job.server.receive(peer.link, frame)

    def _fail(self, node: int, why: str) -> None:
        """A node takes no further part in this round; in the next one it is asked again."""
        turn, peer, job = self._turns[node], self._job.peer(node), self._job
        turn.why_out = why
        logger.info("node %d takes no further part in round %d: %s", node, self._step.tag, why)
        if self._has_begun and peer.name:
            # Its own words may say something of its data.
            job.server.report_failed(peer.name, "its ClientApp failed, or its message was lost")
        job.drop(peer)

    def _look_at_time(self) -> None:
        """Obey the deadlines of the coordinator, and that of Flower."""
        now, server = time.monotonic(), self._job.server
        wake = server.wake
        if wake is not None and wake <= now:
            server.tick()
        if now >= self._end and not self._is_over():
            self._why = "its time was over: raise the strategy's timeout"

    def _pause(self, poll: float) -> float:
        """Seconds until something may happen: a reply, or a deadline."""
        now, wake = time.monotonic(), self._job.server.wake
        until = min(self._end, math.inf if wake is None else wake)
        longest = poll if any(turn.pending for turn in self._turns.values()) else LONGEST_WAIT
        return max(SHORTEST_WAIT, min(longest, until - now))

    def _hear_reasons(self) -> None:
        """Hear what nodes say that are about to refuse a round, where it was over before it began."""
        until = min(self._end, time.monotonic() + SETTLE)
        while not self._job.began and time.monotonic() < until:
            # Whoever has come meanwhile hears what was asked, and that it is over.
            self._is_over()
            self._push()
            if not any(turn.pending for turn in self._turns.values()):
                return
            if not self._pull():
                time.sleep(SHORT_POLL)

    def _leave(self) -> None:
        """Whoever has not answered comes over another connection; answers to old messages are not taken."""
        job = self._job
        if self._has_begun and self._over is None:
            job.server.call_off(self._why or "the ServerApp has ended it")
            job.server.tick()
        for node, turn in self._turns.items():
            if turn.pending or turn.why_out:
                job.drop(job.peer(node))
        for event in job.collect():
            self._over = self._over or event
        lost = self._lost()
        for node, turn in self._turns.items():
            peer = job.peer(node)
            if peer.link is None or (peer.name in lost and not turn.sat_out):
                peer.since = 0

    def _lost(self) -> Mapping[str, str]:
        """Why parties are not in the sum, by their names."""
        over = self._over
        if over is None:
            return {}
        if over.result is not None:
            return over.result.lost
        return over.error.lost if over.error is not None else {}

    def _result(self) -> Sum | str:
        over = self._over
        if over is None or over.result is None:
            if over is None or over.error is None:
                return self._why or "the round has not ended"
            reason = self._why or over.error.reason
            lost = [f"{name}: {why}" for name, why in over.error.lost.items() if name not in reason]
            return "; ".join([reason, *lost])
        found = over.result
        if found.mean is None or found.total_weight is None:
            return "its sum is known to the parties alone"
        return Sum(found.mean, found.total_weight, found.survivors, found.metrics, found.result)

    def _replies(self) -> Replies:
        """What the strategy hears of each node: an error of those that are not in the sum."""
        over, found = self._over, Replies()
        result, lost = None if over is None else over.result, self._lost()
        for node, turn in self._turns.items():
            name = self._job.peer(node).name
            if turn.reply is not None and turn.reply.has_error():
                found.errors.append(turn.reply)
                continue
            if turn.reply is not None:
                found.good.append(turn.reply)
            else:
                found.missing += 1
            if (result is not None and name in result.survivors) or turn.sat_out:
                continue
            why = turn.why_out or lost.get(name) or self._why or "the round has no sum"
            found.errors.append(_error(turn.message, why))
        return found


def _error(message: Any, why: str) -> Any:
    """An error reply in place of one that has no update in the sum."""
    from flwr.app import Error, Message

    reason = f"node {message.metadata.dst_node_id}: {why}"
    return Message(Error(code=NO_REPLY, reason=reason), reply_to=message)
