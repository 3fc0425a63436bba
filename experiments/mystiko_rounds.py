"""What a round of Paillier and of the protocols beside it takes: work in sequence, and a modelled network.

Work and bytes are those of simulated rounds. Delays are the simulator's virtual time, so that they hold for
every protocol. Bytes go at a stated rate, over two ways: through the coordinator, as ours do; and straight
from party to party, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

import blindsum as bs
from blindsum.simulation_result import SimulationResult

PAILLIER = ("paillier-ring", "paillier-broadcast", "paillier-allreduce")
OTHERS = ("mpc3", "secagg+", "flashe", "plain")
PROTOCOLS = (*PAILLIER, *OTHERS)
RATE = 10e9 / 8
"""Bytes a second of everybody's link, each way: the paper's 10 GbE."""
LATENCY = 0.010
"""Seconds that a message takes, one way. Assumed: the paper names four data centres and no delays."""


@dataclass(frozen=True)
class Case:
    """One round of one protocol: semi-honest where there is a choice, as the paper's parties are."""

    protocol: str
    parties: int
    dim: int

    @property
    def spec(self) -> bs.JobSpec:
        """The job: 16-bit values; Paillier with keys of 2048 bits and full exponents."""
        job = bs.JobSpec(protocol=self.protocol, parties=self.parties, dim=self.dim)
        return job.replace(adversary="semi-honest") if self.protocol in ("mpc3", "secagg+") else job

    @property
    def largest(self) -> int:
        """Bytes of the largest message of a round."""
        return max(message.largest for message in self.spec.plan)

    @property
    def is_possible(self) -> bool:
        """Whether parties take messages as long as this round's, by the policy that they have by default."""
        return self.largest <= bs.Policy().max_message


@dataclass(frozen=True)
class Step:
    """A stage: seconds of those who work at the same time, and bytes of all through the coordinator's link.

    Attributes
    ----------
    party_s : float
        Work of one party; of the one that speaks, in a ring.
    up, down : float
        Bytes of all parties, to the coordinator and back.
    direct : float
        Bytes over the busiest link, if parties had links to each other.
    """

    name: str
    party_s: float
    up: float
    down: float
    direct: float


@dataclass(frozen=True)
class Round:
    """What a round of a case takes.

    Attributes
    ----------
    steps : tuple of Step
        Its stages.
    servers_s : float
        Work of servers that others wait for, without making of keys.
    party_s, all_s : float
        Work of one party, and of everybody.
    bytes : float
        That a party sends and is sent.
    between : float
        Bytes that the busiest of several servers is sent and sends; 0 with one.
    delays_s : float
        Delays of messages that wait for each other.
    extrapolated : bool
        Whether the length was not run.
    """

    case: Case
    steps: tuple[Step, ...]
    servers_s: float
    party_s: float
    all_s: float
    bytes: float
    between: float
    delays_s: float
    extrapolated: bool = False

    @property
    def work_s(self) -> float:
        """Work one after the other: every stage's, and the servers'."""
        return sum(step.party_s for step in self.steps) + self.servers_s

    @property
    def communication_s(self) -> float:
        """Delays, and bytes through the coordinator."""
        through = self.between or sum(step.up + step.down for step in self.steps)
        return self.delays_s + through / RATE

    @property
    def direct_s(self) -> float | None:
        """The same where hops take one message instead of two; Paillier only."""
        if self.case.protocol not in PAILLIER:
            return None
        return self.delays_s / 2 + sum(step.direct for step in self.steps) / RATE

    @property
    def synchronisation_s(self) -> float:
        """The paper's total synchronisation time: work, and communication."""
        return self.work_s + self.communication_s

    @property
    def row(self) -> dict[str, Any]:
        """For a CSV file."""
        plain = {
            name: value
            for name, value in asdict(self).items()
            if name not in ("case", "steps", "extrapolated")
        }
        made = {
            "work_s": self.work_s,
            "communication_s": self.communication_s,
            "direct_communication_s": "-" if self.direct_s is None else self.direct_s,
            "synchronisation_s": self.synchronisation_s,
        }
        return {**asdict(self.case), "source": self.source, "largest": self.case.largest, **made, **plain}

    @property
    def source(self) -> str:
        """Where the numbers of work and bytes are from."""
        return "extrapolated" if self.extrapolated else "simulated"


@cache
def simulated(case: Case) -> Round:
    """Run a case, once for all who ask; the second round of two where the first one makes a key.

    Raises
    ------
    ArithmeticError
        There was no sum, or a wrong one.
    """
    result = bs.simulate(case.spec, latency=LATENCY, rounds=2 if case.protocol in PAILLIER else 1)
    if not result.exact:
        raise ArithmeticError(f"{case}: {result.fault or 'a wrong sum'}")
    busiest = max(result.servers, key=lambda one: one.server_bytes, default=None)
    is_mpc = case.protocol == "mpc3"
    return Round(
        case=case,
        steps=tuple(_step(case, place, result) for place in range(len(result.stages))),
        servers_s=servers_ms(case, result) / 1000,
        party_s=result.client_ms.median / 1000,
        all_s=(case.parties * result.client_ms.median + _all_servers_ms(result)) / 1000,
        bytes=result.up_bytes_per_party + result.down_bytes_per_party,
        between=float(busiest.server_bytes) if busiest is not None and is_mpc else 0.0,
        delays_s=result.virtual_seconds,
    )


def servers_ms(case: Case, result: SimulationResult) -> float:
    """Work of servers one after the other: that of the slowest of three, as they work at the same time."""
    if case.protocol == "mpc3":
        return max(server.server_ms for server in result.servers)
    return _all_servers_ms(result)


