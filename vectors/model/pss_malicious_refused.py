"""Messages of `pss-malicious` that nobody may accept, made from those of whole rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import derive, wire
from .play import pick
from .pss_malicious_party import (
    ACCUSED,
    HASH,
    SIGN_CHALLENGE,
    SIGN_KEYS,
    SIGN_RESPONSE,
    SIGN_ROOT,
    TAG,
    Party,
    Response,
    both_roots,
)
from .pss_malicious_proof import FIELD, L2, P
from .refused import HEADER, RANK, SIGNATURE, Change, flip, frames, lists
from .secagg_party import SIGN_KEYS as SIGN_OTHER_KEYS
from .secagg_party import SIGN_SURVIVORS
from .wire import LENGTH

if TYPE_CHECKING:
    from .pss_malicious import Play

BEYOND = P.to_bytes(FIELD.size, "little")
BITMAP, BARE = 1, 64
"""Bytes of a set of at most 8 parties, and of a signature without its length."""
L2_ROUND, L2_LATE = 7, 10
"""Numbers of rounds with projections."""
ENTRY = RANK + LENGTH + 32 + LENGTH + BARE
"""Bytes of a party's entry in the list of keys, for X25519."""


@dataclass(frozen=True)
class At:
    """One party of a round, in one stage."""

    number: int
    play: Play
    name: str
    me: int

    @property
    def stage(self) -> int:
        """Number of the stage."""
        return [stage["name"] for stage in self.play.stages].index(self.name)

    @property
    def is_projected(self) -> bool:
        """Whether norms are proved by projections."""
        return self.play.job.bound == L2

    @property
    def party(self) -> Party:
        """The party."""
        return self.play.parties[self.me]

    def message(self, way: str) -> bytes:
        """What it says or hears."""
        return bytes.fromhex(self.play.stages[self.stage][way][str(self.me)])

    def framed(self, body: bytes) -> bytes:
        """Another message of this stage."""
        return wire.frame(self.play.context, self.stage, body)

    def entries(self, way: str, changes: Iterator[Change], *, after: bool = False) -> list[dict[str, Any]]:
        """What makes the right message a wrong one."""
        return [self.entry(way, why, wrong) | {"after": after} for why, wrong in changes]

    def entry(self, way: str, why: str, wrong: bytes) -> dict[str, Any]:
        """A wrong message as the right one, of which some bytes are others."""
        right = self.message(way)
        assert right != wrong, why
        start = next((i for i, (a, b) in enumerate(zip(right, wrong)) if a != b), min(len(right), len(wrong)))
        most = min(len(right), len(wrong)) - start
        end = next((i for i in range(most) if right[-1 - i] != wrong[-1 - i]), most)
        return {
            "round": self.number,
            "stage": self.stage,
            "to": {"up": "coordinator", "down": "party"}[way],
            "party": self.me,
            "why": why,
            "at": start,
            "cut": len(right) - end - start,
            "put": wrong[start : len(wrong) - end].hex(),
        }


def advert(party: Party, key: bytes, label: str = SIGN_KEYS) -> bytes:
    """A key that a party has signed."""
    return wire.ramp_advertise(key, party.sign(label, derive.rank_bytes(party.me) + key))


def keys_up(at: At) -> Iterator[Change]:
    """Keys that the coordinator refuses."""
    message, party = at.message("up"), at.party
    yield from frames(message)
    yield "a key that its owner did not sign", flip(message, HEADER + LENGTH)
    yield "a signature that is not right", flip(message, -1)
    yield "no signature", at.framed(wire.ramp_advertise(party.key, b""))
    yield "signed as a key of another protocol", at.framed(advert(party, party.key, SIGN_OTHER_KEYS))
    yield "a key of low order", at.framed(advert(party, bytes(32)))
    yield "the key of another party", at.framed(advert(party, at.play.parties[0].key))


def keys_down(at: At) -> Iterator[Change]:
    """Keys that a party refuses."""
    message, parties = at.message("down"), at.play.parties
    before = LENGTH + HASH
    yield from frames(message)
    yield from lists(message, ENTRY, before)
    yield "a key that its owner did not sign", flip(message, HEADER + before + LENGTH + RANK + LENGTH)
    yield "a signature that is not right", flip(message, -1)
    rest = message[HEADER + before :]
    committed = message[HEADER + LENGTH :][:HASH]
    for wrong in (committed[:-1], committed + b"\0", b""):
        yield f"a commitment of {len(wrong)} bytes", message[:HEADER] + wire.opaque(wrong) + rest

    def listed(changed: dict[int, bytes | None]) -> bytes:
        adverts = {party.me: advert(party, party.key) for party in parties} | changed
        kept = {rank: entry for rank, entry in adverts.items() if entry is not None}
        return message[: HEADER + before] + wire.neighbour_keys(kept)

    other = derive.public_key("x25519", pick("another key"))
    yield "a party is missing", listed({parties[-1].me: None})
    yield "another key of its own", listed({at.me: advert(at.party, other)})
    yield "two parties with one key", listed({3: advert(parties[3], parties[2].key)})
    yield "a key of low order", listed({3: advert(parties[3], bytes(32))})


