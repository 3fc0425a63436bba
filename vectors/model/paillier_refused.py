"""Messages of the three ways of Paillier's scheme that nobody may accept, each with what the fault says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import derive, paillier, wire
from .paillier_opening_refused import Change, adverts, bodies, openings, proofs, told, without_proof
from .paillier_party import SERVICE, SUM, VECTOR_KEY, Party, Sum, key_of_service
from .play import pick
from .refused import HEADER, flip
from .words import pack

if TYPE_CHECKING:
    from .paillier_rounds import Play

Entry = dict[str, Any]
SEAL = "seal: does not open as a message"


def frames(message: bytes) -> Iterator[Change]:
    """Changes of a whole message that make it none of this round."""
    yield "cut short within the frame", "frame: a message has at least", message[: HEADER - 1]
    yield "another version", "unsupported message version 2", flip(message, 0, 3)
    yield "another round", "another round", flip(message, HEADER - 1)


# --- Sums ---


def numbers(play: Play, right: Sum) -> Iterator[tuple[str, str, bytes]]:
    """Sums of which some ciphertext is none, with the right contributors."""
    key = key_of_service()
    square = key.n**2
    wrong = {
        "zero": (0, "gcd(c, N) = 1 must hold"),
        "one": (1, "1 hides nothing"),
        "the square of the modulus": (square, "c < N^2 must hold"),
        "all ones": (2**4096 - 1, "c < N^2 must hold"),
        "the modulus": (key.n, "gcd(c, N) = 1 must hold"),
        "a multiple of a factor": (key.p * (square // key.p - 2), "gcd(c, N) = 1 must hold"),
    }
    for why, (number, rule) in wrong.items():
        fault = f"ciphertexts: ciphertext 0: {rule}"
        written = play.round.write(replace(right, roll=[number]))
        yield f"in the roll call: {why}", fault, written
        yield (
            f"in the words: {why}",
            fault,
            play.round.write(replace(right, words=[number, *right.words[1:]])),
        )


def sets(play: Play, right: Sum) -> Iterator[tuple[str, str, bytes]]:
    """Sums that are said to be of others."""
    n = play.round.parties
    for of in (right.of ^ {0}, right.of ^ {n - 1}, right.of ^ {1}, frozenset[int]()):
        why = f"said to be of {sorted(of)}"
        yield why, "contributors: ", play.round.write(replace(right, of=of))
    written = play.round.write(right)
    rule = "contributors: not a bitmap of this roster"
    yield "somebody outside the roster", rule, flip(written, 0, 1 << n)


def lengths(play: Play, right: Sum) -> Iterator[tuple[str, str, bytes]]:
    """Sums of another length; what was sealed is all right."""
    written = play.round.write(right)
    yield "a sum that is cut short", f"sum: {len(written) - 1} bytes", written[:-1]
    yield "a sum that is too long", f"sum: {len(written) + 1} bytes", written + b"\0"
    yield "a sum without words", "sum: ", play.round.write(replace(right, words=[]))
    yield "a sum without a roll call", "sum: ", play.round.write(replace(right, roll=[]))
    yield "nothing", "sum: 0 bytes", b""


def miscounted(play: Play, right: Sum, own: list[Sum]) -> Iterator[tuple[str, str, bytes]]:
    """Sums that are said to be of everybody, and are not: ``own`` is what each has added."""
    key, square = key_of_service(), key_of_service().n ** 2

    def added(*sums: Sum) -> bytes:
        return play.round.write(replace(play.round.add(list(sums)), of=right.of))

    def shifted(numbers: list[int], plaintext: int) -> list[int]:
        return [numbers[0] * key.encrypt(plaintext, 3) % square, *numbers[1:]]

    missing = "the sum is not of one vector of each party"
    yield "a sum without a party", missing, added(*own[:-1])
    yield "a sum with a party twice", missing, added(right, own[0])
    beyond = "wrong sum: a ciphertext of a survivor"
    behind = play.job.width() * play.job.lanes()
    words = replace(right, words=shifted(right.words, 1 << behind))
    yield "something behind the last word", beyond, play.round.write(words)
    roll = replace(right, roll=shifted(right.roll, 1 << 16 * play.round.parties))
    yield "something behind the last lane of the roll call", beyond, play.round.write(roll)


def elsewhere(play: Play, sender: Party, receiver: int, purpose: str, plain: bytes) -> Iterator[Change]:
    """What is right, but sealed for something else."""
    seats = [seat for seat in range(play.round.parties) if seat not in (sender.number, receiver)]
    right = sender.seal(receiver, purpose, plain)
    yield "a changed byte", SEAL, flip(right, 0)
    yield "a changed tag", SEAL, flip(right, -1)
    yield "cut short", "", right[:-1]
    yield "too long", "", right + b"\0"
    for other in ("hop 0", "hop 1", SUM, VECTOR_KEY):
        if other != purpose:
            yield f"sealed as {other}", SEAL, sender.seal(receiver, other, plain)
    yield "sealed by another party", SEAL, play.parties[seats[0]].seal(receiver, purpose, plain)
    yield "sealed for another party", SEAL, sender.seal(seats[0], purpose, plain)
    if receiver == SERVICE:
        shared = SERVICE, SERVICE, sender.number
    else:
        yield "sealed for the key service", SEAL, sender.seal(SERVICE, purpose, plain)
        shared = receiver, receiver, sender.number
    reflected = sender.message_key(*shared, purpose)
    yield "sealed in the other direction", SEAL, derive.seal(reflected, sender.bound, plain)
    key = sender.message_key(receiver, sender.number, receiver, purpose)
    yield "bound to nothing", SEAL, derive.seal(key, b"", plain)
    yield "bound to the round only", SEAL, derive.seal(key, play.context, plain)
    other_key = key_of_service()
    public = other_key.number(other_key.n) + other_key.number(other_key.h**2 % other_key.n)
    apart = Party(play.round, sender.number, sender.identity, play.tape(sender.number), sender.words)
    apart.begin(replace(play.opened, public=public))
    yield "of a party that was told another key", SEAL, apart.seal(receiver, purpose, plain)


def hops(play: Play, step: int, sender: int) -> Iterator[Change]:
    """What the next party refuses of a hop."""
    party, right = play.parties[sender], play.plain[step][sender]
    receiver, purpose = (sender + 1) % play.round.parties, f"hop {step}"
    for why, fault, body in elsewhere(play, party, receiver, purpose, play.round.write(right)):
        yield why, fault or SEAL, body
    for changes in (numbers, sets, lengths):
        for why, fault, plain in changes(play, right):
            yield why, fault, party.seal(receiver, purpose, plain)


def last_hops(play: Play, sender: int, own: list[Sum]) -> Iterator[Change]:
    """What the key service refuses of the last step, in which this party says something wrong."""
    step = play.round.steps() - 1
    party, right = play.parties[sender], play.plain[step][sender]
    sent = play.sent[step]

    def together(sealed: bytes) -> bytes:
        return b"".join((sent | {sender: sealed}).values())

    is_last = sender == max(sent)
    for why, fault, body in elsewhere(play, party, SERVICE, SUM, play.round.write(right)):
        cut = "sealed sums: cut short" if why == "cut short" else "sealed sums: more than those of all"
        yield why, fault or (cut if is_last else SEAL), together(body)
    changes: list[Callable[[Play, Sum], Iterator[Change]]] = [numbers, sets]
    for change in changes:
        for why, fault, plain in change(play, right):
            of = "the key service refuses: the sum is declared to be of"
            is_other = why.startswith("said to be")
            yield why, of if is_other else fault, together(party.seal(SERVICE, SUM, plain))
    for why, fault, plain in miscounted(play, right, own):
        yield why, fault, together(party.seal(SERVICE, SUM, plain))
    yield "nothing", "sealed sums: cut short", b""


def broadcasts(play: Play, receiver: int) -> Iterator[Change]:
    """What a party refuses of the vectors of the others; the first of them is changed."""
    others = [rank for rank in range(play.round.parties) if rank != receiver]
    sender = play.parties[others[0]]
    pieces = {}
    for rank in others:
        vector, wraps = play.parties[rank].broadcast(play.round.write(play.plain[0][rank]))
        pieces[rank] = vector + wraps[receiver]
    right = b"".join(pieces.values())

    def with_first(piece: bytes) -> bytes:
        return b"".join((pieces | {others[0]: piece}).values())

    def rewritten(plain: bytes) -> bytes:
        vector, wraps = sender.broadcast(plain)
        return with_first(vector + wraps[receiver])

    first = pieces[others[0]]
    vector = len(first) - 48
    yield "cut short", "vectors: ", right[:-1]
    yield "too long", "vectors: more than those of all others", right + b"\0"
    yield "nothing", "vectors: cut short", b""
    yield "one vector less", "vectors: cut short", pieces[others[0]]
    yield "one vector more", "vectors: more than those of all others", right + first
    yield "vectors that have changed places", SEAL, pieces[others[1]] + pieces[others[0]]
    changed = "seal: does not open as a message that the party has sealed for all"
    yield "a changed salt", changed, with_first(flip(first, 0))
    yield "a changed vector", changed, with_first(flip(first, 40))
    yield "a changed key", SEAL, with_first(flip(first, vector))
    as_sum = sender.seal(receiver, SUM, sender.vector_key)
    yield "a key that is sealed as a sum", SEAL, with_first(first[:vector] + as_sum)
    for_other = sender.seal(others[1], VECTOR_KEY, sender.vector_key)
    yield "a key that is sealed for another party", SEAL, with_first(first[:vector] + for_other)
    another = sender.seal(receiver, VECTOR_KEY, pick("another key"))
    yield "another key", changed, with_first(first[:vector] + another)
    label = derive.seal_for_storage(
        sender.vector_key, sender.salt, b"blindsum", play.round.write(play.plain[0][others[0]])
    )
    yield "a vector that is bound to something else", changed, with_first(label + first[vector:])
    mine = play.plain[0][others[0]]
    for why, fault, plain in (*numbers(play, mine), *sets(play, mine)):
        yield why, fault, rewritten(plain)


def comparisons(play: Play) -> Iterator[Change]:
    """What the key service refuses of a broadcast."""
    right = play.round.write(play.plain[1][0])
    rank_bytes = derive.rank_bytes

    def told(changed: dict[int, bytes]) -> bytes:
        plain = {party.number: party.compared(right) for party in play.parties} | changed
        return b"".join(play.parties[rank].seal(SERVICE, SUM, said) for rank, said in plain.items())

    def all_agree(written: bytes) -> bytes:
        return told({party.number: party.compared(written) for party in play.parties})

    parties = play.parties
    other = "party 1 computed another sum of the same ciphertexts than party 0"
    yield "a party with another hash", other, told({1: parties[1].compared(right, hashed=pick("hash"))})
    whole = told({0: parties[0].compared(right, hashed=pick("hash"))})
    yield "a sum that does not have its hash", "computed another sum", whole

    def name(one: int, another: int, *by: int) -> bytes:
        pair = rank_bytes(one) + rank_bytes(another)
        return told({rank: parties[rank].compared(right, pair=pair) for rank in by})

    same = "party 0 and party 2 sent the same ciphertexts"
    yield "two parties that sent the same", f"{same}: one of them", name(0, 2, 0, 1, 2)
    alone = f"party 1 reported that {same}, and not all others did"
    yield "one party that says that two others sent the same", alone, name(0, 2, 1)
    most = f"party 0, party 1 reported that {same}, and not all others did"
    yield "a party that denies that it sent the same", most, name(0, 2, 0, 1)
    for one, another in ((2, 0), (1, 1), (0, 3), (0, SERVICE)):
        none = f"party {one} and party {another} are no two parties, the lower one first"
        yield f"{one} and {another} in the place of two parties", f"comparison: {none}", name(one, another, 1)
    sent = b"".join(play.sent[1].values())
    yield "cut short", "sealed sums: cut short", sent[:-1]
    yield "too long", "sealed sums: more than those of all", sent + b"\0"
    yield "a changed byte", SEAL, flip(sent, 0)
    as_hop = parties[2].seal(SERVICE, "hop 1", parties[2].compared(right))
    yield "sealed as a hop", SEAL, sent[: -len(as_hop)] + as_hop
    total = play.plain[1][0]
    for why, fault, written in numbers(play, total):
        yield why, fault, all_agree(written)
    for why, fault, written in sets(play, total):
        of = "the key service refuses: the sum is declared to be of"
        yield why, of if why.startswith("said to be") else fault, all_agree(written)
    for why, fault, written in miscounted(play, total, [play.plain[0][rank] for rank in range(3)]):
        yield why, fault, all_agree(written)


# --- Everything ---


def results(play: Play) -> Iterator[Change]:
    """What a party refuses of the result."""
    width, n = play.job.width(), play.round.parties
    total = [sum(words) % 2**width for words in zip(*(p.words for p in play.parties), strict=True)]
    right = wire.result(n, set(range(n)), width, total)
    yield "cut short", "sum: ", right[:-1]
    yield "too long", "sum: ", right + b"\0"
    yield "padding bits", "sum: ", flip(right, -1, 0x80)
    yield "somebody outside the roster", "survivors: not a bitmap of this roster", flip(right, 0, 0x80)
    lost = wire.result(n, {0, 1}, width, total)
    yield "a party less", "too few parties are left", lost


def keys_of_service(play: Play) -> Iterator[Change]:
    """Public keys that the coordinator does not pass on."""
    opened = play.opened
    other = replace(opened, public=paillier.key(3072).public()).opening()
    yield "a key of another length", "opening: a key of 3072 bits, but the job has 2048", other
    even = opened.public[:255] + b"\0" + opened.public[256:]
    rule = "opening: public key: N = 1 mod 4 must hold"
    yield "an even modulus", rule, replace(opened, public=even).opening()
    yield "no public key", "opening: public key: 0 bytes", replace(opened, public=b"").opening()


def words_of_service(play: Play) -> Iterator[Change]:
    """What the coordinator refuses of the key service's sum."""
    width = play.job.width()
    right = pack(width, [0] * play.job.lanes())
    yield from bodies(right, "sum: ", "sum: ")
    yield "padding bits", "sum: ", flip(right, -1, 0x80)


