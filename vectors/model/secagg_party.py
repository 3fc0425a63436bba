"""A party of secagg and secagg+ (Bonawitz17 Fig. 4, Bell20), honest and on paper."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import derive, p256, shamir, wire
from .identity import Identity
from .job import Job, Member, round_context
from .numbers import Numbers
from .parameters import Parameters
from .tape import Tape

SIGN_KEYS = "blindsum advertise keys"
SIGN_SURVIVORS = "blindsum survivors"
PURPOSE = "shares"
SHARE_LENGTH = 40


@dataclass(frozen=True)
class Round:
    """What everybody knows before the first message."""

    job: Job
    number: int
    members: list[Member]
    model_hash: bytes
    parameters: Parameters
    neighbours: list[list[int]]
    witnesses: list[int]

    @property
    def context(self) -> bytes:
        """Hash of job, number, roster, model and numbers."""
        numbers = Numbers(self.parameters.neighbours, self.parameters.threshold)
        return round_context(self.job, self.number, self.members, self.model_hash, numbers.to_bytes())

    def n(self) -> int:
        """Parties in the roster."""
        return len(self.members)

    def bitmap(self, parties: set[int]) -> bytes:
        """Set of parties on the wire."""
        return wire.bitmap(self.n(), parties)


@dataclass(frozen=True)
class Keys:
    """Public keys that a party advertises."""

    seal: bytes
    mask: bytes
    signature: bytes

    def body(self) -> bytes:
        """Message of stage 0."""
        return wire.advertise(self.seal, self.mask, self.signature)


def advertised_bytes(context: bytes, party: int, seal: bytes, mask: bytes) -> bytes:
    """What a party signs over its keys."""
    return context + derive.rank_bytes(party) + seal + mask


def draw_secret(suite: str, tape: Tape) -> bytes:
    """32 bytes; for P-256 again until they are a scalar."""
    while True:
        secret = tape.read(32)
        if suite == "x25519" or p256.is_scalar(secret):
            return secret


def split(secret: bytes, threshold: int, holders: list[int], tape: Tape) -> dict[int, bytes]:
    """Shamir shares by holder; a holder's point is its rank plus one.

    Coefficients are drawn row by row: the five of X, one a limb, then those of X^2, and so on.
    """
    rows = [[tape.field_element() for _ in range(shamir.LIMBS)] for _ in range(threshold - 1)]
    shares = shamir.share(secret, rows, [holder + 1 for holder in holders])
    encoded = (bytes.fromhex(shamir.encode(values)) for values in shares)
    return dict(zip(holders, encoded, strict=True))


@dataclass
class Party:
    """One party's side of one round; the methods are its answers, in order."""

    round: Round
    me: int
    identity: Identity
    tape: Tape
    words: list[int]
    held: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)

    def advertise(self) -> Keys:
        """Stage 0: two fresh public keys, signed if the adversary is active."""
        suite = self.round.job.suite
        self.seal_secret = draw_secret(suite, self.tape)
        self.mask_secret = draw_secret(suite, self.tape)
        keys = [derive.public_key(suite, s) for s in (self.seal_secret, self.mask_secret)]
        signature = b""
        if self.round.job.is_active():
            message = advertised_bytes(self.round.context, self.me, *keys)
            signature = self.identity.sign(SIGN_KEYS, message)
        return Keys(keys[0], keys[1], signature)

    def share(self, keys: dict[int, Keys]) -> tuple[bytes, dict[int, bytes]]:
        """Stage 1: commitment to b, and sealed shares of s and b for each neighbour with keys."""
        self.peers = {party: key for party, key in keys.items() if party != self.me}
        self.seed = self.tape.read(32)
        holders, threshold = sorted(keys), self.round.parameters.threshold
        mask_shares = split(self.mask_secret, threshold, holders, self.tape)
        seed_shares = split(self.seed, threshold, holders, self.tape)
        self.own_share = seed_shares[self.me]
        sealed = {}
        for peer in self.peers:
            header = derive.share_header(self.round.context, self.me, peer)
            key = self.message_key(peer, self.me, peer)
            sealed[peer] = derive.seal(key, header, mask_shares[peer] + seed_shares[peer])
        return derive.seed_commitment(self.round.context, self.me, self.seed), sealed

    def message_key(self, peer: int, sender: int, receiver: int) -> bytes:
        """Key of the shares that go from or to a neighbour."""
        shared = derive.agree(self.round.job.suite, self.seal_secret, self.peers[peer].seal)
        return derive.message_key(shared, self.round.context, sender, receiver, PURPOSE)

    def masked_input(self, sealed: dict[int, bytes]) -> list[int]:
        """Stage 2: y = x + PRG(b) + pair masks, of the neighbours that shared."""
        context, job = self.round.context, self.round.job
        masks = [(1, derive.self_mask_key(context, self.me, self.seed))]
        for peer, message in sealed.items():
            header = derive.share_header(context, peer, self.me)
            shares = derive.open_sealed(self.message_key(peer, peer, self.me), header, message)
            assert shares is not None
            self.held[peer] = shares[:SHARE_LENGTH], shares[SHARE_LENGTH:]
            shared = derive.agree(job.suite, self.mask_secret, self.peers[peer].mask)
            key = derive.pair_mask_key(shared, context, self.me, peer)
            masks.append((1 if self.me < peer else -1, key))
        return add_masks(job, self.words, masks)

    def confirm(self, survivors: set[int]) -> bytes:
        """Consistency stage: sign the survivor set."""
        message = self.round.context + self.round.bitmap(survivors)
        return self.identity.sign(SIGN_SURVIVORS, message)

    def reveal(self, survivors: set[int]) -> dict[int, bytes]:
        """Unmask stage: the own share of b; of a neighbour that of b if it survived, else of s."""
        return {self.me: self.own_share} | {
            peer: seed_share if peer in survivors else mask_share
            for peer, (mask_share, seed_share) in self.held.items()
        }


def add_masks(job: Job, words: list[int], masks: list[tuple[int, bytes]]) -> list[int]:
    """Words plus masks with their signs, modulo 2^b."""
    total = list(words)
    for sign, key in masks:
        lanes = derive.mask_lanes(key, job.lane_bits(), 0, len(words))
        total = [word + sign * lane for word, lane in zip(total, lanes, strict=True)]
    return [word & (1 << job.width()) - 1 for word in total]