def itself(at: At) -> Iterator[Change]:
    """As many keys as are needed, without its own."""
    message, before = at.message("down"), HEADER + LENGTH + HASH
    others = {p.me: advert(p, p.key) for p in at.play.parties if p.me != at.me}
    yield "its own key is missing", message[:before] + wire.neighbour_keys(others)


def pieces(message: bytes, start: int, at: At) -> Iterator[Change]:
    """Changes of pieces, which begin here."""
    statement = at.play.round.statement
    sealed = HASH + statement.column + TAG
    height = at.play.round.height
    words = sealed + HASH + height * HASH
    size = words + (HASH + height * HASH) * at.is_projected
    head, rest = message[:start], message[start:]
    first, second, others = rest[:size], rest[size : 2 * size], rest[2 * size :]
    yield "another sealed column", flip(message, start)
    yield "another tag", flip(message, start + sealed - 1)
    yield "committed to another column", flip(message, start + sealed)
    for level in range(height):
        yield f"another sibling on level {level}", flip(message, start + sealed + (1 + level) * HASH)
    if at.is_projected:
        yield "committed to other words", flip(message, start + words)
        for level in range(height):
            at_level = start + words + (1 + level) * HASH
            yield f"another sibling of words on level {level}", flip(message, at_level)
        swapped = first[:sealed] + first[words:] + first[sealed:words]
        yield "what is said of words before what is said of the column", head + swapped + second + others
    yield "the last byte", flip(message, -1)
    yield "pieces that have changed places", head + second + first + others
    yield "a piece in the place of another", head + first + first + others
    yield "a piece is missing", head + second + others
    yield "a piece too many", message + first


def share_up(at: At) -> Iterator[Change]:
    """Commitments and pieces that the coordinator refuses."""
    message, party = at.message("up"), at.party
    rest = message[HEADER + HASH + BARE :]
    rank = derive.rank_bytes(at.me)
    yield from frames(message)
    yield "a root that it did not sign", flip(message, HEADER)
    yield "a signature that is not right", flip(message, HEADER + HASH)
    for why, label, signed in (
        ("signed as a challenge", SIGN_CHALLENGE, party.root),
        ("signed as a key", SIGN_KEYS, rank + party.root),
        ("signed for another party", SIGN_ROOT, derive.rank_bytes(0) + party.root),
    ):
        yield why, at.framed(party.root + party.sign(label, signed) + rest)
    other = at.play.parties[0].root
    yield "the root of another tree", at.framed(other + party.sign(SIGN_ROOT, rank + other) + rest)
    if at.is_projected:
        words, leaves = party.words_tree[-1][0], party.tree[-1][0]
        for why, root in (
            ("the root of the words' tree alone", words),
            ("the root of the tree of leaves alone", leaves),
            ("both roots in the other order", both_roots(leaves, words)),
        ):
            yield why, at.framed(party.committed_to(root) + rest)
    yield from pieces(message, HEADER + HASH + BARE, at)


def share_down(at: At) -> Iterator[Change]:
    """What a party refuses of what others share; all have shared."""
    message, party, parties = at.message("down"), at.party, at.play.parties
    commitments = HEADER + BITMAP + HASH
    size, n = HASH + BARE, len(parties)
    yield from frames(message)
    yield "somebody outside the roster has shared", flip(message, HEADER, 0x80)
    yield "the party itself has not shared", flip(message, HEADER, 1 << at.me)
    yield "a commitment of somebody who has not shared", flip(message, HEADER, 1 << 3)
    fewer = parties[:-1]
    body = at.play.round.bitmap({p.me for p in fewer}) + at.play.nonce
    body += b"".join(p.commitment for p in fewer)
    yield "too few have shared", at.framed(body + b"".join(p.piece(at.me) for p in fewer if p is not party))
    yield "another nonce", flip(message, HEADER + BITMAP)
    yield "a root that its owner did not sign", flip(message, commitments)
    yield "a signature that is not right", flip(message, commitments + HASH)
    yield "a commitment of its own that it did not send", flip(message, commitments + at.me * size)
    other = pick("another root")
    own = other + party.sign(SIGN_ROOT, derive.rank_bytes(at.me) + other)
    start = commitments + at.me * size
    yield "another commitment that it has signed", message[:start] + own + message[start + size :]
    foreign = other + parties[3].sign(SIGN_ROOT, derive.rank_bytes(3) + other)
    start = commitments + 3 * size
    yield "a root to which no path leads", message[:start] + foreign + message[start + size :]
    first, second = message[commitments:][:size], message[commitments + size :][:size]
    swapped = message[:commitments] + second + first + message[commitments + 2 * size :]
    yield "commitments that have changed places", swapped
    yield from pieces(message, commitments + n * size, at)


