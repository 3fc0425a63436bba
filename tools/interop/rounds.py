"""What a party checks of RosterFixed and RoundStart: docs/wire.md, "A round"."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import derive
import numbers_check
from certificates import BadCertificate
from derive import PublicKey
from secagg import Fault, Member, Round

if TYPE_CHECKING:
    from party import Active, Party


@dataclass(frozen=True)
class Certified:
    """A certificate that was checked."""

    name: str
    key: PublicKey
    der: bytes


@dataclass(frozen=True)
class Fixed:
    """What RosterFixed has fixed; a second one must be equal."""

    model: bytes
    numbers: tuple[int, int, int]
    fingerprints: tuple[bytes, ...]
    commitments: tuple[bytes, ...]


@dataclass
class Draws:
    """Rounds for which this party has opened its nonce: those without its vector (u) and with it (v)."""

    unused: int = 0
    sent: int = 0
    latest: int = 0  # the latest one, until its vector is sent

    @property
    def over(self) -> bool:
        return self.unused >= 1000 + self.sent

    def drawn(self, number: int) -> None:
        self.unused, self.latest = self.unused + 1, number

    def sends(self, number: int) -> bool:
        """The vector goes out; whether it is the first time."""
        if self.latest != number:
            return False
        self.unused, self.sent, self.latest = self.unused - 1, self.sent + 1, 0
        return True


def _raw(key: PublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _numbers(frame: Any) -> tuple[int, int, int]:
    return frame.numbers.neighbours, frame.numbers.threshold, frame.numbers.packing


def _members(party: Party, frame: Any) -> list[Certified]:
    """The members by their certificates, in order of rank, after all checks of them."""
    assert party.job
    wanted = [member.fingerprint for member in frame.roster]
    if not party.job.min_parties <= len(wanted) <= party.job.parties:
        raise Fault(f"{len(wanted)} members, not from {party.job.min_parties} to {party.job.parties}")
    for der in frame.certificates:
        mark = derive.fingerprint(der)
        if mark not in wanted:
            raise Fault("a certificate of somebody who is no member")
        if mark in party.certificates:
            raise Fault("a certificate that came before")
        try:
            name, key = party.authority.party(der)
        except BadCertificate as error:
            raise Fault(f"the certificate of a member: {error}") from error
        party.certificates[mark] = Certified(name, key, der)
    members = []
    for mark in wanted:
        if mark not in party.certificates:
            raise Fault("a member whose certificate did not come")
        known = party.certificates[mark]
        try:
            party.authority.party(known.der)  # again: its time may have ended since it came
        except BadCertificate as error:
            raise Fault(f"the certificate of {known.name}: {error}") from error
        members.append(known)
    names = [member.name for member in members]
    if names != sorted(set(names), key=lambda name: name.encode()):
        raise Fault("the names of the members do not ascend")
    if len({_raw(member.key) for member in members}) != len(members):
        raise Fault("two members have one key")
    if party.name not in names:
        raise Fault("this party is no member")
    if _raw(members[names.index(party.name)].key) != _raw(party.public):
        raise Fault("this party is listed with another key")
    from party import Policy

    if len(members) < party.settings.min_cohort:
        raise Policy(f"{len(members)} members, fewer than {party.settings.min_cohort}")
    return members


def _check(party: Party, active: Active, frame: Any) -> list[Certified]:
    """What RosterFixed and RoundStart have in common."""
    assert party.job
    members = _members(party, frame)
    if not active.model.is_named(frame.model):
        raise Fault("the round starts from another model")
    wrong = numbers_check.broken(party.job, len(members), _numbers(frame))
    if wrong:
        raise Fault(f"numbers {_numbers(frame)}: {wrong}")
    return members


def _all(values: Sequence[bytes], what: str) -> tuple[bytes, ...]:
    if any(len(value) != 32 for value in values):
        raise Fault(f"a {what} that has not 32 bytes")
    return tuple(values)


def fixed(party: Party, active: Active, frame: Any) -> Fixed:
    assert party.job
    members = _check(party, active, frame)
    commitments = _all([member.commitment for member in frame.roster], "commitment")
    own = derive.commitment(party.job.hash, active.number, party.name, active.nonce)
    if commitments[[member.name for member in members].index(party.name)] != own:
        raise Fault("this party's commitment is another one")
    fingerprints = tuple(member.fingerprint for member in frame.roster)
    return Fixed(frame.model.hash, _numbers(frame), fingerprints, commitments)


def start(party: Party, active: Active, frame: Any) -> Round:
    """The round that RoundStart begins or repeats."""
    assert party.job
    if frame.kind != 0:
        raise Fault("a key set-up in a job without a key")
    members = _check(party, active, frame)
    nonces = _all([member.nonce for member in frame.roster], "nonce")
    rank = [member.name for member in members].index(party.name)
    if nonces[rank] != active.nonce:
        raise Fault("this party's nonce is another one")
    if party.job.commits:
        _check_openings(party, active, frame, members, nonces)
    roster = derive.roster_bytes(
        [(member.name, member.der, nonce) for member, nonce in zip(members, nonces, strict=True)]
    )
    numbers = _numbers(frame)
    context = derive.round_context(party.job.hash, active.number, roster, active.model.hash, numbers)
    return Round(
        job=party.job,
        width=party.encoding.width,
        words=party.encoding.words,
        members=[
            Member(member.name, member.der, nonce, member.key)
            for member, nonce in zip(members, nonces, strict=True)
        ],
        rank=rank,
        numbers=numbers,
        context=context,
        identity=party.identity,
        vector=list,
        random=os.urandom,
    )


def _check_openings(
    party: Party, active: Active, frame: Any, members: Sequence[Certified], nonces: Sequence[bytes]
) -> None:
    assert party.job
    if active.fixed is None:
        raise Fault("no roster was fixed before the round")
    fingerprints = tuple(member.fingerprint for member in frame.roster)
    told = (frame.model.hash, _numbers(frame), fingerprints)
    if told != (active.fixed.model, active.fixed.numbers, active.fixed.fingerprints):
        raise Fault("the round begins with another model, roster or numbers than were fixed")
    for member, nonce, commitment in zip(members, nonces, active.fixed.commitments, strict=True):
        if derive.commitment(party.job.hash, active.number, member.name, nonce) != commitment:
            raise Fault(f"the nonce of {member.name} does not fit its commitment")
