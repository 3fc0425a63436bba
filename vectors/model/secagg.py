"""Whole rounds of secagg and secagg+: every message of every party and of the coordinator."""

from __future__ import annotations

from typing import Any

from . import shamir, wire
from .graph import neighbour_lists, witnesses
from .job import Job
from .parameters import find
from .play import Scenario, Stage
from .refused import refused
from .secagg_party import Keys, Party, Round
from .secagg_server import Server, decode
from .words import add, pack

RANDOMNESS = [
    "A party reads its `random` bytes in this order, and reads all of them:",
    "1. advertise-keys: the secret of its sealing key, then that of its mask key, 32 bytes each;",
    "   for p256 32 bytes that are no scalar are thrown away;",
    "2. share-keys: the seed b of its self mask, 32 bytes;",
    "3. then the coefficients that share the mask secret, then those that share b:",
    "   each (threshold - 1) rows of 5 field elements, the row of X first, in a row the lowest",
    "   limb first. An element is the 61 low bits of 8 bytes, little-endian; 2^61 - 1 is thrown",
    "   away.",
]


class Play(Stage):
    """A round under way, with everything that was said."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        job = scenario.job
        parameters = find(job, job.parties, complete=job.protocol == "secagg")
        shape = job.parties, parameters.neighbours, self.context
        graph = neighbour_lists(*shape), witnesses(*shape)
        self.round = Round(job, self.number, self.members, self.model_hash, parameters, *graph)
        self.parties = [self.party(i) for i in range(job.parties)]
        self.server = Server(self.round)

    def party(self, rank: int) -> Party:
        """A party with its randomness and its words."""
        words = self.words(rank, (1 << self.job.width()) // self.job.parties)
        return Party(self.round, rank, self.identities[rank], self.tape(rank), words)

    def answering(self) -> list[Party]:
        """Parties that answer in the stage to come."""
        return [self.parties[rank] for rank in self.speaking()]

    def play(self) -> list[int]:
        """All stages; the sum."""
        shares = self.exchange_keys()
        inputs = {party.me: party.masked_input(shares[party.me]) for party in self.answering()}
        survivors = self.server.end_inputs(inputs)
        packed = {rank: pack(self.job.width(), words) for rank, words in inputs.items()}
        bitmap = self.round.bitmap(survivors)
        self.record("masked-input", packed, dict.fromkeys(survivors, bitmap))
        if self.job.is_active():
            signed = {party.me: party.confirm(survivors) for party in self.answering()}
            passed_on = wire.signatures(self.server.end_consistency(signed))
            self.record(
                "consistency",
                {rank: wire.signed(signature) for rank, signature in signed.items()},
                dict.fromkeys(signed, passed_on),
            )
            return self.unmask(survivors, asked=set(signed))
        return self.unmask(survivors, asked=survivors)

    def exchange_keys(self) -> dict[int, dict[int, bytes]]:
        """First two stages; the sealed shares that each party gets."""
        keys: dict[int, Keys] = {party.me: party.advertise() for party in self.answering()}
        holders = self.server.end_advertise(keys)
        bodies = {
            rank: wire.neighbour_keys({holder: key.body() for holder, key in entries.items()})
            for rank, entries in holders.items()
        }
        self.record("advertise-keys", {r: key.body() for r, key in keys.items()}, bodies)
        sealed = {party.me: party.share(holders[party.me]) for party in self.answering()}
        shares = self.server.end_share(sealed)
        self.record(
            "share-keys",
            {rank: wire.shares_out(*message) for rank, message in sealed.items()},
            {rank: wire.sealed_shares(entries) for rank, entries in shares.items()},
        )
        return shares

    def unmask(self, survivors: set[int], asked: set[int]) -> list[int]:
        """Last stage; everybody who was asked for shares is told the result, also who gave none."""
        honest = {party.me: party.reveal(survivors) for party in self.answering()}
        revealed = {
            rank: {o: lie(s) for o, s in shares.items()} if rank in self.scenario.liars else shares
            for rank, shares in honest.items()
        }
        total = self.server.end_unmask(revealed)
        body = wire.result(self.round.n(), survivors, self.job.width(), total)
        up = {rank: wire.revealed(shares) for rank, shares in revealed.items()}
        self.record("unmask", up, dict.fromkeys(asked, body))
        return total


def lie(share: bytes) -> bytes:
    """Another share."""
    values = decode(share)
    return bytes.fromhex(shamir.encode([(values[0] + 1) % shamir.P, *values[1:]]))


def transcript(scenario: Scenario) -> dict[str, Any]:
    """Everything about a round."""
    play = Play(scenario)
    total = play.play()
    job, round_, survivors = scenario.job, play.round, sorted(play.server.survivors)
    assert total == add(job.width(), [play.parties[rank].words for rank in survivors])
    assert play.server.liars == set(scenario.liars)
    return play.bound_to() | {
        "neighbours": round_.neighbours,
        "witnesses": round_.witnesses,
        "threshold": round_.parameters.threshold,
        "parties": [play.known_to(party.me, party.tape, party.words) for party in play.parties],
        "stages": play.stages,
        "liars": sorted(play.server.liars),
        "survivors": survivors,
        "sum": total,
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``secagg.json``."""
    ones, both = b"\xff" * 8, ("ed25519", "p256")
    complete = Job(job="complete", protocol="secagg", adversary="semi-honest", parties=3, dim=11)
    active = Job(job="active", parties=7, dim=9, bits=32, corrupt=0.0, dropout=0.29)
    sparse = Job(job="sparse", parties=20, dim=20, suite="p256", neighbours=17, dropout=0.1)
    weighted = Job(
        job="liar",
        protocol="secagg",
        adversary="semi-honest",
        parties=4,
        dim=4,
        max_weight=1000,
        threshold=2,
    )
    rounds = [
        transcript(Scenario(complete, planted={1: {96 + 8: ones, 96 + 24: ones}})),
        transcript(Scenario(active, both, lost={1: 2, 3: 4})),
        transcript(Scenario(sparse, both, lost={2: 1, 6: 2}, planted={0: {0: ones * 4}})),
        transcript(Scenario(weighted, liars=(0,))),
    ]
    return {
        "randomness": RANDOMNESS,
        "rounds": rounds,
        "refused": {"round": 1, "party": 2, "stages": refused(rounds[1]["stages"], 2)},
    }