def confirm_up(at: At) -> Iterator[Change]:
    """Signatures that the coordinator refuses."""
    message, party = at.message("up"), at.party
    right, other = signed_there(at)
    yield from frames(message)
    yield "a signature that is not right", flip(message, -1)
    yield "no signature", at.framed(wire.signed(b""))
    yield "signed for another stage", at.framed(wire.signed(party.sign(other[0], right[1])))
    yield "something else is signed", at.framed(wire.signed(party.sign(right[0], flip(right[1], 0))))


def signed_there(at: At) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """Label and message of this stage's signature, then those of the other one."""
    both = [(SIGN_CHALLENGE, at.play.challenge), (SIGN_SURVIVORS, at.play.round.bitmap(at.play.survivors))]
    right, other = both if at.name == "confirm-challenge" else reversed(both)
    return right, other


def confirm_down(at: At) -> Iterator[Change]:
    """Signatures that a party refuses."""
    message = at.message("down")
    (label, right), _ = signed_there(at)
    yield from frames(message)
    yield from lists(message, SIGNATURE)
    yield "a signature that is not right", flip(message, -1)
    entries = [message[HEADER + LENGTH :][i : i + SIGNATURE] for i in range(0, len(message), SIGNATURE)]
    kept = [entry for entry in entries if len(entry) == SIGNATURE]
    yield "too few have signed", at.framed(wire.vector(kept[:-1]))
    signer = at.play.parties[int.from_bytes(kept[0][:RANK])]
    signature = wire.opaque(signer.sign(label, flip(right, 0)))
    yield "one has signed something else", at.framed(wire.vector([kept[0][:RANK] + signature, *kept[1:]]))


def response(play: Play, rank: int, unusable: set[int], nothing: set[int], **bad: Any) -> bytes:
    """A response with these parties as unusable and zeros about some, signed; ``bad`` makes it worse."""
    party = play.parties[rank]
    zeros = [0] * len(play.round.statement.masks)
    right = play.responses[rank].answers
    answers = {prover: zeros if prover in nothing else answer for prover, answer in right.items()}
    said = Response(unusable, answers).said(play.round)
    if at := bad.get("beyond"):
        said = said[:at] + BEYOND + said[at + FIELD.size :]
    said = said[: len(said) - bad.get("less", 0)] + bytes(bad.get("more", 0))
    message = derive.rank_bytes(bad.get("signer", rank)) + bad.get("challenge", play.challenge) + said
    return said + party.sign(bad.get("label", SIGN_RESPONSE), message)


def bad_responses(play: Play, rank: int, about: int) -> Iterator[Change]:
    """Responses that nobody signs who is honest."""
    answer = play.round.statement.answer
    mine, theirs = BITMAP + rank * answer, BITMAP + about * answer
    cases: list[tuple[str, set[int], set[int], dict[str, Any]]] = [
        ("cannot use its own column", {rank}, {rank}, {}),
        ("an answer about a column that it cannot use", {about}, set(), {}),
        ("somebody outside the roster is unusable", {7}, set(), {}),
        ("an answer beyond the field", set(), set(), {"beyond": theirs}),
        ("the last answer beyond the field", set(), set(), {"beyond": mine + answer - FIELD.size}),
        ("an answer is missing", set(), set(), {"less": answer}),
        ("an answer too many", set(), set(), {"more": answer}),
        ("signed as another party", set(), set(), {"signer": about}),
        ("signed about another challenge", set(), set(), {"challenge": pick("another challenge")}),
        ("signed as a root", set(), set(), {"label": SIGN_ROOT}),
    ]
    for why, unusable, nothing, bad in cases:
        yield why, response(play, rank, unusable, nothing, **bad)


