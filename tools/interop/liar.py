"""Parties that break the protocol, or whose connection breaks, to see what the others make of it."""

from __future__ import annotations

import os
import time
from typing import Any

import derive
import wire
from encoding import pack, packed_size, unpack
from party import Active, Party, Settings
from wire import pb

HEAD = 34  # version, stage, context
LIES = {
    "nonce": "opens another nonce than it committed to",
    "silent": "opens no nonce",
    "nonce-twice": "opens its nonce, then another one",
    "slow-open": "opens its nonce 2 s late",
    "key-signature": "signs its keys wrongly",
    "sealed": "seals shares that do not open",
    "share": "reveals a wrong share of every secret",
    "one-share": "reveals one wrong share",
    "beyond": "reveals a share beyond the field",
    "signature": "signs the survivors wrongly",
    "other-set": "signs another set of survivors, rightly",
    "garbage": "answers the first stage with garbage",
    "garbage-input": "sends a vector of garbage of the right length",
    "padding": "sets bits that are left over behind its vector",
    "second": "sends a second, different answer to a stage that is under way",
    "same": "sends the same answer of a stage three times",
    "same-often": "sends the same answer of a stage eleven times",
    "later": "answers a later stage",
    "future": "sends a piece of a later round",
    "total": "announces a message of 2^40 bytes",
    "piece": "sends a piece out of place",
    "short": "sends a vector of another length",
    "weight": "says a weight that is beyond max_weight",
    "no-weight": "says a weight of 0",
    "confirm": "confirms another model",
    "accuse": "accuses another member of something",
    "empty": "sends an empty frame",
    "cut-ready": "loses its connection once it was ready",
    "cut-fixed": "loses its connection when the roster is fixed, before it opens",
    "cut-opened": "loses its connection once it opened its nonce",
    "cut-input": "loses its connection amid its vector",
    "cut-stages": "loses its connection before each answer",
    "cut-answers": "loses its connection after each answer",
    "cut-result": "loses its connection before it confirms the result",
    "cut-away": "loses its connection at its vector and comes back after 3 s, within the grace time",
    "cut-long": "loses its connection at its vector and comes back after 8 s",
}


