"""Whole rounds of mpc3: every message of every party and of the three servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import mpc3_results_refused, mpc3_results_rounds, mpc3_rules, mpc3_rules_refused, wire
from .job import Job
from .mpc3_party import SERVERS, Party, Round
from .mpc3_refused import refused
from .mpc3_server import Server
from .play import Scenario, Stage, framed
from .tape import Tape
from .words import add

RANDOMNESS = [
    "A party reads its `random` bytes at the beginning, in this order, and reads all of them:",
    "1. the seeds of the two components that have one, in ascending order of their numbers, 32 bytes each;",
    "2. the salt, 32 bytes;",
    "3. if active, or where the result is for parties alone: tag keys of the servers 1 and 2, 32 bytes each.",
]
LETTERS = range(3)


@dataclass(frozen=True)
class Plan:
    """A round to be played.

    Attributes
    ----------
    missing
        By party, servers that its upload never came to.
    twofold
        By party, servers that are told another upload than the others: the same words, drawn again.
    """

    job: Job
    algorithms: tuple[str, ...] = ("ed25519",)
    missing: dict[int, tuple[int, ...]] = field(default_factory=dict)
    twofold: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Play(Stage):
    """A round under way, with everything that was said."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(Scenario(plan.job, plan.algorithms))
        self.plan = plan
        self.round = Round(self.job, self.job.parties, self.context)
        ranks = range(self.job.parties)
        self.parties = [self.party(rank, self.tape(rank)) for rank in ranks]
        again = {rank: Tape(f"{self.job.job}/{rank}/again") for rank in plan.twofold}
        self.again = {rank: self.party(rank, tape) for rank, tape in again.items()}
        self.servers = [Server(self.round, number, self.identities) for number in SERVERS]

    def party(self, rank: int, tape: Tape) -> Party:
        """A party with its words, one of them the largest; words are below the bound of one party's share."""
        largest = (2 ** self.job.width() - 1) // self.job.parties
        words = self.words(rank, largest + 1)
        words[0] = largest
        return Party(self.round, rank, self.identities[rank], tape, words)

    def upload(self) -> list[dict[int, bytes]]:
        """What each server is given."""
        given: list[dict[int, bytes]] = [{}, {}, {}]
        for party in self.parties:
            for server in SERVERS:
                teller = self.again[party.rank] if server in self.plan.twofold.get(party.rank, ()) else party
                if server not in self.plan.missing.get(party.rank, ()):
                    given[server][party.rank] = teller.upload(server)
                    self.servers[server].take(party.rank, given[server][party.rank])
        return given

    def talk(self) -> list[list[tuple[bytes, bytes]]]:
        """Letters, by round and by the server that says them: to the next one, to the one before."""
        said = []
        for number in LETTERS:
            letters = [server.letters(number) for server in self.servers]
            for server in self.servers:
                server.hear(number, letters[server.following][1], letters[server.before][0])
            said.append(letters)
        return said

    def result(self) -> bytes:
        """What all survivors are told."""
        coordinator, *others = self.servers
        tags = [coordinator.take_word(server.word()) for server in others]
        return coordinator.told() + b"".join(tags)

    def framed_at(self, stage: int, body: bytes) -> str:
        """A message as it stands in the file."""
        return wire.frame(self.context, stage, body).hex()


def drawn_by(party: Party) -> dict[str, Any]:
    """What a party draws, and the components of its vector that follow."""
    return {
        "random": party.tape.used.hex(),
        "seeds": [seed.hex() for seed in party.seeds.values()],
        "salt": party.salt.hex(),
        "tag_keys": [key.hex() for key in party.tag_keys.values()],
        "components": party.components,
        "hashes": [hashed.hex() for hashed in party.hashes],
    }


def known_to(play: Play, party: Party) -> dict[str, Any]:
    """What only a party knows."""
    return play.known_to(party.rank, party.tape, party.words) | drawn_by(party)