def respond_up(at: At) -> Iterator[Change]:
    """Responses that the coordinator refuses."""
    message = at.message("up")
    yield from frames(message)
    yield "an answer that it did not sign", flip(message, HEADER + BITMAP)
    yield "a signature that is not right", flip(message, -1)
    for why, body in bad_responses(at.play, at.me, 0):
        yield why, at.framed(body)


def not_shared(at: At) -> Iterator[Change]:
    """The columns of those who did not share are not to be used."""
    missing = set(range(at.play.round.parties)) - at.play.shared
    yield "unusable is somebody who has not shared", at.framed(response(at.play, at.me, missing, set()))


def accused_down(at: At) -> Iterator[Change]:
    """Accusations that an honest prover refuses; the one who lies is 3."""
    play, message = at.play, at.message("down")
    said = {rank: derive.rank_bytes(rank) + told.body(play.round) for rank, told in play.responses.items()}
    founded = derive.rank_bytes(3)

    def accused(*accusations: bytes) -> bytes:
        return at.framed(ACCUSED + b"".join(accusations))

    yield from frames(message)
    yield "neither accused nor judged", at.framed(b"\2" + said[3])
    yield "nothing", at.framed(b"")
    yield "nobody accuses", accused()
    yield "it accuses itself", accused(said[at.me])
    yield "an answer that is right", accused(said[1])
    yield "answers of which one is right", accused(said[1], said[3])
    yield "an accuser twice", accused(said[3], said[3])
    yield "accusers do not ascend", accused(said[3], said[1])
    yield "the answer of another party", accused(derive.rank_bytes(5) + said[3][RANK:])
    yield "an accuser outside the roster", accused(derive.rank_bytes(7) + said[3][RANK:])
    yield "an answer that was not signed", flip(message, HEADER + 1 + RANK + BITMAP + 3)
    yield "a signature that is not right", flip(message, -1)
    for why, body in bad_responses(play, 3, at.me):
        yield f"an accusation: {why}", accused(founded + body)


def accused_projected(at: At) -> Iterator[Change]:
    """Accusations that an honest prover with projections refuses; the one who lies is 3."""
    play, message = at.play, at.message("down")
    said = {rank: derive.rank_bytes(rank) + told.body(play.round) for rank, told in play.responses.items()}
    yield "an answer that is right", at.framed(ACCUSED + said[1])
    yield "answers of which one is right", at.framed(ACCUSED + said[3] + said[4])
    yield "a signature that is not right", flip(message, -1)


def accused_twice(at: At) -> Iterator[Change]:
    """Another accusation behind the first one."""
    cannot = response(at.play, 3, {at.me}, {at.me})
    yield "a second accusation", at.framed(ACCUSED + derive.rank_bytes(3) + cannot)


def shown_up(at: At) -> Iterator[Change]:
    """Columns that the coordinator refuses."""
    message, party = at.message("up"), at.party
    column = HASH + at.play.round.statement.column
    yield from frames(message)
    yield "another salt", flip(message, HEADER)
    yield "another column", flip(message, HEADER + HASH)
    yield "the end of another column", flip(message, HEADER + column - 1)
    yield "another sealed column", flip(message, HEADER + column)
    yield "another sibling", flip(message, HEADER + column + HASH)
    if at.is_projected:
        paths = HEADER + column + HASH
        middle = paths + at.play.round.height * HASH
        for level in range(2 * at.play.round.height):
            yield f"another sibling, {level} of both paths", flip(message, paths + level * HASH)
        swapped = message[:paths] + message[middle:] + message[paths:middle]
        yield "paths that have changed places", swapped
        yield "no path of words", message[:middle]
        yield "other words", flip(message, HEADER + HASH + FIELD.size * at.play.round.statement.blocks - 6)
    yield "the last sibling is another", flip(message, -1)
    yield "nothing is shown", at.framed(b"")
    yield "the column of another party", at.framed(party.shown(1))
    yield "two columns", at.framed(party.shown(1) + party.shown(3))
    beyond = party.salts[3] + BEYOND + party.packed[3][FIELD.size :]
    yield "a column beyond the field that it did not deal", at.framed(beyond + message[HEADER + column :])