def flip(data: bytes, at: int, bit: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


class Liar(Party):
    """Lies in the first round from `first` on that gives it the opportunity, or always."""

    def __init__(self, settings: Settings, lie: str, first: int, always: bool = False) -> None:
        super().__init__(settings)
        self.lie, self.first, self.always = lie, first, always
        self.lied: set[object] = set()

    def now(self, lie: str, number: int, once: object = None) -> bool:
        """Whether to tell this lie now, which is told once for each `once`."""
        if self.always and once is None:
            once = number
        if self.lie != lie or number < self.first or once in self.lied:
            return False
        self.lied.add(once)
        self.tell("lying", lie=lie, round=number)
        return True

    def cut(self, reason: str, seconds: float = 0) -> None:
        time.sleep(0.3)  # so that what was said before is out
        self.link.cut()
        time.sleep(seconds)
        raise wire.Lost(reason)

    def _ready(self) -> None:
        super()._ready()
        if self.now("cut-ready", self.offer.round):
            self.cut("cut after Ready")

    def open_nonce(self, a: Active) -> None:
        if self.now("nonce", a.number):
            self.send(nonce_opening=pb.NonceOpening(round=a.number, nonce=os.urandom(32)))
            return
        if self.now("silent", a.number):
            return
        if self.now("slow-open", a.number):
            time.sleep(2)
        if self.now("cut-fixed", a.number):
            self.cut("cut at RosterFixed")
        super().open_nonce(a)
        if self.now("nonce-twice", a.number):
            self.send(nonce_opening=pb.NonceOpening(round=a.number, nonce=os.urandom(32)))
        if self.now("cut-opened", a.number):
            self.cut("cut after NonceOpening")

    def say(self, a: Active, stage: int, message: bytes) -> None:
        assert a.machine
        name = a.machine.stages[stage]
        if name in ("input", "masked-input"):
            message = self._input(a, message)
        if self.now("cut-stages", a.number, (a.number, stage)):
            self.cut(f"cut before the answer of {name}")
        if stage == 0:
            message = self._first(a, message)
        if name == "share-keys" and self.now("sealed", a.number):
            # The list begins behind the commitment and a length; its entries are rank, length, 96 bytes.
            for at in range(HEAD + 32 + 4 + 8, len(message), 104):
                message = flip(message, at)
        if name == "consistency" and self.now("signature", a.number):
            message = flip(message, HEAD + 4)
        if name == "consistency" and self.now("other-set", a.number):
            said = a.machine.round.context + bytes([255])
            message = message[: HEAD + 4] + derive.sign(self.identity, "blindsum survivors", said)
        if name == "unmask":
            message = self._shares(a, message)
        super().say(a, stage, message)
        if name in ("input", "masked-input"):
            # The others still train, so this stage is under way.
            self._too_much(a, stage, message)
        if self.now("cut-answers", a.number, (a.number, stage)):
            self.cut(f"cut after the answer of {name}")

    def _too_much(self, a: Active, stage: int, message: bytes) -> None:
        for _ in range(2 if self.now("same", a.number) else 10 if self.now("same-often", a.number) else 0):
            super().say(a, stage, message)
        if self.now("second", a.number):
            super().say(a, stage, flip(message, HEAD))
        if self.now("later", a.number):
            super().say(a, stage + 1, bytes([1, stage + 1]) + message[2:])

    def _first(self, a: Active, message: bytes) -> bytes:
        if self.now("garbage", a.number):
            return os.urandom(len(message))
        if self.now("key-signature", a.number):
            return flip(message, len(message) - 1)
        if self.now("future", a.number):
            later = pb.Chunk(round=a.number + 5, stage=0, offset=0, total=len(message), data=message)
            self.send(chunk=later)
        if self.now("total", a.number):
            self.send(chunk=pb.Chunk(round=a.number, stage=0, offset=0, total=2**40, data=bytes(wire.PIECE)))
        if self.now("piece", a.number):
            self.send(chunk=pb.Chunk(round=a.number, stage=0, offset=7, total=len(message), data=message[7:]))
        if self.now("empty", a.number):
            self.link.send(pb.PartyFrame())
        if self.now("accuse", a.number):
            assert a.machine
            other = next(member.name for member in a.machine.round.members if member.name != self.name)
            refusal = pb.RoundRefused(round=a.number, code=pb.ROUND_REFUSAL_FAULT, reason="it lies")
            refusal.accused, refusal.evidence = other, b"nothing"
            self.send(round_refused=refusal)
            self._over(a.number, "refusing", reason="an accusation that is a lie")
        return message

    def _input(self, a: Active, message: bytes) -> bytes:
        assert a.machine
        count, width = a.machine.round.words, a.machine.round.width
        if self.now("garbage-input", a.number):
            words = [int.from_bytes(os.urandom(8), "little") % (1 << width) for _ in range(count)]
            return message[:HEAD] + pack(words, width)
        if self.now("padding", a.number):
            spare = 8 * packed_size(count, width) - count * width
            self.tell("note", spare_bits=spare)
            return flip(message, len(message) - 1, 128) if spare else message
        if self.now("short", a.number):
            return message[:-1]
        wrong = 1 << (width - 1) if self.lie == "weight" else 0
        if self.now("weight", a.number) or self.now("no-weight", a.number):
            # A masked word is the word and its masks, so the difference of the weights is added to it.
            words = unpack(message[HEAD:], count, width)
            right = self.said_weight
            words[-1] = (words[-1] - right + wrong) % (1 << width)
            return message[:HEAD] + pack(words, width)
        if self.lie == "cut-input" and len(message) > wire.PIECE and self.now("cut-input", a.number):
            frames = list(wire.chunks(a.number, a.answer_stage, message))
            for frame in frames[:-1]:
                self.link.send(frame)
            self.cut("cut amid the vector")
        if self.now("cut-away", a.number):
            self.cut("cut at the vector", 3)
        if self.now("cut-long", a.number):
            self.cut("cut at the vector", 8)
        return message

    def _words(self, a: Active) -> list[int]:
        words = super()._words(a)
        self.said_weight = words[-1]
        return words

    def _shares(self, a: Active, message: bytes) -> bytes:
        # The list begins behind a length; its entries are rank and 40 bytes.
        places = list(range(HEAD + 4 + 4, len(message), 44))
        if self.now("share", a.number):
            for at in places:
                message = flip(message, at)
        if self.now("one-share", a.number):
            message = flip(message, places[0])
        if self.now("beyond", a.number):
            at = places[0]
            message = message[:at] + b"\xff" * 40 + message[at + 40 :]
        return message

    def confirm(self, confirmed: Any) -> None:
        if self.now("cut-result", confirmed.round):
            self.cut("cut before RoundConfirmed")
        if self.now("confirm", confirmed.round):
            confirmed.model.hash = os.urandom(32)
        super().confirm(confirmed)