def between_servers(play: Play) -> dict[str, Any]:
    """What the servers make of the uploads and say to each other."""
    servers, said = play.servers, play.talk()
    return {
        "told": play.framed_at(0, b""),
        "notices": [
            {str(rank): play.framed_at(0, server.notice(rank)) for rank in server.held} for server in servers
        ],
        "headers": [
            {str(rank): held.header.hex() for rank, held in server.held.items()} for server in servers
        ],
        "survivors_hash": servers[0].survivors_hash().hex(),
        "components": [server.sums[server.number] for server in servers],
        "letters": [
            [
                {"next": play.framed_at(1, to_next), "before": play.framed_at(1, to_before)}
                for to_next, to_before in letters
            ]
            for letters in said
        ],
        "word": {str(server.number): play.framed_at(1, server.word()) for server in servers[1:]},
    }


def transcript(play: Play) -> dict[str, Any]:
    """Everything about a round."""
    of_coordinator, *of_others = play.upload()
    play.record("upload", of_coordinator, {})
    said, result = between_servers(play), play.result()
    survivors, total = play.servers[0].survivors, play.servers[0].total
    play.record("open", {}, dict.fromkeys(survivors, result))
    assert total == add(play.job.width(), [play.parties[rank].words for rank in survivors])
    assert all(play.parties[rank].take(result) == total for rank in survivors)
    assert all((server.survivors, server.total) == (survivors, total) for server in play.servers)
    return play.bound_to() | {
        "parties": [known_to(play, party) for party in play.parties],
        "again": {str(rank): drawn_by(party) for rank, party in play.again.items()},
        "uploads": {str(1 + i): framed(play.context, 0, given) for i, given in enumerate(of_others)},
        **said,
        "stages": play.stages,
        "liars": [],
        "survivors": survivors,
        "sum": total,
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``mpc3.json``."""
    active = Job(job="mpc3-active", protocol="mpc3", parties=5, dim=11)
    semi_honest = Job(
        job="mpc3-semi-honest",
        protocol="mpc3",
        adversary="semi-honest",
        encoding="fixed64",
        parties=5,
        dim=6,
        max_weight=9,
    )
    wide = Job(job="mpc3-wide", protocol="mpc3", parties=5, dim=9, bits=30, max_weight=10, corrupt=0.2)
    narrow = Job(
        job="mpc3-narrow", protocol="mpc3", adversary="semi-honest", parties=3, min_parties=3, bits=2
    )
    two_words = Job(
        job="mpc3-two-words",
        protocol="mpc3",
        suite="p256",
        encoding="integers",
        bits=64,
        parties=4,
        dim=3,
        model_update="none",
    )
    both = ("ed25519", "p256")
    plays = [
        Play(Plan(active, both, missing={3: (0,)}, twofold={4: (1,)})),
        Play(Plan(semi_honest, missing={3: (0, 2)}, twofold={0: (2,)})),
        Play(Plan(wide, both)),
        Play(Plan(narrow)),
        Play(Plan(two_words, ("p256",), missing={2: (0, 1, 2)})),
    ]
    rounds = [transcript(play) for play in plays]
    with_rules = mpc3_rules.plays()
    with_results = mpc3_results_rounds.plays()
    of_results = [mpc3_results_rounds.transcript(play) for play in with_results]
    of_rules = [mpc3_rules.transcript(play) for play in with_rules]
    return {
        "randomness": RANDOMNESS,
        "rounds": rounds,
        "refused": [refused(number, plays[number], rounds[number]) for number in (0, 1)],
        "rules": of_rules,
        "refused_rules": [
            mpc3_rules_refused.refused(number, with_rules[number], of_rules[number]) for number in (0, 1)
        ],
        "results": of_results,
        "refused_results": [
            mpc3_results_refused.refused(number, play) for number, play in enumerate(with_results)
        ],
    }
