"""Degree and threshold of the aggregation graph, with exact tails (Bell20 section 4).

All probabilities are ratios of integers; nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import comb, perm

from .job import Job

SECURITY_BITS, CORRECTNESS_BITS = 40, 20
CHEAP_NEIGHBOURS, MAX_NEIGHBOURS = 16, 2048


class ParameterError(Exception):
    """No parameters fit; the argument is the field of the job to change."""


@dataclass(frozen=True)
class Parameters:
    """Neighbours of a party and shares that rebuild a secret."""

    neighbours: int
    threshold: int


def most_but_rarely(population: int, marked: int, draws: int, unions: int, bits: int) -> int:
    """Smallest x with ``unions`` Pr[X > x] < 2^-bits; X counts marked ones among the draws."""
    marked = min(marked, population)
    ways = [comb(marked, x) * comb(population - marked, draws - x) for x in range(draws + 1)]
    more_than = [0, *accumulate(reversed(ways[1:]))][::-1]
    limit = comb(population, draws)
    return next(x for x in range(draws + 1) if unions * more_than[x] << bits < limit)


def graph_is_cut(n: int, lost: int, neighbours: int) -> bool:
    """Whether two runs of ``neighbours // 2`` lost parties are likelier than 2^-40."""
    run = 2 * (neighbours // 2)
    if neighbours == n - 1 or run > lost:
        return False
    # C(n - run, lost - run) / C(n, lost) is the chance that `run` given parties are all lost.
    pairs = n * (n - 1) // 2
    return pairs * perm(lost, run) << SECURITY_BITS >= perm(n, run)


class Finder:
    """The bounds for a roster of ``n`` parties."""

    def __init__(self, job: Job, n: int, *, complete: bool) -> None:
        self.job, self.n, self.complete = job, n, complete
        self.corrupt = job.corrupt_parties()
        self.dropouts = job.losses_among(n)

    def least_threshold(self, neighbours: int) -> int:
        """Smallest threshold that is safe."""
        n, corrupt, holders = self.n, self.corrupt, neighbours + 1
        honest, half = max(n - corrupt, 1), neighbours // 2
        holding = most_but_rarely(n - 1, corrupt, neighbours, honest, SECURITY_BITS)
        if not self.job.is_active():
            return holding + 1
        if self.complete:
            return max((holders + holding) // 2 + 1, 2 * holders // 3 + 1)
        if neighbours == n - 1:
            return (holders + holding) // 2 + 1
        witnessing = most_but_rarely(n, corrupt, holders, 1, SECURITY_BITS)
        in_a_run = most_but_rarely(n - 1, corrupt, half, 2 * honest, SECURITY_BITS)
        quorum = (holders + max(holding, witnessing)) // 2 + 1
        return max(quorum, half + 2 + in_a_run + neighbours % 2)

    def most_threshold(self, neighbours: int) -> int:
        """Largest threshold that dropouts leave reachable."""
        n, holders = self.n, neighbours + 1

        def lost(dropped: int) -> int:
            return most_but_rarely(n - 1, dropped, neighbours, n, CORRECTNESS_BITS)

        # A survivor holds a share of its own secret, a lost party does not.
        reachable = [holders - lost(self.dropouts)]
        if self.dropouts:
            reachable.append(neighbours - lost(self.dropouts - 1))
        if self.job.is_active():
            witnesses = most_but_rarely(n, self.dropouts, holders, 1, CORRECTNESS_BITS)
            reachable.append(holders - witnesses)
        return min(reachable)

    def check(self, neighbours: int) -> Parameters:
        """Meet all bounds with this many neighbours."""
        holders = neighbours + 1
        if self.job.is_active() and neighbours < min(CHEAP_NEIGHBOURS, self.n - 1):
            raise ParameterError("neighbours")
        if self.is_cut(neighbours):
            raise ParameterError("neighbours")
        least, most = self.least_threshold(neighbours), self.most_threshold(neighbours)
        threshold = self.job.threshold
        if not threshold:
            usual = (2 * holders // 3 if self.job.is_active() else holders // 2) + 1
            threshold = min(max(usual, least), max(most, least))
        if not least <= threshold <= holders:
            raise ParameterError("threshold")
        if threshold > most:
            raise ParameterError("threshold" if self.job.threshold else "dropout")
        return Parameters(neighbours, threshold)

    def find(self) -> Parameters:
        """The given number of neighbours, or the smallest that meets all bounds."""
        if self.n < 2:
            raise ParameterError("parties")
        asked = self.job.neighbours
        if self.n == self.job.parties and (asked >= self.n or asked * self.n % 2):
            # The full roster must take what the job asks for as it is.
            raise ParameterError("neighbours")
        if self.complete:
            return self.check(self.n - 1)
        if asked:
            return self.check(self.drawable(asked))
        sparse = range(CHEAP_NEIGHBOURS, min(MAX_NEIGHBOURS, self.n - 1))
        enough = (neighbours for neighbours in sparse if self.suffices(neighbours))
        return self.check(next(enough, self.n - 1))

    def drawable(self, neighbours: int) -> int:
        """The degree that stands for this one: odd ones need even rosters, small rosters have fewer."""
        return min(neighbours + neighbours * self.n % 2, self.n - 1)

    def suffices(self, neighbours: int) -> bool:
        """Whether some threshold, or the given one, meets all bounds."""
        if neighbours * self.n % 2 or self.is_cut(neighbours):
            return False
        least, most = self.least_threshold(neighbours), self.most_threshold(neighbours)
        return least <= (self.job.threshold or least) <= most

    def is_cut(self, neighbours: int) -> bool:
        """Whether losses at random places may cut the graph."""
        return graph_is_cut(self.n, min(self.corrupt + self.dropouts, self.n), neighbours)


def find(job: Job, n: int, *, complete: bool) -> Parameters:
    """Parameters for a roster of ``n`` parties; ``complete`` for secagg."""
    return Finder(job, n, complete=complete).find()
