"""A party of a job: what it says and hears over any number of connections (docs/wire.md)."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

import derive
import rounds
import wire
from certificates import Authority
from encoding import BadWords, Quantised
from job import BadJob, Job
from secagg import Fault, Machine, machine
from wire import BadFrame, Connection, Lost, pb

Update = tuple[Sequence[float], int]
Train = Callable[[list[float], int], Update]


class Ended(Exception):
    """The party is done with the job, for better or worse."""

    def __init__(self, reason: str, good: bool) -> None:
        super().__init__(reason)
        self.good = good


class Policy(Exception):
    """A rule of this party forbids it."""


@dataclass
class Settings:
    """What a party is started with."""

    url: str
    job: str
    ca: Path
    cert: Path
    key: Path
    train: Train
    crl: Path | None = None
    server_name: str | None = None
    state: Path | None = None
    protocols: tuple[str, ...] = ("secagg", "secagg+")
    adversaries: tuple[str, ...] = ("active",)
    min_cohort: int = 3
    min_change: int = 0
    give_up_after: float = 120.0
    tell: Callable[[dict[str, Any]], None] = field(default=lambda event: None)


@dataclass
class Model:
    version: int
    values: list[float]
    hash: bytes

    @property
    def name(self) -> Any:
        return pb.ModelName(version=self.version, hash=self.hash, dim=len(self.values))

    def is_named(self, name: Any) -> bool:
        return (self.version, self.hash, len(self.values)) == (name.version, name.hash, name.dim)


@dataclass
class Active:
    """The round that the party is ready for, or in."""

    number: int
    model: Model
    nonce: bytes
    fixed: rounds.Fixed | None = None
    machine: Machine | None = None
    answer_stage: int = -1  # stage of the latest answer
    heard: int = 0  # the stage behind that of the latest message
    here: bool = False  # whether this connection has repeated RoundStart
    next: Model | None = None  # the model that the result leads to
    name: bytes = b""  # the name of the result


class Party:
    """A party; `run` takes part until the job is over."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        revoked = settings.crl.read_bytes() if settings.crl else None
        self.authority = Authority(settings.ca.read_bytes(), revoked)
        certificate = x509.load_pem_x509_certificate(settings.cert.read_bytes())
        self.name, self.public = self.authority.party(certificate.public_bytes(Encoding.DER))
        self.identity: Any = load_pem_private_key(settings.key.read_bytes(), None)
        self.process, self.connections, self.token = os.urandom(16), 0, b""
        self.job: Job | None = None
        self.encoding: Quantised
        self.model: Model | None = None
        self.active: Active | None = None
        self.offer: Any = None
        self.job_done: Any = None
        self.asked: set[int] = set()
        self.done: set[int] = set()  # rounds whose end is known
        self.link: Connection
        self.welcome: Any = None
        self.certificates: dict[bytes, rounds.Certified] = {}
        self.last_round = 0
        self.cohorts: list[list[str]] = []
        self.draws = rounds.Draws()
        self._read_state()

    # What is kept

    def _read_state(self) -> None:
        path = self.settings.state
        if path and path.exists():
            kept = json.loads(path.read_text())
            self.last_round, self.cohorts = kept["last_round"], kept["cohorts"]
            self.draws = rounds.Draws(**kept["draws"])
        self.first_round = self.last_round + 1

    def _keep(self) -> None:
        """Writes the latest round and the survivor sets, so that a disk that is synced has them."""
        path = self.settings.state
        if not path:
            return
        new = path.with_suffix(".new")
        with new.open("w") as out:
            kept = {"last_round": self.last_round, "cohorts": self.cohorts, "draws": vars(self.draws)}
            json.dump(kept, out)
            out.flush()
            os.fsync(out.fileno())
        new.rename(path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def tell(self, event: str, **more: Any) -> None:
        self.settings.tell({"event": event, "party": self.name, **more})

    # Connections

    def run(self) -> bool:
        """Takes part until the end; whether it was a good one."""
        pause, since = 0.1, time.monotonic()
        while True:
            try:
                self._session()
            except Lost as lost:
                self.tell("lost", reason=str(lost))
            except Ended as ended:
                self.tell("ended", reason=str(ended), good=ended.good)
                return ended.good
            if self.welcomed_here:
                pause, since = 0.1, time.monotonic()
            elif self.come_again:
                continue
            if time.monotonic() - since > self.settings.give_up_after:
                self.tell("ended", reason="no coordinator", good=False)
                return False
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _session(self) -> None:
        self.welcomed_here = self.come_again = False
        self.certificates, self.asked = {}, set()
        self.pieces, self.model_pieces = wire.Pieces("a message"), wire.Pieces("a model")
        if self.active:
            self.active.here = False
        s = self.settings
        self.link = Connection(s.url, s.server_name, s.ca, s.cert, s.key, self.authority)
        self.connections += 1
        try:
            self._hello()
            while True:
                frame = self.link.frame(self._patience())
                kind = frame.WhichOneof("frame")
                if not self.welcomed_here and kind not in ("welcome", "refused"):
                    raise BadFrame(f"{kind} before Welcome")
                self.on_frame(kind, getattr(frame, kind))
        except Ended:
            self.link.flush()
            raise
        finally:
            self.link.close()

    def _hello(self) -> None:
        a = self.active
        hello = pb.Hello(
            first_version=wire.VERSION,
            last_version=wire.VERSION,
            program="interop/1",
            job=self.settings.job,
            name=self.name,
            round=a.number if a else 0,
            answered=a.heard if a else 0,
            process=self.process,
            connection=self.connections,
            token=self.token,
            last_round=self.last_round,
        )
        self.send(hello=hello)

    def _patience(self) -> float:
        """Seconds after which silence is taken for a lost connection."""
        if not self.welcomed_here:
            return 20.0
        if self.pieces.under_way or self.model_pieces.under_way:
            return 30.0
        if self.active and self.active.machine and self.job:
            return float(self.job["input_deadline"] + self.job["stage_deadline"] + 10)
        return 24 * 3600.0

    def send(self, **frame: Any) -> None:
        self.link.send(pb.PartyFrame(**frame))

    # Frames

    def on_frame(self, kind: str, frame: Any) -> None:
        handler = getattr(self, f"_on_{kind}", None)
        if handler is None:
            raise BadFrame(f"{kind} has no place in this job")
        handler(frame)

    def _on_welcome(self, welcome: Any) -> None:
        if self.welcomed_here and welcome == self.welcome:
            return
        if self.welcomed_here or welcome.version != wire.VERSION:
            raise BadFrame("a second Welcome, or one of another version")
        try:
            job = Job.read(welcome.job_spec)
            self.encoding = job.quantised()
        except BadJob as error:
            raise Ended(f"the job is not understood: {error}", good=False) from error
        if job.hash != welcome.job_hash:
            raise Ended("the hash of the job is another one", good=False)
        if job["job"] != self.settings.job or (self.job and self.job.hash != job.hash):
            raise Ended("this is another job", good=False)
        if job.protocol not in self.settings.protocols or job["adversary"] not in self.settings.adversaries:
            raise Ended(f"policy: {job.protocol}, {job['adversary']}", good=False)
        if job.min_parties < self.settings.min_cohort:
            raise Ended(f"policy: rounds of {job.min_parties} parties", good=False)
        self.job, self.welcome, self.welcomed_here = job, welcome, True
        self.tell("welcome", program=welcome.program, hash=job.hash.hex())

    def _on_refused(self, refused: Any) -> None:
        code = pb.RefusalCode.Name(refused.code)
        self.tell("refused", code=code, reason=refused.reason)
        if refused.code == pb.REFUSAL_COME_AGAIN:
            self.token, self.come_again = refused.token, True
        welcomed = self.job is not None
        if refused.code in wire.FINAL or (refused.code == pb.REFUSAL_NAME_TAKEN and not welcomed):
            raise Ended(f"{code}: {refused.reason}", good=False)
        raise Lost(f"{code}: {refused.reason}")

    def _on_round_offer(self, offer: Any) -> None:
        a = self.active
        if offer.round < self.first_round or offer.round in self.done:
            return
        if a and (offer.round < a.number or (offer.round == a.number and (a.machine or a.fixed))):
            return
        if a and offer.round > a.number:
            # Nothing said how that round ended; the coordinator has gone on without this party.
            self._over(a.number, "lost", reason="a newer round is offered")
        self.offer = offer
        self._ready_or_ask(offer.model)

    def _ready_or_ask(self, name: Any) -> None:
        """Goes on with the offer or the end of the job, where the model is here; else asks for it."""
        if name.dim == 0 and name.hash == derive.model_hash(b""):
            self.model = Model(name.version, [], name.hash)
        if not (self.model and self.model.is_named(name)):
            if name.version not in self.asked:
                self.asked.add(name.version)
                self.wanted = name
                self.send(model_request=pb.ModelRequest(version=name.version))
            return
        if self.job_done is not None:
            raise Ended("the job is done", good=True)
        self._ready()

    def _ready(self) -> None:
        assert self.job and self.model
        number = self.offer.round
        if not (self.active and self.active.number == number):
            if self.job.commits and self.draws.over:
                why = "too many nonces were opened for rounds without this party's vector"
                self._refuse(Active(number, self.model, b""), pb.ROUND_REFUSAL_POLICY, Policy(why))
                raise Ended(f"policy: {why}", good=False)
            self.active = Active(number, self.model, os.urandom(32))
            self.last_round = max(self.last_round, number)
            self._keep()
        nonce = self.active.nonce
        if self.job.commits:
            said = derive.commitment(self.job.hash, number, self.name, nonce)
            self.send(ready=pb.Ready(round=number, commitment=said))
        else:
            self.send(ready=pb.Ready(round=number, nonce=nonce))

    def _on_model_chunk(self, piece: Any) -> None:
        if piece.version not in self.asked or (self.model and self.model.is_named(self.wanted)):
            return
        length = len(self.encoding.number_bytes([0.0])) * self.wanted.dim
        data = self.model_pieces.add((piece.version,), piece, length)
        if data is None:
            return
        if len(data) != length or derive.model_hash(data) != self.wanted.hash:
            raise Ended("the model has another hash than its name", good=False)
        values = self.encoding.numbers(data)
        if not all(map(math.isfinite, values)):
            raise Ended("the model holds a number that is not finite", good=False)
        self.model = Model(piece.version, values, self.wanted.hash)
        self._ready_or_ask(self.job_done if self.job_done is not None else self.offer.model)

    def _on_roster_fixed(self, frame: Any) -> None:
        a = self.active
        if a is None or a.number != frame.round or not self.job or not self.job.commits:
            raise BadFrame("RosterFixed of a round that the party is not ready for")
        try:
            fixed = rounds.fixed(self, a, frame)
            if a.fixed and a.fixed != fixed:
                raise Fault("a second, different roster is fixed")
            if a.machine:
                raise Fault("a roster is fixed amid the round")
        except Fault as fault:
            self._refuse(a, pb.ROUND_REFUSAL_FAULT, fault)
            return
        except Policy as rule:
            self._refuse(a, pb.ROUND_REFUSAL_POLICY, rule)
            return
        if a.fixed is None:
            self.draws.drawn(a.number)
            self._keep()
        a.fixed = fixed
        self.open_nonce(a)

    def open_nonce(self, a: Active) -> None:
        self.send(nonce_opening=pb.NonceOpening(round=a.number, nonce=a.nonce))

    def _on_round_start(self, start: Any) -> None:
        a = self.active
        if a is None or a.number != start.round:
            why = pb.ROUND_REFUSAL_UNABLE
            self.send(round_refused=pb.RoundRefused(round=start.round, code=why, reason="not in this round"))
            return
        with_round = Refusing(self, a)
        with with_round:
            made = rounds.start(self, a, start)
            if a.machine is None:
                made.vector = lambda: self._words(a)
                made.accept = lambda survivors: self._accept(a, survivors)
                a.machine = machine(made)
                a.here = True
                self._answer(a, 0, a.machine.start())
                return
            if made.context != a.machine.round.context:
                raise Fault("the round begins a second time, in another way")
            a.here = True
            if a.machine.result is None and start.answers_taken <= a.answer_stage:
                self.tell("again", round=a.number, stage=a.answer_stage)
                self.say(a, a.answer_stage, a.machine.answers[a.answer_stage])

    def _answer(self, a: Active, stage: int, message: bytes) -> None:
        a.answer_stage = stage
        if stage >= wire.INPUT_STAGE and self.draws.sends(a.number):
            self._keep()
        self.say(a, stage, message)

    def say(self, a: Active, stage: int, message: bytes) -> None:
        """Sends an answer, piece by piece."""
        for frame in wire.chunks(a.number, stage, message):
            self.link.send(frame)

    def _words(self, a: Active) -> list[int]:
        values, weight = self.settings.train(list(a.model.values), a.number)
        words = self.encoding.encode(values, weight, os.urandom)
        self.tell("input", round=a.number, weight=weight)
        return words

    def _accept(self, a: Active, survivors: Sequence[int]) -> None:
        """The policy's last word about a set of survivors, which is then written down."""
        assert a.machine
        names = sorted(a.machine.round.members[rank].name for rank in survivors)
        if len(names) < self.settings.min_cohort:
            raise Policy(f"{len(names)} survivors, fewer than {self.settings.min_cohort}")
        for before in self.cohorts:
            change = len(set(before) ^ set(names))
            if 0 < change < self.settings.min_change:
                raise Policy(f"the survivors differ by {change} from an earlier set")
        if names not in self.cohorts:
            self.cohorts.append(names)
            self._keep()

    def _on_chunk(self, chunk: Any) -> None:
        a = self.active
        if a is None or a.machine is None or a.number != chunk.round:
            return
        if not a.here:
            raise BadFrame("a message before RoundStart")
        words = (self.encoding.words * self.encoding.width + 7) // 8
        largest = 4096 + 1024 * a.machine.round.job.parties + words
        message = self.pieces.add((chunk.round, chunk.stage), chunk, largest)
        if message is None:
            return
        with Refusing(self, a):
            answer = a.machine.hear(chunk.stage, message)
            a.heard = max(a.heard, chunk.stage + 1)
            if answer is not None:
                self._answer(a, chunk.stage + 1, answer)
            elif a.machine.result and a.next is None:
                self._result(a, message)

    def _result(self, a: Active, message: bytes) -> None:
        assert a.machine and a.machine.result and self.job
        result = a.machine.result
        try:
            mean, weight = self.encoding.decode(result.total, len(result.survivors))
        except BadWords as error:
            raise Fault(str(error)) from error
        update = self.job["model_update"]
        values = (
            a.model.values if update == "none" else self.encoding.next_model(a.model.values, mean, update)
        )
        version = a.model.version + (update != "none")
        a.next = Model(version, list(values), derive.model_hash(self.encoding.number_bytes(values)))
        a.name = derive.result_name(a.machine.round.context, message)
        names = [a.machine.round.members[rank].name for rank in result.survivors]
        self.tell("sum", round=a.number, survivors=names, weight=weight, sum=result.total)

    def _on_round_done(self, done: Any) -> None:
        a = self.active
        if a is None or a.number != done.round:
            if done.round not in self.done:
                raise BadFrame("RoundDone of a round that the party is not in")
            return
        if a.next is None:
            self._refuse(a, pb.ROUND_REFUSAL_FAULT, Fault("RoundDone without a result"))
            return
        right = a.next.is_named(done.model) and done.result == a.name
        self.model = a.next
        self._over(a.number, "done", right=right, model=a.next.hash.hex(), result=a.name.hex())
        self.confirm(pb.RoundConfirmed(round=done.round, model=a.next.name, result=a.name))
        if not right:
            raise Ended("the coordinator names another model or result", good=False)

    def confirm(self, confirmed: Any) -> None:
        self.send(round_confirmed=confirmed)

    def _on_round_aborted(self, aborted: Any) -> None:
        a = self.active
        if a and a.number == aborted.round:
            why = {name: getattr(aborted, name) for name in ("reason", "only_you", "counted", "unknown")}
            self._over(a.number, "aborted", **why)

    def _on_job_done(self, done: Any) -> None:
        self.job_done = done.model
        self._ready_or_ask(done.model)

    def _over(self, number: int, event: str, **more: Any) -> None:
        self.active, self.offer = None, None
        self.done.add(number)
        self.tell(event, round=number, **more)

    def _refuse(self, a: Active, code: int, why: Exception) -> None:
        refusal = pb.RoundRefused(round=a.number, code=code, reason=str(why))
        if isinstance(why, Fault) and why.accused is not None and a.machine:
            refusal.accused = a.machine.round.members[why.accused].name
            refusal.evidence = why.evidence[: 64 << 10]
        self.send(round_refused=refusal)
        self._over(a.number, "refusing", reason=str(why), accused=refusal.accused)


class Refusing:
    """Turns what goes wrong within a round into its refusal."""

    def __init__(self, party: Party, active: Active) -> None:
        self.party, self.active = party, active

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        codes: list[tuple[type[Exception], int]] = [
            (Fault, pb.ROUND_REFUSAL_FAULT),
            (Policy, pb.ROUND_REFUSAL_POLICY),
            (ValueError, pb.ROUND_REFUSAL_UNABLE),
        ]
        for wanted, code in codes:
            if isinstance(error, wanted):
                self.party._refuse(self.active, code, error)
                return True
        return False