def _all_servers_ms(result: SimulationResult) -> float:
    return sum(server.server_ms for server in result.servers) if result.servers else result.server_ms


def _step(case: Case, place: int, result: SimulationResult) -> Step:
    stage, parties = result.stages[place], case.parties
    names = [one.name for one in result.stages]
    # In a ring one party speaks and one listens; the others' first stages are shorter than the speaker's.
    is_alone = case.protocol == "paillier-ring" and stage.name == "hop"
    is_passed_on = is_alone and names[place - 1] == "hop"
    up = stage.up_bytes.max + (0 if is_alone else (parties - 1) * stage.up_bytes.median)
    down = stage.down_bytes.median * (1 if is_passed_on else parties)
    is_last_hop = stage.name == "hop" and "hop" not in names[place + 1 :]
    if stage.name == "broadcast":
        direct = (parties - 1) * stage.up_bytes.max
    elif stage.name == "hop" and not is_last_hop:
        direct = stage.up_bytes.max
    elif stage.name == "result":
        direct = down
    else:
        direct = up
    work = stage.client_ms.max if is_alone else stage.client_ms.median
    return Step(stage.name, work / 1000, up, down, direct)


def extrapolated(short: Round, long: Round, dim: int) -> Round:
    """A round of so many coordinates, by what each further one of two measured rounds cost."""
    weight = (dim - short.case.dim) / (long.case.dim - short.case.dim)

    def line(first: float, second: float) -> float:
        # Times are not exact: what takes no longer for longer vectors costs nothing a coordinate.
        return first + weight * max(second - first, 0.0)

    def step(first: Step, second: Step) -> Step:
        names = [one.name for one in fields(Step) if one.name != "name"]
        return Step(first.name, *[line(getattr(first, name), getattr(second, name)) for name in names])

    scaled = ("servers_s", "party_s", "all_s", "bytes", "between")
    return Round(
        case=Case(short.case.protocol, short.case.parties, dim),
        steps=tuple(step(*both) for both in zip(short.steps, long.steps, strict=True)),
        delays_s=long.delays_s,
        extrapolated=True,
        **{name: line(getattr(short, name), getattr(long, name)) for name in scaled},
    )


def impossible(case: Case, like: Round) -> dict[str, Any]:
    """The row of a CSV file of a case that no job can run; ``like`` has its columns."""
    empty = dict.fromkeys(like.row, "-")
    return empty | asdict(case) | {"source": "not possible", "largest": case.largest}


@dataclass(frozen=True)
class Sizes:
    """What is run.

    Attributes
    ----------
    models : dict of str to int
        Parameters of models, the shortest first.
    short : int
        Coordinates of a shorter vector, to extrapolate with.
    parties : tuple of int
        Numbers of parties.
    paillier, others : int
        Coordinates of all parties that are run at most.
    checked : dict of str to tuple
        By protocol, parties and coordinates of the rounds of processes.
    controls : tuple of Case
        That are extrapolated and simulated.
    """

    models: Mapping[str, int]
    short: int
    parties: tuple[int, ...]
    paillier: int
    others: int
    checked: Mapping[str, tuple[int, int]]
    controls: tuple[Case, ...]

    def is_run(self, case: Case) -> bool:
        """Whether a case is run, and not extrapolated."""
        return case.parties * case.dim <= (self.paillier if case.protocol in PAILLIER else self.others)

    def base(self, protocol: str, parties: int, beyond: int) -> tuple[Case, Case]:
        """The two lengths from which longer vectors than ``beyond`` are extrapolated.

        Of Paillier, whose work is arithmetic, the longest that are run. Of the others the longest that is run
        and half of it: a coordinate takes longer if the vector does not fit into the caches.
        """
        lengths = [self.short, *self.models.values()]
        run = [n for n in lengths if n < beyond and self.is_run(Case(protocol, parties, n))]
        first, long = run[-2:]
        short = first if protocol in PAILLIER else long // 2
        return Case(protocol, parties, short), Case(protocol, parties, long)


FULL = Sizes(
    models={"5-layer CNN": 250_000, "ResNet-18": 11_000_000, "VGG-16": 138_000_000},
    short=25_000,
    parties=(2, 3, 5, 10, 20, 40),
    paillier=10_000_000,
    others=440_000_000,
    checked=dict.fromkeys((*PAILLIER, "secagg+"), (4, 250_000)),
    controls=(
        *(Case(name, 3, 1_000_000) for name in PAILLIER),
        *(Case(name, 3, 66_000_000) for name in OTHERS),
    ),
)
QUICK = Sizes(
    models={"5-layer CNN": 1_000, "ResNet-18": 4_000, "VGG-16": 20_000},
    short=200,
    parties=(3, 4),
    paillier=4_000,
    others=20_000,
    checked={},
    controls=(),
)


def measure(sizes: Sizes, protocol: str, parties: int) -> Sequence[Round | None]:
    """All models with one protocol and so many parties; none where there is no such job.

    Lengths that are not run are extrapolated.
    """
    found: list[Round | None] = []
    for dim in sizes.models.values():
        case = Case(protocol, parties, dim)
        if not case.is_possible:
            found.append(None)
        elif sizes.is_run(case):
            found.append(simulated(case))
        else:
            found.append(guessed(sizes, case))
    return found


def guessed(sizes: Sizes, case: Case) -> Round:
    """A case as it is extrapolated."""
    short, long = sizes.base(case.protocol, case.parties, case.dim)
    return extrapolated(simulated(short), simulated(long), case.dim)


def control(sizes: Sizes, case: Case) -> tuple[Round, Round]:
    """A length as it is extrapolated, and as it is simulated."""
    return guessed(sizes, case), simulated(case)
