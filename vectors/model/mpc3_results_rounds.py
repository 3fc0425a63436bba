"""Rounds of mpc3 whose result not everybody learns: sums and rules, for parties alone and for servers alone.

Of rules but the mean with noise there are the first two letters. What is in the components of their results
is made up; the servers come to others with the same sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import mpc3_numbers as numbers
from . import mpc3_rules
from .derive import mask_lanes
from .job import Job
from .mpc3_keyed import Keyed
from .mpc3_noise import LAST_BITS, drawn, even
from .mpc3_party import SERVERS, Party
from .mpc3_results import ForParties, RuleForParties, RuleForServers, SumForParties, SumForServers, take
from .mpc3_server import Server
from .play import framed, pick
from .tape import Tape
from .words import add

HIDDEN_BITS = 28


@dataclass(frozen=True)
class Plan(mpc3_rules.Plan):
    """A round to be played.

    Attributes
    ----------
    longs
        Parties with a vector that no gate lets pass.
    """

    longs: tuple[int, ...] = ()


class Play(mpc3_rules.Play):
    """A round under way.

    Attributes
    ----------
    said
        Letters, as ``talk`` gives them.
    total
        The sum, or the words of a rule's result.
    """

    plan: Plan
    servers: list[Any]
    said: list[list[tuple[bytes, bytes]]]
    total: list[int]

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.servers = [self.server(number) for number in SERVERS]

    def server(self, number: int) -> Server:
        """One that tells the right ones, and draws its key if it needs one."""
        which, adds = (self.round, number, self.identities), not numbers.computes(self.job)
        if self.job.result == "servers" and adds:
            return SumForServers(*which)
        computing = RuleForParties if self.job.result == "parties" else RuleForServers
        return (SumForParties if adds else computing)(*which, secret=self.secret(number))

    def secret(self, server: int) -> bytes:
        """What a server draws."""
        return pick(f"{self.job.job}/server/{server}/key")

    def party(self, rank: int, tape: Tape) -> Party:
        """A party with its words; what servers add has one that is the largest."""
        plan, job = self.plan, self.job
        if numbers.computes(job):
            party = super().party(rank, tape)
            if rank not in plan.longs:
                return party
            return Party(self.round, rank, party.identity, Tape(tape.label), [2**30, *party.words[1:]])
        largest = (2 ** job.width() - 1) // job.parties
        words = [largest, *self.words(rank, largest + 1)[1:]]
        return Party(self.round, rank, self.identities[rank], tape, words)

    def computing(self) -> int:
        """A sum takes one round of letters more."""
        return super().computing() if numbers.computes(self.job) else 1

    def is_exact(self) -> bool:
        """Whether servers come to the same words and result as the model."""
        return self.is_modelled() or self.job.result == "servers"

    def gate(self) -> None:
        """Parties that fail it are no survivors any more."""
        passing = [rank for rank in self.servers[0].survivors if rank not in self.plan.longs]
        for server in self.servers:
            server.survivors = passing

    def settle(self) -> list[int]:
        """What servers have once they have said everything; gives the sum."""
        passing = self.servers[0].survivors
        if not numbers.computes(self.job):
            return add(self.round.width, [self.parties[rank].words for rank in passing])
        shown, divisor = self.shown()
        if not self.is_modelled() and self.job.result == "parties":
            self.make_up(shown, divisor)
        return numbers.result(shown, None, divisor)

    def shown(self) -> tuple[list[int], float]:
        """The coordinates of the result and its divisor."""
        rows, job = self.rows(), self.job
        if job.rule == "median":
            trim = (len(rows) - 1) // 2
            return mpc3_rules.middle(rows, trim), float(len(rows) - 2 * trim)
        columns = [sum(column) for column in zip(*rows, strict=True)]
        if job.rule == "clipped":
            # No honest vector is longer than the longest one, so each has the weight 1.
            hidden = zip(*(self.hidden(number) for number in SERVERS), strict=True)
            scaled = [
                value * 2**numbers.FRACTION + sum(bits) for value, bits in zip(columns, hidden, strict=True)
            ]
            return scaled, float(len(rows) * 2**numbers.FRACTION)
        noise = [drawn(self.noise_key(j), self.servers[j].gaussian(), job.dim) for j in SERVERS]
        return [sum(of) for of in zip(columns, *noise, strict=True)], float(len(rows))

    def noise_key(self, number: int) -> bytes:
        """Of one component."""
        return self.servers[number].noise_keys[number]

    def hidden(self, number: int) -> list[int]:
        """Even numbers behind the point, of one component."""
        return even(self.noise_key(number), LAST_BITS, 0, HIDDEN_BITS, self.job.dim)

    def make_up(self, shown: list[int], divisor: float) -> None:
        """Components that servers might have, of which each says the hashes to the others."""
        keys = [pick(f"{self.job.job}/component/{number}") for number in (1, 2)]
        others = [mask_lanes(key, 64, 0, len(shown)) for key in keys]
        first = [(word - a - b) % 2**64 for word, a, b in zip(shown, *others, strict=True)]
        components = [first, *others]
        for server in self.servers:
            server.sums = {number: components[number] for number in (server.number, server.following)}
            server.know(divisor)
        said = [server.shown() for server in self.servers]
        for server in self.servers:
            server.hear_reveal(said[server.following][1], said[server.before][0])


def parts_of(play: Play) -> list[dict[str, Any]]:
    """By component its key, its salt, what it is and its hash."""
    if play.job.result != "parties":
        return []
    keys = [server.part_key(server.number) for server in play.servers]
    made = [server.part(server.number) for server in play.servers]
    return [
        {
            "key": key.hex(),
            "salt": server.protection.salt(key).hex(),
            "component": component,
            "hash": server.part_hash(server.number).hex(),
        }
        for server, key, component in zip(play.servers, keys, made, strict=True)
    ]


def result_of(play: Play) -> bytes:
    """What survivors are told."""
    coordinator, first, second = play.servers
    of_first = coordinator.take_first if isinstance(coordinator, ForParties) else coordinator.take_word
    return coordinator.told() + of_first(first.word()) + coordinator.take_word(second.word())


def transcript(play: Play) -> dict[str, Any]:
    """Everything about a round."""
    of_coordinator, *of_others = play.upload()
    play.record("upload", of_coordinator, {})
    play.said, servers = play.talk(), play.servers
    begun = servers[0].survivors_hash()
    play.gate()
    play.total = play.settle()
    assert len({server.result_hash() for server in servers}) == 1
    result, survivors = result_of(play), servers[0].survivors
    play.record("open", {}, dict.fromkeys(survivors, result))
    for_parties = play.job.result == "parties"
    expected = play.total if for_parties else None
    assert all(take(play.parties[rank], result) == expected for rank in survivors)
    return play.bound_to() | {
        "parties": [play.known_to(party.rank, party.tape, party.words) for party in play.parties],
        "uploads": {str(1 + i): framed(play.context, 0, given) for i, given in enumerate(of_others)},
        "told": play.framed_at(0, b""),
        "secrets": [server.secret.hex() for server in servers if isinstance(server, Keyed)],
        "survivors_hash": begun.hex(),
        "letters": [
            [
                {"next": play.framed_at(1, to_next), "before": play.framed_at(1, to_before)}
                for to_next, to_before in letters
            ]
            for letters in play.said
        ],
        "parts": parts_of(play),
        "is_exact": play.is_exact(),
        "word": {str(server.number): play.framed_at(1, server.word()) for server in servers[1:]},
        "stages": play.stages,
        "liars": list(play.plan.longs),
        "survivors": survivors,
        "sum": play.total,
    }


def job(name: str, **changes: Any) -> Job:
    """A small job."""
    fields = {"parties": 4, "dim": 3, "bits": 12} | changes
    return Job(job=f"mpc3-{name}", protocol="mpc3", **fields)


def plays() -> list[Play]:
    """All rounds."""
    both, calm, l2 = ("ed25519", "p256"), "semi-honest", {"clipping": "l2", "clip": 2.0}
    parties, servers = {"result": "parties"}, {"result": "servers", "model_update": "none"}
    clipped = {"rule": "clipped", "dim": 2} | l2
    return [
        Play(Plan(job("parties", **parties, dim=5), both, missing={1: (2,)})),
        Play(Plan(job("parties-calm", **parties, adversary=calm, max_weight=9, dim=2), missing={0: (0, 1)})),
        Play(Plan(job("parties-noise", **parties, noise=0.25, dim=2, **l2), missing={2: (1,)})),
        Play(Plan(job("parties-clipped", **parties, **clipped, bits=9, adversary=calm), longs=(1,))),
        Play(Plan(job("servers", **servers, adversary=calm), missing={1: (1,)})),
        Play(Plan(job("servers-clipped", **servers, **clipped), longs=(2,))),
    ]
