"""Whole rounds of fssa and pss: every message of every party and of the coordinator."""

from __future__ import annotations

from typing import Any

from . import wire
from .job import Job
from .play import Scenario, Stage
from .ramp_parameters import quorum
from .ramp_party import Column, Party, Round, largest_word
from .ramp_refused import refused
from .words import add

RANDOMNESS = [
    "A party reads its `random` bytes in this order, and reads all of them:",
    "1. advertise-keys: the secret of its key, 32 bytes; for p256 32 bytes that are no scalar are",
    "   thrown away;",
    "2. share-vector: the seed of its random elements, 32 bytes.",
]


class Play(Stage):
    """A round under way, with everything that was said."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.round = Round(scenario.job, scenario.job.parties, self.context)
        self.parties = [self.party(i) for i in range(scenario.job.parties)]

    def party(self, rank: int) -> Party:
        """A party with its randomness and its words."""
        words = self.words(rank, largest_word(self.job) + 1)
        words[0] = largest_word(self.job)
        return Party(self.round, rank, self.identities[rank], self.tape(rank), words)

    def answering(self) -> list[Party]:
        """Parties that answer in the stage to come."""
        return [self.parties[rank] for rank in self.speaking()]

    def play(self) -> list[int]:
        """All stages; the sum."""
        n = self.round.parties
        keys = {party.me: party.advertise() for party in self.answering()}
        listed = wire.neighbour_keys({rank: key.body() for rank, key in keys.items()})
        self.record("advertise-keys", {r: k.body() for r, k in keys.items()}, dict.fromkeys(keys, listed))
        sent = {party.me: party.share(keys) for party in self.answering()}
        self.survivors = set(sent)
        received = {rank: {peer: sent[peer][rank] for peer in sorted(sent) if peer != rank} for rank in sent}
        self.record(
            "share-vector",
            {rank: wire.ramp_columns(sealed) for rank, sealed in sent.items()},
            {r: wire.ramp_passed_on(n, self.survivors, sealed) for r, sealed in received.items()},
        )
        if self.job.is_active():
            self.confirm()
        sums = {party.me: party.aggregate(received[party.me]) for party in self.answering()}
        for liar in self.scenario.liars:
            sums[liar] = self.lie(sums[liar])
        total = self.open(sums)
        result = wire.result(n, self.survivors, self.job.width(), total)
        packed = {rank: self.round.vector.pack(column) for rank, column in sums.items()}
        self.record("aggregate", packed, dict.fromkeys(self.survivors, result))
        return total

    def confirm(self) -> None:
        """Everybody signs who shared; as many signatures as are needed go to all who signed."""
        signed = {party.me: party.confirm(self.survivors) for party in self.answering()}
        needed = quorum(self.round.wish, self.round.parties)
        passed_on = wire.signatures(dict(sorted(signed.items())[:needed]))
        bodies = {rank: wire.signed(signature) for rank, signature in signed.items()}
        self.record("consistency", bodies, dict.fromkeys(signed, passed_on))

    def lie(self, column: Column) -> Column:
        """Another column: the last element, in the last field, is one more."""
        *others, last = column
        changed = (last[-1] + 1) % self.round.vector.fields[-1].p
        return [*others, [*last[:-1], changed]]

    def open(self, sums: dict[int, Column]) -> list[int]:
        """The words of the sum, whatever up to half of the columns to spare say."""
        decoded = self.round.vector.decode(sums)
        assert decoded is not None
        words, self.liars = decoded
        return [word % 2 ** self.job.width() for word in words]


def transcript(play: Play) -> dict[str, Any]:
    """Everything about a round."""
    total, vector, survivors = play.play(), play.round.vector, sorted(play.survivors)
    assert total == add(play.job.width(), [play.parties[rank].words for rank in survivors])
    assert play.liars == set(play.scenario.liars)
    return play.bound_to() | {
        "fields": [field.name for field in vector.fields],
        "k": vector.shape.k,
        "l": vector.shape.l,
        "parties": [play.known_to(party.me, party.tape, party.words) for party in play.parties],
        "stages": play.stages,
        "liars": sorted(play.liars),
        "survivors": survivors,
        "sum": total,
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``ramp_rounds.json``."""
    both, ones = ("ed25519", "p256"), b"\xff" * 32
    small = Job(
        job="ramp-small",
        protocol="fssa",
        adversary="semi-honest",
        parties=5,
        dim=11,
        corrupt=0.2,
        dropout=0.2,
    )
    large = Job(
        job="ramp-large",
        protocol="pss",
        suite="p256",
        encoding="fixed64",
        parties=7,
        dim=9,
        corrupt=0.0,
        dropout=0.3,
    )
    signed = Job(job="ramp-signed", protocol="fssa", parties=6, dim=7, bits=8, corrupt=0.1, dropout=0.2)
    weighted = Job(
        job="ramp-weighted",
        protocol="pss",
        adversary="semi-honest",
        parties=4,
        dim=10,
        bits=32,
        max_weight=1000,
        threshold=3,
        packing=1,
        dropout=0.25,
    )
    liar = Job(
        job="ramp-liar",
        protocol="fssa",
        adversary="semi-honest",
        encoding="fixed64",
        parties=6,
        dim=5,
        dropout=0.4,
    )
    plays = [
        Play(Scenario(small)),
        Play(Scenario(large, both, lost={2: 1, 5: 2}, planted={3: {0: ones}})),
        Play(Scenario(signed, both, lost={4: 2})),
        Play(Scenario(weighted, lost={0: 0})),
        Play(Scenario(liar, liars=(3,))),
    ]
    rounds = [transcript(play) for play in plays]
    return {
        "randomness": RANDOMNESS,
        "rounds": rounds,
        "refused": {"round": 2, "party": 1, "stages": refused(plays[2].stages, plays[2].parties[1])},
    }