class Refused:
    """What is refused in one round."""

    def __init__(self, number: int, play: Play) -> None:
        self.number, self.play, self.last = number, play, 2 + play.round.steps()
        self.found: list[Entry] = []

    def put(self, stage: int, to: dict[str, Any], changes: Iterable[Change], *, whole: bool = False) -> None:
        """Messages of a stage, of which the changes are whole or bodies."""
        for why, fault, body in changes:
            message = body if whole else wire.frame(self.play.context, stage, body)
            where = {"round": self.number, "stage": stage} | to
            self.found.append(where | {"why": why, "fault": fault, "message": message.hex()})

    def right(self, stage: int, key: str, rank: int | None = None) -> bytes:
        """A right message."""
        entry = self.play.stages[stage][key]
        return bytes.fromhex(entry if rank is None else entry[str(rank)])

    def frames(self) -> None:
        """Whole messages that are none of the round."""
        self.put(0, by(1), frames(self.right(0, "up", 1)), whole=True)
        self.put(1, OF_SERVICE, frames(self.right(1, "said")), whole=True)
        self.put(0, SERVER, frames(self.right(0, "asked")), whole=True)
        self.put(1, to(1), frames(self.right(1, "down", 1)), whole=True)

    def beginning(self) -> None:
        """Keys, and what all are told."""
        play, opened = self.play, self.play.opened
        wrong = ((why, fault, wire.ramp_advertise(*advert)) for why, fault, advert in adverts(play, 1))
        self.put(0, by(1), wrong)
        same = wire.ramp_advertise(*play.parties[1].advert(play.parties[0].key))
        self.put(0, by(1), [("the key of party 0", "unusable key of party 1", same)])
        self.put(0, by(1), bodies(self.right(0, "up", 1)[HEADER:], "keys:", "keys:"))
        self.put(1, OF_SERVICE, bodies(opened.opening(), "opening:", "opening:"))
        low = replace(opened, seal_key=bytes(32)).opening()
        self.put(1, OF_SERVICE, [("a sealing key of low order", "opening:", low)])
        self.put(1, OF_SERVICE, keys_of_service(play))
        for why, fault, listed in told(play):
            # A message that is longer than any honest one is not read.
            field = "keys: " if len(listed) > play.round.parties else fault
            self.put(0, SERVER, [(why, field, replace(opened, adverts=listed).keys())])
        self.put(0, SERVER, bodies(opened.keys(), "keys:", "keys:"))
        self.put(1, to(1), openings(play))

    def ring(self) -> None:
        """A ring of three, with all that is the same in the other ways."""
        play = self.play
        self.frames()
        self.beginning()
        self.put(2, by(0), bodies(play.sent[0][0], "sealed sum:", "sealed sum:"))
        self.put(2, to(1), hops(play, 0, 0))
        own = [party.own[0] for party in play.parties]
        self.put(self.last - 1, SERVER, last_hops(play, 2, own))
        self.put(self.last, OF_SERVICE, words_of_service(play))
        self.put(self.last, to(1), results(play))
        self.put(1, to(1), without_proof(play))

    def elsewhere(self) -> None:
        """A key service that has to prove what it says."""
        self.put(1, to(1), proofs(self.play))

    def broadcast(self) -> None:
        """A broadcast among three."""
        for stage in (2, 3):
            body = self.right(stage, "up", 1)[HEADER:]
            self.put(stage, by(1), bodies(body, "sealed sum:", "sealed sum:"))
        self.put(2, to(0), broadcasts(self.play, 0))
        self.put(3, SERVER, comparisons(self.play))

    def allreduce(self) -> None:
        """An all-reduce of three."""
        play = self.play
        earlier = self.right(2, "down", 2)[HEADER:]
        self.put(3, to(2), [("the hop of the step before", SEAL, earlier)])
        self.put(3, to(2), (change for change in hops(play, 1, 1) if "in the" not in change[0]))
        sent, part, other = play.sent[2], play.plain[2][0], play.parties[1]
        swapped = b"".join(sent[rank] for rank in (1, 0, 2))
        self.put(4, SERVER, [("sums that have changed places", SEAL, swapped)])
        of = "the key service refuses: the sum is declared to be of 2 parties"
        fewer = play.parties[0].seal(SERVICE, SUM, play.round.write(replace(part, of=part.of - {2})))
        self.put(4, SERVER, [("a part of fewer", of, fewer + sent[1] + sent[2])])
        missing = "the sum is not of one vector of each party"
        alone = replace(play.plain[2][1], roll=other.own[2].roll)
        lone = other.seal(SERVICE, SUM, play.round.write(alone))
        self.put(4, SERVER, [("a part with one party in its roll call", missing, sent[0] + lone + sent[2])])


COORDINATOR, SERVER = {"to": "coordinator"}, {"to": "service"}
OF_SERVICE = COORDINATOR | {"from": "service"}


def by(rank: int) -> dict[str, Any]:
    """To the coordinator, from a party."""
    return COORDINATOR | {"from": "party", "party": rank}


def to(rank: int) -> dict[str, Any]:
    """To a party."""
    return {"to": "party", "party": rank}


def refused(number: int, play: Play) -> list[Entry]:
    """What is refused in a round of three parties."""
    found = Refused(number, play)
    if play.job.decryptor:
        found.elsewhere()
    elif play.round.parties == 3:
        getattr(found, play.round.way)()
    return found.found
