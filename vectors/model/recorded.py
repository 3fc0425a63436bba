"""Reads what one party heard and said, frame by frame, and checks all of it that the documents speak of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .derive import framed_hash
from .job import Job, Member, round_context
from .numbers import Judge, Numbers, commitment
from .plain import result_name
from .protobuf import frame
from .said import said
from .words import unpack

VERSION, HEADER, PIECE = 4, 34, 262_144
FRAMES = {"party": "PartyFrame", "coordinator": "CoordinatorFrame"}
Said = dict[str, Any]


def fingerprint(certificate: bytes) -> bytes:
    """How rosters name a member."""
    return framed_hash("blindsum certificate", certificate)


def model_hash(values: bytes) -> bytes:
    """The hash of a model without a history."""
    return framed_hash("blindsum model", values)


class Pieces:
    """Puts messages together from their chunks."""

    def __init__(self) -> None:
        self.came = b""

    def push(self, chunk: Said) -> bytes | None:
        """The whole message, once it is whole."""
        assert chunk["offset"] == len(self.came)
        assert len(chunk["data"]) == min(PIECE, chunk["total"] - chunk["offset"]) > 0
        self.came += chunk["data"]
        if len(self.came) < chunk["total"]:
            return None
        message, self.came = self.came, b""
        return message


@dataclass
class Underway:
    """A round that the party is ready for.

    Attributes
    ----------
    said, heard
        Whole messages of the party and of the coordinator, by stage.
    arrived
        Stages whose answer the coordinator has.
    """

    number: int
    model: Said
    ready: Said | None = None
    fixed: Said | None = None
    opening: Said | None = None
    start: Said | None = None

    def __post_init__(self) -> None:
        self.said: dict[int, bytes] = {}
        self.heard: dict[int, bytes] = {}
        self.arrived: set[int] = set()

    def answered(self) -> int:
        """What a Hello says of it."""
        return max(self.heard, default=-1) + 1


class Recording:
    """The frames of a party, and what follows from them.

    Attributes
    ----------
    contexts, results, vectors
        By round: its context, the name of its result, and the words that a party of `plain` gave.
    rows
        The frames, each with its name.
    """

    def __init__(
        self, job: Job, members: list[tuple[str, bytes]], me: int, rounds: list[Said], initial: bytes
    ) -> None:
        self.job, self.members, self.me, self.rounds = job, members, me, rounds
        self.commits = job.protocol == "secagg+" and job.is_active()
        self.models = [model_hash(initial or bytes(4 * job.dim))]
        self.models += [bytes.fromhex(done["model"]["hash"]) for done in rounds]
        self.has_model = not initial
        self.contexts: dict[int, bytes] = {}
        self.results: dict[int, bytes] = {}
        self.vectors: dict[int, list[int] | None] = {}
        self.rows: list[Said] = []
        self.process, self.connection, self.is_greeted = b"", 0, False
        self.sent_certificates: set[bytes] = set()
        self.pieces = {side: Pieces() for side in FRAMES}
        self.round: Underway | None = None
        self.done, self.is_over, self.confirmed = 0, False, set[int]()

    def check(self, rows: list[Said]) -> None:
        """Goes through all frames."""
        for number, row in enumerate(rows):
            try:
                self.take(row)
            except AssertionError as error:
                error.add_note(f"{self.job.job}: frame {number}")
                raise
        assert self.is_over
        assert self.connection == 2
        assert self.confirmed == set(self.contexts)
        assert sorted(self.results) == [done["number"] for done in self.rounds]

    def take(self, row: Said) -> None:
        """The next frame."""
        name, content = frame(FRAMES[row["from"]], bytes.fromhex(row["frame"]))
        is_lost = row.get("lost", False)
        lost = {"lost": True} if is_lost else {}
        fixed = {"connection": row["connection"], "from": row["from"], "what": name}
        self.rows.append(fixed | lost | {"frame": row["frame"]})
        assert not self.is_over
        assert (name == "hello") == (row["connection"] != self.connection)
        assert self.is_greeted or name in ("hello", "welcome")
        if name == "hello":
            assert row["connection"] == self.connection + 1
            self.connection, self.is_greeted = row["connection"], False
            self.pieces, self.sent_certificates = {side: Pieces() for side in FRAMES}, set()
        if (row["from"], name) == ("party", "chunk"):
            self.answer(content, is_lost=is_lost)
        else:
            getattr(self, name)(content)

    def under_way(self) -> Underway:
        """The round that the party is in."""
        assert self.round
        return self.round

    # --- Greeting ---

    def hello(self, said: Said) -> None:
        """Who it is, which connection of which process, and where it stands in its round."""
        assert said["first_version"] <= VERSION <= said["last_version"]
        assert (said["job"], said["name"]) == (self.job.job, self.members[self.me][0])
        assert len(said["process"]) == 16
        assert self.process in (b"", said["process"])
        assert (said["connection"], said["token"]) == (self.connection, b"")
        self.process = said["process"]
        in_round = self.round and self.round.start
        here = (self.under_way().number, self.under_way().answered()) if in_round else (0, 0)
        assert (said["round"], said["answered"]) == here
        assert said["last_round"] == (self.round.number if self.round else self.done)

    def welcome(self, told: Said) -> None:
        """The job, its hash and the current model."""
        assert (self.is_greeted, told["version"]) == (False, VERSION)
        assert json.loads(told["job_spec"]) == json.loads(json.dumps(said(self.job)))
        assert told["job_hash"] == self.job.hash()
        self.names_model(told["model"])
        self.is_greeted = True

    def names_model(self, name: Said) -> None:
        """A version with its hash; the coordinator may know one more than the party."""
        assert name["version"] in (self.done, self.done + 1)
        assert name["dim"] == self.job.dim
        assert name["hash"] == self.models[name["version"]]

    # --- Joining ---

    def round_offer(self, told: Said) -> None:
        """Rounds that are offered have growing numbers and begin from the model that is there."""
        assert self.round is None
        assert told["round"] > self.done
        assert told["model"]["version"] == self.done
        self.names_model(told["model"])
        self.round = Underway(told["round"], told["model"])

    def model_request(self, said: Said) -> None:
        """Only who lacks the model asks for it."""
        assert not self.has_model
        assert said["version"] == self.done

    def model_chunk(self, told: Said) -> None:
        """The values of the model."""
        assert told["version"] == self.done
        values = self.pieces["coordinator"].push(told)
        if values is not None:
            assert model_hash(values) == self.models[self.done]
            self.has_model = True

    def ready(self, said: Said) -> None:
        """With a nonce, or with what commits to it."""
        joined = self.under_way()
        assert self.has_model
        assert joined.ready is None
        assert (said["round"], said["key_id"], said["lacks_model"]) == (joined.number, b"", False)
        assert [len(said["nonce"]), len(said["commitment"])] == ([0, 32] if self.commits else [32, 0])
        joined.ready = said

    def certificates(self, told: Said) -> list[bytes]:
        """Certificates of the members, in order: all of them were sent over this connection once."""
        by_name = {fingerprint(certificate): (name, certificate) for name, certificate in self.members}
        named = [by_name[member["fingerprint"]] for member in told["roster"]]
        assert [name for name, _ in named] == sorted(name for name, _ in named)
        listed = [certificate for _, certificate in named]
        new = [certificate for certificate in listed if certificate not in self.sent_certificates]
        assert sorted(told["certificates"]) == sorted(new)
        self.sent_certificates |= set(new)
        return listed

    def numbers(self, told: Said) -> Numbers:
        """Numbers that break no rule."""
        numbers = Numbers(**(told["numbers"] or {}))
        assert not Judge(self.job, len(told["roster"]), numbers).broken()
        return numbers

    def roster_fixed(self, told: Said) -> None:
        """All of the round but for the nonces, once the party is ready."""
        joined = self.under_way()
        assert self.commits
        assert joined.ready
        assert joined.fixed is None
        assert (told["round"], told["model"]) == (joined.number, joined.model)
        place = self.certificates(told).index(self.members[self.me][1])
        assert told["roster"][place]["commitment"] == joined.ready["commitment"]
        self.numbers(told)
        joined.fixed = told

    def nonce_opening(self, said: Said) -> None:
        """The nonce that the party has committed to."""
        joined, name = self.under_way(), self.members[self.me][0]
        assert joined.ready
        assert joined.fixed
        assert joined.opening is None
        assert said["round"] == joined.number
        committed = commitment(self.job, joined.number, name, said["nonce"])
        assert committed == joined.ready["commitment"]
        joined.opening = said

    # --- The round ---

    def round_start(self, told: Said) -> None:
        """The round begins, or goes on with what the coordinator has."""
        joined, names = self.under_way(), {certificate: name for name, certificate in self.members}
        assert told["kind"] == 0
        assert (told["round"], told["model"]) == (joined.number, joined.model)
        certificates = self.certificates(told)
        nonces = [member["nonce"] for member in told["roster"]]
        members = [Member(names[c], c, nonce) for c, nonce in zip(certificates, nonces, strict=True)]
        mine = joined.opening if self.commits else joined.ready
        assert mine
        assert nonces[certificates.index(self.members[self.me][1])] == mine["nonce"]
        if joined.fixed:
            self.fits(joined.fixed, told, members)
        numbers = self.numbers(told).to_bytes()
        context = round_context(self.job, told["round"], members, told["model"]["hash"], numbers)
        assert self.contexts.setdefault(told["round"], context) == context
        # The stage behind that of the latest answer that came.
        assert told["answers_taken"] == max(joined.arrived, default=-1) + 1
        joined.start = told

    def fits(self, fixed: Said, start: Said, members: list[Member]) -> None:
        """A start has the roster and numbers that were fixed, and the nonces that were committed to."""
        assert start["numbers"] == fixed["numbers"]
        fingerprints = [[member["fingerprint"] for member in told["roster"]] for told in (fixed, start)]
        assert fingerprints[0] == fingerprints[1]
        for member, committed in zip(members, fixed["roster"], strict=True):
            said = commitment(self.job, start["round"], member.name, member.nonce)
            assert said == committed["commitment"]

    def answer(self, chunk: Said, *, is_lost: bool) -> None:
        """A piece of what the party says; what it said before it says again to the byte."""
        joined, stage = self.under_way(), chunk["stage"]
        assert joined.start
        # The stage behind the one that ended last, unless the coordinator has that answer.
        assert (chunk["round"], stage) == (joined.number, joined.answered())
        assert stage >= joined.start["answers_taken"]
        message = self.pieces["party"].push(chunk)
        if message is None:
            return
        self.opens(message, stage)
        assert joined.said.setdefault(stage, message) == message
        assert stage not in joined.arrived
        if not is_lost:
            joined.arrived.add(stage)
        if self.job.protocol == "plain":
            self.vectors[joined.number] = unpack(self.job.width(), self.job.lanes(), message[HEADER:])

    def opens(self, message: bytes, stage: int) -> None:
        """Every message has its version, the stage and the context in front."""
        assert message[:HEADER] == bytes([1, stage]) + self.contexts[self.under_way().number]

    def chunk(self, chunk: Said) -> None:
        """A piece of what the coordinator says at the end of a stage."""
        joined = self.under_way()
        assert (chunk["round"], chunk["stage"]) == (joined.number, joined.answered())
        assert chunk["stage"] in joined.arrived
        message = self.pieces["coordinator"].push(chunk)
        if message is not None:
            self.opens(message, chunk["stage"])
            joined.heard[chunk["stage"]] = message

    # --- The end ---

    def round_done(self, told: Said) -> None:
        """The last message gives the sum; its name and the next model are as the coordinator says."""
        joined = self.under_way()
        result = joined.heard[max(joined.said)]
        self.results[joined.number] = result_name(self.contexts[joined.number], result)
        assert (told["round"], told["result"]) == (joined.number, self.results[joined.number])
        self.opened(joined, result[HEADER:])
        self.done, self.round = self.done + 1, None
        assert told["model"]["version"] == self.done
        self.names_model(told["model"])

    def opened(self, joined: Underway, body: bytes) -> None:
        """Survivors and sum of a `Result` are those of the round."""
        expected = next(done for done in self.rounds if done["number"] == joined.number)
        size = (len(self.members) + 7) // 8
        survivors = int.from_bytes(body[:size], "little")
        names = [name for rank, (name, _) in enumerate(self.members) if survivors >> rank & 1]
        assert names == expected["survivors"]
        assert unpack(self.job.width(), self.job.lanes(), body[size:]) == expected["sum"]

    def round_confirmed(self, said: Said) -> None:
        """The party holds what it was told."""
        assert said["round"] in self.results
        assert said["round"] not in self.confirmed
        assert said["result"] == self.results[said["round"]]
        assert said["model"]["version"] == self.done
        self.names_model(said["model"])
        self.confirmed.add(said["round"])

    def job_done(self, told: Said) -> None:
        """Nothing follows."""
        assert told["model"]["version"] == self.done == len(self.rounds)
        self.names_model(told["model"])
        self.is_over = True