def judged_down(at: At) -> Iterator[Change]:
    """Verdicts that party 1 refuses, which lacks the column of 2; all have shared."""
    play, message = at.play, at.message("down")
    everybody, lacking = play.survivors, play.late[at.me]
    held = play.parties[3]
    extra = {3: held.salts[at.me] + held.packed[at.me]}
    yield from frames(message)
    yield "neither accused nor judged", at.framed(b"\2" + message[HEADER + 1 :])
    yield "a column is missing", at.framed(play.judged(everybody, {}))
    yield "another salt", flip(message, HEADER + 1 + BITMAP + RANK)
    yield "another column", flip(message, -1)
    yield "said to be of another party", flip(message, HEADER + 1 + BITMAP + RANK - 1)
    yield "a column that it has", at.framed(play.judged(everybody, lacking | extra))
    yield "a column in the place of another", at.framed(play.judged(everybody, extra))
    yield "a column twice", message + message[HEADER + 1 + BITMAP :]
    yield "without itself", at.framed(play.judged(everybody - {at.me}, lacking))
    yield "too few", at.framed(play.judged({0, 1, 2, 3, 4}, lacking))
    yield "nobody", at.framed(play.judged(set(), {}))


def judged_others(at: At) -> Iterator[Change]:
    """Verdicts about somebody who is not among those who shared."""
    play = at.play
    outside = set(range(play.round.parties)) - play.shared or {play.round.parties}
    yield "somebody who has not shared", at.framed(play.judged(play.survivors | outside, {}))
    held = play.parties[3]
    late = {3: held.salts[at.me] + held.packed[at.me]}
    yield "a column that it has", at.framed(play.judged(play.survivors, late))
    yield "accused by nobody", at.framed(ACCUSED)


def aggregate_up(at: At) -> Iterator[Change]:
    """Sums of columns that the coordinator refuses."""
    message = at.message("up")
    yield from frames(message)
    yield "a sum beyond the field", message[: -FIELD.size] + BEYOND
    yield "a block is missing", message[: -FIELD.size]
    yield "a block too many", message + bytes(FIELD.size)


def result_down(at: At) -> Iterator[Change]:
    """Results that a party refuses."""
    message = at.message("down")
    yield from frames(message)
    yield "other survivors than were confirmed", flip(message, HEADER, 0x02)
    yield "somebody outside the roster", flip(message, HEADER, 0x80)
    yield "padding bits", flip(message, -1, 0x80)


def refused(played: list[Play]) -> list[dict[str, Any]]:
    """All of them, each with the round and stage in which it comes."""

    def at(number: int, name: str, rank: int) -> At:
        return At(number, played[number], name, rank)

    norm, calm, verifier, late = 0, 1, 3, 4
    first = "advertise-keys", "share-vector", "confirm-challenge"
    keys, share, challenge = (at(norm, name, 1) for name in first)
    survivors, accused = at(late, "confirm-survivors", 1), at(verifier, "respond", 0)
    return [
        *keys.entries("up", keys_up(keys)),
        *keys.entries("down", keys_down(keys)),
        *(at(late, "advertise-keys", 0)).entries("down", itself(at(late, "advertise-keys", 0))),
        *share.entries("up", share_up(share)),
        *share.entries("down", share_down(share)),
        *challenge.entries("up", confirm_up(challenge)),
        *challenge.entries("down", confirm_down(challenge)),
        *at(norm, "respond", 1).entries("up", respond_up(at(norm, "respond", 1))),
        *at(calm, "respond", 1).entries("up", not_shared(at(calm, "respond", 1))),
        *accused.entries("down", accused_down(accused)),
        *accused.entries("down", accused_twice(accused), after=True),
        *at(verifier, "dispute", 0).entries("up", shown_up(at(verifier, "dispute", 0))),
        *at(late, "dispute", 1).entries("down", judged_down(at(late, "dispute", 1))),
        *at(norm, "dispute", 1).entries("down", judged_others(at(norm, "dispute", 1))),
        *at(calm, "dispute", 1).entries("down", judged_others(at(calm, "dispute", 1))),
        *survivors.entries("up", confirm_up(survivors)),
        *survivors.entries("down", confirm_down(survivors)),
        *at(norm, "aggregate", 1).entries("up", aggregate_up(at(norm, "aggregate", 1))),
        *at(norm, "aggregate", 1).entries("down", result_down(at(norm, "aggregate", 1))),
        *projected(at(L2_LATE, "share-vector", 1), at(L2_LATE, "respond", 3), at(L2_LATE, "dispute", 1)),
        *at(L2_ROUND, "respond", 2).entries("down", accused_projected(at(L2_ROUND, "respond", 2))),
        *at(L2_ROUND, "dispute", 2).entries("up", shown_up(at(L2_ROUND, "dispute", 2))),
    ]


def projected(share: At, respond: At, dispute: At) -> list[dict[str, Any]]:
    """Messages of a round with projections, in which party 1 gets a column late."""
    return [
        *share.entries("up", share_up(share)),
        *share.entries("down", share_down(share)),
        *respond.entries("up", respond_up(respond)),
        *dispute.entries("down", judged_down(dispute)),
    ]
