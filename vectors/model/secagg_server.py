"""The coordinator of secagg and secagg+, honest and on paper."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import derive, shamir
from .secagg_party import Keys, Round, add_masks


@dataclass
class Server:
    """The coordinator's side of one round; the methods end the stages, in order."""

    round: Round
    keys: dict[int, Keys] = field(default_factory=dict)
    liars: set[int] = field(default_factory=set)

    def among(self, party: int, parties: set[int]) -> list[int]:
        """Neighbours of a party that are in a set."""
        return [other for other in self.round.neighbours[party] if other in parties]

    def end_advertise(self, keys: dict[int, Keys]) -> dict[int, dict[int, Keys]]:
        """Give each party the keys of its holders: its neighbours and itself."""
        self.keys = keys
        holders = {party: [*self.among(party, set(keys)), party] for party in keys}
        return {party: {holder: keys[holder] for holder in holders[party]} for party in keys}

    def end_share(self, shares: dict[int, tuple[bytes, dict[int, bytes]]]) -> dict[int, dict[int, bytes]]:
        """Give each party that shared what the others sealed for it."""
        self.shared = set(shares)
        self.commitments = {party: commitment for party, (commitment, _) in shares.items()}
        return {
            party: {other: shares[other][1][party] for other in self.among(party, self.shared)}
            for party in shares
        }

    def end_inputs(self, vectors: dict[int, list[int]]) -> set[int]:
        """Tell everybody who survived: those whose vectors came."""
        self.survivors = set(vectors)
        self.total = [sum(column) for column in zip(*vectors.values(), strict=True)]
        return self.survivors

    def end_consistency(self, signatures: dict[int, bytes]) -> dict[int, bytes]:
        """Give everybody who signed the signatures of the witnesses."""
        passed_on = {w: signatures[w] for w in self.round.witnesses if w in signatures}
        assert len(passed_on) >= self.round.parameters.threshold
        return passed_on

    def end_unmask(self, revealed: dict[int, dict[int, bytes]]) -> list[int]:
        """Rebuild b of the survivors and s of the lost, and take their masks off."""
        context, job = self.round.context, self.round.job
        masks = []
        for owner in sorted(self.shared):
            held = {h: shares[owner] for h, shares in revealed.items() if owner in shares}
            secret = self.rebuild(owner, held)
            if owner in self.survivors:
                masks.append((-1, derive.self_mask_key(context, owner, secret)))
                continue
            for other in self.among(owner, self.survivors):
                shared = derive.agree(job.suite, secret, self.keys[other].mask)
                key = derive.pair_mask_key(shared, context, owner, other)
                # The survivor added it if its rank is the lower one.
                masks.append((-1 if other < owner else 1, key))
        return add_masks(job, self.total, masks)

    def rebuild(self, owner: int, held: dict[int, bytes]) -> bytes:
        """Rebuild a secret from the first shares; from all of them if that one is wrong."""
        threshold = self.round.parameters.threshold
        points = [holder + 1 for holder in sorted(held)]
        shares = [decode(held[holder]) for holder in sorted(held)]
        secret = shamir.reconstruct(threshold, points, shares)
        if secret is not None and self.is_right(owner, secret):
            return secret
        decoded = shamir.robust(threshold, points, shares)
        assert decoded is not None
        secret, wrong = decoded
        assert self.is_right(owner, secret)
        self.liars |= {point - 1 for point in wrong}
        return secret

    def is_right(self, owner: int, secret: bytes) -> bool:
        """Compare a rebuilt secret with what its owner published."""
        if owner in self.survivors:
            commitment = derive.seed_commitment(self.round.context, owner, secret)
            return commitment == self.commitments[owner]
        return derive.public_key(self.round.job.suite, secret) == self.keys[owner].mask


def decode(share: bytes) -> list[int]:
    """Five field elements of a share."""
    return [int.from_bytes(share[i : i + 8], "little") for i in range(0, len(share), 8)]
