"""Rounds of mpc3 whose servers compute: uploads, letters, keys and results.

Where the rule is a mean with noise every letter is here. Of other rules there are the first two letters, in
which servers agree on survivors and keys; the result, where it is exact; else one that servers might come to.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from . import mpc3_numbers as numbers
from .job import Job
from .mpc3_computing import Computing
from .mpc3_noise import drawn
from .mpc3_party import SERVERS, Party, Round
from .play import Scenario, Stage, framed, pick, words_of
from .tape import Tape
from .wire import frame

AGREED = 2
"""Letters before servers compute."""
Rows = list[list[int]]


@dataclass(frozen=True)
class Plan:
    """A round to be played.

    Attributes
    ----------
    missing
        By party, servers that its upload never came to.
    """

    job: Job
    algorithms: tuple[str, ...] = ("ed25519",)
    missing: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Play(Stage):
    """A round under way, with everything that was said."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(Scenario(plan.job, plan.algorithms))
        self.plan = plan
        names = [member.name for member in self.members]
        root = names.index(self.job.root) if self.job.rule == "fltrust" else None
        self.round = Round(self.job, self.job.parties, self.context, root)
        self.parties = [self.party(rank, self.tape(rank)) for rank in range(self.job.parties)]
        self.servers = [
            Computing(self.round, number, self.identities, secret=pick(f"{self.job.job}/server/{number}/key"))
            for number in SERVERS
        ]

    def party(self, rank: int, tape: Tape) -> Party:
        """A party with its levels, around the middle one: no vector is too long."""
        half, spread = 2 ** (self.job.bits - 1), 2 ** (self.job.bits - 2)
        drawn = words_of(self.job, f"{self.job.job}/{rank}", spread)
        levels = [half + word - spread // 3 for word in drawn]
        return Party(self.round, rank, self.identities[rank], tape, levels)

    def upload(self) -> list[dict[int, bytes]]:
        """What each server is given."""
        given: list[dict[int, bytes]] = [{}, {}, {}]
        for party in self.parties:
            for server in SERVERS:
                if server not in self.plan.missing.get(party.rank, ()):
                    given[server][party.rank] = party.upload(server)
                    self.servers[server].take(party.rank, given[server][party.rank])
        return given

    def is_modelled(self) -> bool:
        """Whether every letter is known."""
        return self.job.rule == "fedavg"

    def computing(self) -> int:
        """Rounds of letters that are known beside those in which survivors are agreed on."""
        return len(self.servers[0].steps()) if self.is_modelled() else 0

    def talk(self) -> list[list[tuple[bytes, bytes]]]:
        """Letters, by round and by the server that says them: to the next one, to the one before."""
        said: list[list[tuple[bytes, bytes]]] = []
        while len(said) < AGREED + self.computing():
            number, letters = len(said), [server.letters(len(said)) for server in self.servers]
            for server in self.servers:
                server.hear(number, letters[server.following][1], letters[server.before][0])
            said.append(letters)
        return said

    def rows(self) -> Rows:
        """What is computed with."""
        survivors = [rank for rank in self.servers[0].survivors if rank != self.round.root]
        job = self.job
        return [[numbers.number(job, level) for level in self.parties[rank].words] for rank in survivors]

    def framed_at(self, stage: int, body: bytes) -> str:
        """A message as it stands in the file."""
        return frame(self.context, stage, body).hex()


# --- Results ---


def middle(rows: Rows, trim: int) -> list[int]:
    """Of each coordinate the sum of the values that are not among the first and the last ones."""
    return [sum(sorted(column)[trim : len(column) - trim]) for column in zip(*rows, strict=True)]


def nearest(rows: Rows, bad: int) -> list[int]:
    """The row with the least sum of squared distances to its nearest others."""

    def score(row: list[int]) -> int:
        distances = sorted(sum((a - b) ** 2 for a, b in zip(row, other, strict=True)) for other in rows)
        # The first one is that of the row to itself.
        return sum(distances[1 : len(rows) - bad - 1])

    return min(rows, key=score)


def trusted(play: Play, rows: Rows) -> list[int]:
    """A result that servers might come to: one without any rounding but that of its words."""
    assert play.round.root is not None
    levels = play.parties[play.round.root].words
    root = [numbers.number(play.job, level) for level in levels]
    norm = norm_of(root)
    scale = 2.0 ** (numbers.FRACTION + numbers.exponent(play.job))
    trust = [max(0.0, dot(row, root) / norm_of(row) / norm) for row in rows]
    total: int | None = round(sum(trust) * 2**numbers.FRACTION)
    if play.job.trust == "hidden":
        trust, total = [t / sum(trust) for t in trust], None
    weights = [round(t * scale / norm_of(row)) for t, row in zip(trust, rows, strict=True)]
    shown = [dot(weights, list(column)) for column in zip(*rows, strict=True)]
    return numbers.result(shown, total, scale / norm)


def dot(a: list[int], b: list[int]) -> int:
    """Of two vectors."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def norm_of(row: list[int]) -> float:
    """Of one vector."""
    return float(dot(row, row)) ** 0.5


def result_of(play: Play) -> list[int]:
    """The words of a result."""
    rows, bad = play.rows(), play.job.bad_vectors()
    match play.job.rule:
        case "median":
            trim = (len(rows) - 1) // 2
            return numbers.result(middle(rows, trim), None, float(len(rows) - 2 * trim))
        case "trimmed-mean":
            return numbers.result(middle(rows, bad), None, float(len(rows) - 2 * bad))
        case "krum":
            return numbers.result(nearest(rows, bad), None, 1.0)
        case "fltrust":
            return trusted(play, rows)
        case _:
            return play.servers[0].total


# --- What stands in the file ---


def known_to(play: Play, party: Party) -> dict[str, Any]:
    """What only a party knows."""
    return play.known_to(party.rank, party.tape, party.words) | {
        "vector": party.vector,
        "norm": party.norm.hex(),
        "hashes": [hashed.hex() for hashed in party.hashes],
    }


def keys_of(play: Play) -> dict[str, Any]:
    """Keys of servers, and those that two have in common: number j those of servers j and j - 1."""
    servers = play.servers
    return {
        "secrets": [server.secret.hex() for server in servers],
        "public": [servers[0].keys[number].hex() for number in SERVERS],
        "survivors_hash": servers[0].survivors_hash().hex(),
        "pair_context": servers[0].context(servers[0].elements).hex(),
        "noise_context": servers[0].context(0).hex(),
        "pair_keys": [server.pair_keys[server.number].hex() for server in servers],
        "noise_keys": [server.noise_keys[server.number].hex() for server in servers],
    }


def noise_of(play: Play) -> list[dict[str, list[int]]]:
    """By component, the first numbers of its noise, and those from number 1024 on, of the second block."""
    if not numbers.has_noise(play.job):
        return []
    keys = [server.noise_keys[server.number] for server in play.servers]
    gaussian = play.servers[0].gaussian()
    return [{"first": drawn(key, gaussian, 6), "second": drawn(key, gaussian, 6, block=1)} for key in keys]


def transcript(play: Play) -> dict[str, Any]:
    """Everything about a round."""
    of_coordinator, *of_others = play.upload()
    play.record("upload", of_coordinator, {})
    said, servers = play.talk(), play.servers
    assert all(server.pair_keys[j] == servers[j].pair_keys[j] for server in servers for j in server.pair_keys)
    told = result_of(play)
    for server in servers:
        server.total = told
    coordinator, *others = servers
    tags = [coordinator.take_word(server.word()) for server in others]
    result = coordinator.told() + b"".join(tags)
    survivors = coordinator.survivors
    play.record("open", {}, dict.fromkeys(survivors, result))
    assert all(play.parties[rank].take(result) == told for rank in survivors)
    bits = [struct.unpack(">Q", struct.pack(">d", value))[0] for value in numbers.mean(play.job, told)]
    return play.bound_to() | {
        "parties": [known_to(play, party) for party in play.parties],
        "uploads": {str(1 + i): framed(play.context, 0, given) for i, given in enumerate(of_others)},
        "longest": numbers.longest(play.job),
        "exponent": numbers.exponent(play.job),
        "moved": numbers.moved(play.job) if play.job.privacy != "none" else 0,
        "told": play.framed_at(0, b""),
        "letters": [
            [
                {"next": play.framed_at(1, to_next), "before": play.framed_at(1, to_before)}
                for to_next, to_before in letters
            ]
            for letters in said
        ],
        "keys": keys_of(play),
        "noise": noise_of(play),
        "is_exact": play.job.rule != "fltrust",
        "word": {str(server.number): play.framed_at(1, server.word()) for server in others},
        "stages": play.stages,
        "liars": [],
        "survivors": survivors,
        "sum": told,
        "mean_bits": bits,
    }


def job(name: str, rule: str, **changes: Any) -> Job:
    """A small job with a rule."""
    fields = {"parties": 5, "dim": 5, "bits": 12, "clipping": "l2", "clip": 2.0} | changes
    return Job(job=f"mpc3-{name}", protocol="mpc3", rule=rule, **fields)


def plays() -> list[Play]:
    """All rounds."""
    both, calm = ("ed25519", "p256"), "semi-honest"
    hidden = {"privacy": "discrete-gaussian", "delta": 1e-5, "noise_multiplier": 2.5}
    steps = job("privacy-calm", "fedavg", dim=3, bits=22, adversary=calm, **hidden)
    wide = job("noise-calm", "fedavg", noise=40.0, dim=6, bits=30, adversary=calm)
    return [
        Play(Plan(job("trust", "fltrust", root="party-2", parties=6), both, missing={4: (1,)})),
        Play(
            Plan(
                job(
                    "trust-calm",
                    "fltrust",
                    root="party-1",
                    trust="hidden",
                    adversary=calm,
                    rounding="nearest",
                )
            )
        ),
        Play(Plan(job("noise", "fedavg", noise=0.25, dim=4), both)),
        Play(Plan(wide, missing={0: (2,)})),
        Play(Plan(job("privacy", "fedavg", dim=4, **hidden), both)),
        Play(Plan(steps, missing={1: (0,)})),
        Play(
            Plan(
                job("median", "median", clipping="tensor", dim=3, rounding="nearest"), missing={1: (0, 1, 2)}
            )
        ),
        Play(Plan(job("trimmed", "trimmed-mean", clipping="tensor", clip=0.5, bits=7, adversary=calm))),
        Play(Plan(job("krum", "krum", adversary=calm), missing={3: (0,)})),
    ]
