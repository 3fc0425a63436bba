"""The tables of docs/wire-party.md, row by row: the party of this program, and frames made here."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blindsum as bs
from blindsum import machines

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
CONNECTIONS = json.loads((VECTORS / "connection.json").read_text())["connections"]
FRAMES = {"welcome": 1, "refused": 2, "model_chunk": 3, "offer": 4, "start": 5, "chunk": 6, "aborted": 7}
FRAMES |= {"done": 8, "job_done": 9, "wanted": 10, "fixed": 11, "held": 12}
PAUSED = (1, b"paused by olga: a test")
SAYS = {1: "hello", 2: "model_request", 3: "ready", 4: "chunk", 5: "refused", 6: "confirmed", 9: "opening"}
SAYS |= {12: "leaves"}
CODES = {1: "POLICY", 2: "FAULT", 3: "UNABLE", 4: "SITS_OUT", 5: "INPUT"}
LEAVING = {1: "CLOSED", 2: "STOPPED", 3: "POLICY", 4: "FAILED"}


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif value:
            out += varint(number << 3) + varint(value)
    return out


def fields(data: bytes) -> dict[int, Any]:
    """The fields of a message, the last one of each number."""
    found: dict[int, Any] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            at += 1
            value |= (data[at - 1] & 127) << shift
            shift += 7
            if data[at - 1] < 128:
                return value

    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            found[key >> 3], at = data[at : at + value], at + value
        else:
            found[key >> 3] = value
    return found


def framed_hash(label: str, *parts: bytes) -> bytes:
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(bytes([len(label)]) + label.encode() + framed).digest()


class Party:
    """A party in one state after the other, and the coordinator that is made up for it."""

    def __init__(self, folder: Path, protocol: str) -> None:
        case = CONNECTIONS[protocol == "secagg+"]
        me = case["parties"][case["recorded"]]
        (folder / "me.key").write_text(me["private_key"])
        (folder / "me.key").chmod(0o600)
        (folder / "me.pem").write_text(ssl.DER_cert_to_PEM_cert(bytes.fromhex(me["certificate"])))
        (folder / "ca.pem").write_text(case["ca"])
        self.now, self.wall, self.submits = 0.0, float(case["now"]), True
        policy = bs.Policy(
            allowed_protocols=["plain", "secagg+"],
            require_adversary=None,
            min_corrupt=0.0,
            min_honest=1,
            min_cohort=2,
        )
        self.machine = machines.PartyMachine.open(
            case["spec"]["job"],
            identity=folder / "me",
            ca=folder / "ca.pem",
            policy=policy,
            **self.clocks(),
        )
        self.dim, self.hash = case["spec"]["dim"], bytes.fromhex(case["job_hash"])
        self.first = bytes.fromhex(case["initial"]) if case["initial"] else bytes(4 * self.dim)
        members = sorted(case["parties"], key=lambda member: member["name"])
        self.me = members.index(me)
        self.names = [member["name"].encode() for member in members]
        self.certificates = [bytes.fromhex(member["certificate"]) for member in members]
        self.nonces = [os.urandom(32) for _ in members]
        self.own, self.own_commitment, self.vector, self.brought = bytes(32), bytes(32), b"", False
        self.numbers = message((1, 3), (2, 4)) if protocol == "secagg+" else b""
        self.welcome = bytes.fromhex(next(f["frame"] for f in case["frames"] if f["what"] == "welcome"))
        self.model = message((2, framed_hash("blindsum model", self.first)), (3, self.dim))
        self.other_model = message((1, 1), (2, bytes(32)), (3, self.dim))

    def clocks(self) -> dict[str, float]:
        return {"now": self.now, "wall": self.wall + self.now}

    def heard(self) -> str:
        """What the party says and tells now."""
        said = [self._said(fields(frame)) for frame in self.machine.frames()]
        for event in self.machine.events():
            said.append(type(event).__name__)
            if isinstance(event, machines.RoundBegins) and event.needs_update and self.submits:
                self.machine.submit(event.number, np.zeros(self.dim, np.float32), **self.clocks())
                said += [self._said(fields(frame)) for frame in self.machine.frames()]
        return ", ".join(said)

    def _said(self, frame: dict[int, Any]) -> str:
        ((kind, body),) = frame.items()
        what, inner = SAYS[kind], fields(body)
        if what == "ready":
            self.own, self.own_commitment = inner.get(2, self.own), inner.get(5, bytes(32))
        if what == "opening":
            self.own = inner[2]
        if what == "chunk":
            self.vector = inner[5]
        more = {"hello": inner.get(6, 0), "ready": inner.get(1), "chunk": f"{inner.get(1)}/{inner.get(2, 0)}"}
        more["leaves"] = LEAVING.get(inner.get(1, 0))
        more["refused"] = f"{inner.get(1)} {CODES.get(inner.get(2, 0))}"
        return f"{what} {more[what]}" if what in more else what

    def hear(self, frame: bytes) -> str:
        if not self.machine.is_over:
            self.machine.want_round(**self.clocks())
        self.machine.receive(frame, **self.clocks())
        return self.heard()

    def frame(self, kind: str, *body: tuple[int, int | bytes]) -> str:
        return self.hear(message((FRAMES[kind], message(*body))))

    def connect(self) -> str:
        self.machine.connected(**self.clocks())
        self.brought = False
        return self.heard()

    def wait(self) -> str:
        self.now += 800.0
        self.machine.tick(**self.clocks())
        return self.heard()

    def offer(self, number: int) -> str:
        return self.frame("offer", (1, number), (2, self.model))

    def send_model(self, data: bytes, total: int, offset: int = 0) -> str:
        return self.frame("model_chunk", (2, offset), (3, total), (4, data))

    def piece(self, data: bytes, stage: int = 0, total: int = 0, offset: int = 0) -> str:
        total = total or len(data)
        return self.frame("chunk", (1, 1), (2, stage), (3, offset), (4, total), (5, data))

    def _roster(self, said: list[bytes]) -> list[tuple[int, int | bytes]]:
        marks = [framed_hash("blindsum certificate", one) for one in self.certificates]
        roster = [(3, message((1, mark), (2, one))) for mark, one in zip(marks, said, strict=True)]
        brought = [] if self.brought else [(4, one) for one in self.certificates]
        self.brought = True
        return [*roster, *brought]

    def fix(self, number: int, commitment: bytes = b"", numbers: bytes = b"", model: bytes = b"") -> str:
        named = zip(self.names, self.nonces, strict=True)
        of = [framed_hash("blindsum nonce", self.hash, number.to_bytes(8, "big"), *one) for one in named]
        of[self.me] = commitment or self.own_commitment
        roster = self._roster(of)
        return self.frame(
            "fixed", (1, number), (2, model or self.model), *roster, (5, numbers or self.numbers)
        )

    def start(self, number: int, taken: int = 0, other: bool = False, own: bytes = b"") -> str:
        said = [bytes(32) if other and at != self.me else one for at, one in enumerate(self.nonces)]
        said[self.me] = own or self.own
        roster = self._roster(said)
        return self.frame("start", (1, number), (2, self.model), *roster, (5, taken), (7, self.numbers))

    def result(self, add: int = 0) -> str:
        """The sum of three vectors like the party's own, in words of 10 bits."""
        packed = int.from_bytes(self.vector[34:], "little")
        words = [(packed >> 10 * at & 1023) * 3 + add for at in range(self.dim)]
        sums = sum(word << 10 * at for at, word in enumerate(words))
        return self.piece(self.vector[:34] + b"\7" + sums.to_bytes((10 * self.dim + 7) // 8, "little"))


def waiting(party: Party) -> None:
    party.connect()
    party.hear(party.welcome)


def ready(party: Party) -> None:
    waiting(party)
    if party.offer(1) == "model_request":
        party.send_model(party.first, len(party.first))


def opened(party: Party) -> None:
    ready(party)
    party.fix(1)


def in_round(party: Party) -> None:
    opened(party) if party.numbers else ready(party)
    party.start(1)


def without_update(party: Party) -> None:
    party.submits = False
    in_round(party)


def with_result(party: Party) -> None:
    in_round(party)
    assert party.result() == ""


def over_new_link(party: Party) -> None:
    in_round(party)
    assert party.connect() == "hello 1"
    party.hear(party.welcome)


# State, what comes, what the party says and tells its user. "plain" where nothing else is said.
ROWS: list[tuple[Any, Any, str]] = [
    (Party.connect, lambda p: p.offer(1), "Reconnect"),
    (Party.connect, lambda p: p.hear(b""), "leaves FAILED, Failed"),
    (Party.connect, lambda p: p.hear(p.welcome), "Joined"),
    (waiting, lambda p: p.hear(p.welcome), ""),
    (waiting, lambda p: p.hear(p.welcome[:-1] + bytes([p.welcome[-1] ^ 1])), "Reconnect"),
    (waiting, lambda p: p.frame("refused", (1, 7)), "Reconnect"),
    (waiting, lambda p: p.frame("refused", (1, 6)), "Failed"),
    (waiting, lambda p: p.frame("refused", (1, 99)), "Failed"),
    (waiting, lambda p: p.hear(message((30, b"x"))), "leaves FAILED, Failed"),
    (waiting, lambda p: p.send_model(p.first, len(p.first)), ""),
    (waiting, lambda p: p.piece(b"abc"), ""),
    (waiting, lambda p: p.frame("wanted", (1, 5)), ""),
    (waiting, lambda p: p.frame("done", (1, 1), (2, p.model), (3, bytes(32))), ""),
    (waiting, lambda p: p.frame("aborted", (1, 1)), ""),
    (waiting, lambda p: p.frame("offer", (1, 1)), "leaves FAILED, Failed"),
    (
        waiting,
        lambda p: p.frame("offer", (1, 1), (2, message((2, bytes(32)), (3, 9)))),
        "leaves FAILED, Failed",
    ),
    (waiting, lambda p: p.frame("held", PAUSED), "Held"),
    (waiting, lambda p: p.frame("held", PAUSED) + p.frame("held", PAUSED), "Held"),
    (waiting, lambda p: p.frame("held", PAUSED) + p.frame("held", (1, b"paused by bob: no")), "Held"),
    (waiting, lambda p: p.frame("held"), ""),
    (waiting, lambda p: p.offer(1) + p.offer(1), "model_request"),
    (waiting, lambda p: p.offer(1) + p.send_model(bytes(20), 20), "model_requestleaves FAILED, Failed"),
    (waiting, lambda p: p.offer(1) + p.send_model(p.first[4:], 20, 4), "model_requestleaves FAILED, Failed"),
    (waiting, lambda p: p.offer(1) + p.send_model(bytes(24), 24), "model_requestleaves FAILED, Failed"),
    (waiting, lambda p: p.start(1), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.offer(1), "ready 1"),
    (ready, lambda p: p.offer(3), "ready 3"),
    (ready, lambda p: p.offer(3) and p.offer(2), "refused 2 UNABLE, RoundRefused"),
    (ready, lambda p: p.offer(3) and p.start(2), "refused 2 UNABLE"),
    (ready, lambda p: p.start(4), "refused 4 UNABLE, RoundRefused"),
    (ready, lambda p: p.start(4) and p.start(1), "RoundBegins, chunk 1/0"),
    (ready, lambda p: p.piece(b"abc"), ""),
    (ready, lambda p: p.fix(1, b"\1" * 32), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.start(1, own=b"\1" * 32), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.frame("aborted", (1, 1), (2, 1)) + p.offer(2), "ready 2"),
    (ready, lambda p: p.frame("aborted", (1, 1)) + p.start(1), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.frame("aborted", (1, 1)) + p.offer(1), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.frame("done", (1, 1), (2, p.model)) + p.offer(2), "ready 2"),
    (in_round, lambda p: p.start(1, 0), "chunk 1/0"),
    (in_round, lambda p: p.start(1, 1), ""),
    (in_round, lambda p: p.start(1, other=True), "refused 1 FAULT, RoundLost"),
    (in_round, lambda p: p.start(2), "refused 2 UNABLE"),
    (in_round, lambda p: p.piece(b"a", total=10**9), "leaves FAILED, RoundLost, Failed"),
    (in_round, lambda p: p.piece(b"abc", stage=1), "leaves FAILED, RoundLost, Failed"),
    (in_round, lambda p: p.piece(b"bc", total=3, offset=1), "leaves FAILED, RoundLost, Failed"),
    (in_round, lambda p: p.piece(b"abc"), "refused 1 FAULT, RoundLost"),
    (in_round, lambda p: p.offer(1), ""),
    (in_round, lambda p: p.frame("held", PAUSED), "Held"),
    (in_round, lambda p: p.offer(2), "Reconnect"),
    (in_round, lambda p: p.frame("aborted", (1, 1)) + p.offer(2), "RoundLostready 2"),
    (in_round, lambda p: p.frame("aborted", (1, 1), (2, 1), (4, 1)), "RoundLost"),
    (in_round, lambda p: p.frame("done", (1, 1), (2, p.model)), "RoundLost"),
    (in_round, lambda p: p.frame("job_done", (1, p.model)), "RoundLost, JobDone"),
    (in_round, lambda p: p.frame("job_done", (1, p.other_model)), "model_request"),
    (in_round, Party.wait, "Reconnect"),
    (over_new_link, lambda p: p.start(1), "chunk 1/0"),
    (over_new_link, lambda p: p.offer(1), "refused 1 UNABLE, RoundLost"),
    (without_update, lambda p: p.offer(2), "ready 2, RoundLost"),
    (without_update, Party.wait, "refused 1 UNABLE, RoundLost"),
    (with_result, Party.result, ""),
    (with_result, lambda p: p.result(add=1), "refused 1 FAULT, RoundLost"),
    (with_result, lambda p: p.start(1), ""),
    (with_result, lambda p: p.offer(2), "Reconnect"),
    (
        with_result,
        lambda p: p.frame("done", (1, 1), (2, p.model)),
        "confirmed, leaves FAILED, RoundLost, Failed",
    ),
]
COMMITTED: list[tuple[Any, Any, str]] = [
    (waiting, lambda p: p.fix(1), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.start(1), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.fix(1), "opening"),
    (ready, lambda p: p.fix(1, commitment=b"\1" * 32), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.fix(1, model=p.other_model), "refused 1 UNABLE, RoundRefused"),
    (ready, lambda p: p.fix(1, numbers=message((1, 3), (2, 1))), "refused 1 FAULT, RoundRefused"),
    (ready, lambda p: p.fix(2) and p.fix(1), "opening"),
    (opened, lambda p: p.fix(1), "opening"),
    (opened, lambda p: p.fix(1, numbers=message((1, 3), (2, 3))), "refused 1 FAULT, RoundRefused"),
    (opened, lambda p: p.offer(1), "ready 1"),
    (opened, lambda p: p.offer(2) and p.fix(1), "refused 1 UNABLE"),
    (opened, lambda p: p.start(1), "chunk 1/0, RoundBegins"),
    (opened, lambda p: p.start(1, other=True), "refused 1 FAULT, RoundRefused"),
    (in_round, lambda p: p.fix(1), ""),
]


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_without_commitments(tmp_path: Path, row: int) -> None:
    state, comes, wanted = ROWS[row]
    party = Party(tmp_path, "plain")
    state(party)
    assert comes(party) == wanted


@pytest.mark.parametrize("row", range(len(COMMITTED)))
def test_with_commitments(tmp_path: Path, row: int) -> None:
    state, comes, wanted = COMMITTED[row]
    party = Party(tmp_path, "secagg+")
    state(party)
    assert comes(party) == wanted
