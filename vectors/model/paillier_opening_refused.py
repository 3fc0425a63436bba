"""What all are told when a round under Paillier's scheme is opened, wrong in every way that there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from . import derive, paillier
from .identity import CLIENT_AUTH, Identity
from .paillier_party import SIGN_KEYS, key_of_service
from .play import pick
from .refused import flip

if TYPE_CHECKING:
    from .paillier_rounds import Play

Change = tuple[str, str, bytes]
"""What is wrong, what the fault says, the body."""


def adverts(play: Play, rank: int) -> Iterator[tuple[str, str, tuple[bytes, bytes]]]:
    """Wrong adverts of a party."""
    party = play.parties[rank]
    key, signature = party.advert()
    other = derive.public_key(play.job.suite, pick("another key"))
    message = play.context + derive.rank_bytes(rank) + key
    of_other = play.context + derive.rank_bytes(rank + 1) + key
    signer = f"bad signature of party {rank}"
    yield "a key that its owner did not sign", signer, (other, signature)
    yield "a changed signature", signer, (key, flip(signature, 3))
    yield "no signature", signer, (key, b"")
    label = party.identity.sign("blindsum advertise keys", message)
    yield "a signature with the label of another protocol", signer, (key, label)
    yield "a signature of another rank", signer, (key, party.identity.sign(SIGN_KEYS, of_other))
    again = party.identity.sign(SIGN_KEYS, pick("another round") + message[32:])
    yield "a signature of another round", signer, (key, again)
    unusable = f"unusable key of party {rank}"
    yield "a key of low order", unusable, party.advert(bytes(32))
    yield "a key that is too short", unusable, party.advert(key[1:])


def told(play: Play) -> Iterator[tuple[str, str, list[tuple[bytes, bytes]]]]:
    """Wrong lists of the adverts of all."""
    right = play.opened.adverts
    few = "too few parties are left"
    yield "one advert less", few, right[:-1]
    yield "one advert more", few, [*right, right[0]]
    yield "no adverts", few, []
    yield "two adverts that have changed places", "bad signature of party 0", [right[1], right[0], *right[2:]]
    same = [right[0], right[1], play.parties[2].advert(right[0][0])]
    yield "a key twice", "unusable key of party 2", same
    for why, fault, advert in adverts(play, 2):
        yield f"of party 2: {why}", fault, [*right[:2], advert]


def bodies(body: bytes, fault: str, most: str) -> Iterator[Change]:
    """Lengths that are wrong."""
    yield "cut short", fault, body[:-1]
    yield "trailing byte", most, body + b"\0"
    yield "empty", fault, b""


def openings(play: Play) -> Iterator[Change]:
    """Wrong words of the key service to parties, with the keys of all."""
    opened, job_key = play.opened, key_of_service()
    field = "opening:"
    for why, fault, listed in told(play):
        yield why, fault, replace(opened, adverts=listed).body()
    mine = [opened.adverts[0], play.parties[1].advert(derive.public_key(play.job.suite, pick("another key")))]
    swapped = replace(opened, adverts=[*mine, *opened.adverts[2:]])
    yield "another key of the party itself", "it is not the one that this party made", swapped.body()
    yield "a sealing key of low order", field, replace(opened, seal_key=bytes(32)).body()
    yield "a sealing key that is too short", field, replace(opened, seal_key=opened.seal_key[1:]).body()
    rules = {
        "an even modulus": "N = 1 mod 4 must hold",
        "a modulus that is 3 mod 4": "N = 1 mod 4 must hold",
        "a modulus that is too short": "N must have its full length",
        "a modulus with a small factor": "N must have no small factor",
        "a square": "N must be no square",
        "an h of Jacobi symbol -1": "the Jacobi symbol of h must be 1",
        "an h with a factor of the modulus": "the Jacobi symbol of h must be 1",
    }
    for entry in paillier.refused_keys(job_key):
        rule = rules.get(entry["why"], "1 < h < N - 1 must hold")
        public = bytes.fromhex(entry["bytes"])
        yield entry["why"], f"opening: public key: {rule}", replace(opened, public=public).body()
    cut = replace(opened, public=opened.public[1:])
    yield "a public key that is too short", "opening: public key: 511 bytes", cut.body()
    other = replace(opened, public=paillier.key(3072).public())
    yield "a key of another length", "opening: a key of 3072 bits, but the job has 2048", other.body()
    yield from bodies(opened.body(), "opened round:", "opened round:")


def without_proof(play: Play) -> Iterator[Change]:
    """A proof in a round in which none is due."""
    rule = "opening: a proof, but the key service is in the coordinator's process"
    yield "a proof", rule, play.opened.proved_by(play.context, *play.server("keys.example.org")).body()
    signature = replace(play.opened, signature=bytes(64))
    yield "a signature without a certificate", rule, signature.body()
    certificate = replace(play.opened, chain=(b"certificate",))
    yield "a certificate without a signature", rule, certificate.body()


def proofs(play: Play) -> Iterator[Change]:
    """Wrong proofs of a key service elsewhere, as a coordinator would make them to choose the key."""
    right, context = play.opened, play.context
    host = play.job.decryptor
    identity, chain = play.server(host)
    unproved = "the message of decryptor is not authenticated: "
    wrong = f"{unproved}its signature is not right"
    key = key_of_service()
    public = key.number(key.n) + key.number(key.h**2 % key.n)
    yield "another key", wrong, replace(right, public=public).body()
    seal_key = derive.public_key(play.job.suite, pick("another key"))
    yield "another sealing key", wrong, replace(right, seal_key=seal_key).body()
    other = play.parties[0].advert(seal_key)
    yield "another key of another party", wrong, replace(right, adverts=[other, *right.adverts[1:]]).body()
    yield "a changed signature", wrong, replace(right, signature=flip(right.signature, 3)).body()
    yield "no signature", wrong, replace(right, signature=b"").body()
    again = right.proved_by(pick("another round"), identity, chain)
    yield "the proof of another round", wrong, again.body()
    label = identity.sign(SIGN_KEYS, context + replace(right, chain=(), signature=b"").body())
    yield "a signature with the label of keys", wrong, replace(right, signature=label).body()
    yield "no proof", f"{unproved}it shows no certificate", replace(right, chain=(), signature=b"").body()

    def by(identity: Identity, chain: tuple[bytes, ...]) -> bytes:
        return right.proved_by(context, identity, chain).body()

    coordinator = play.server("coordinator.example.org")
    is_other = f'{unproved}its certificate is for ["coordinator.example.org"], not for "{host}"'
    yield "the certificate of another host", is_other, by(*coordinator)
    party = play.identities[0]
    yield "a party's certificate", unproved, by(party, (play.members[0].certificate,))
    yield "a party's certificate in this name", unproved, by(*play.server(host, (CLIENT_AUTH,)))
    stranger = replace(play.authority, identity=Identity("ed25519", pick("another CA")))
    yield "the certificate of another CA", unproved, by(*play.server(host, authority=stranger))
    late = replace(play.authority, not_after=play.authority.not_before + 1)
    yield "a certificate that is over", unproved, by(*play.server(host, authority=late))
    yield "a certificate that is none", unproved, by(identity, (b"certificate",))
    five = f"{unproved}it shows 5 certificates, but a proof has at most 4"
    yield "a certificate too many", five, by(identity, chain * 5)
    rule = "opened round: "
    yield "too long", rule, by(identity, (*chain, bytes(80_000)))
