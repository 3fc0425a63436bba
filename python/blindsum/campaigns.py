"""Campaigns: whole jobs in one process, in which everything goes wrong that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from blindsum import _native, checks
from blindsum.errors import ConfigError
from blindsum.spec import JobSpec

#: The most steps and the last seed of a campaign.
MOST = 2**53


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What happened in a campaign, counted.

    Attributes
    ----------
    steps : int
        Events, such as a frame that came, a task that ended, a machine that was started.
    episodes : int
        Episodes, each of which is one job from beginning to end.
    rounds : int
        Rounds with a result.
    results : int
        Results that parties were told.
    kills, cuts : int
        Machines that were killed; connections, and lines between servers, that broke.
    ended : int
        Sessions of parties that ended by themselves: a party gave up, another process took its place, or its
        program was stopped.
    rollbacks, restored : int
        Parties and servers that came back with records of an earlier time, and coordinators with a store
        of one.
    lies : int
        Frames, uploads and letters in which a liar said something else than its machine.
    shown : int
        Faults that were kept with what shows them.
    leases : int
        Leases of parties that ran out, or were lost.
    releases : int
        Results that the second and third server of ``mpc3`` recorded before they opened them.
    spoilt : int
        Rounds without a result, in episodes in which the only fault is a lying member.
    """

    steps: int
    episodes: int
    rounds: int
    results: int
    kills: int
    cuts: int
    ended: int
    rollbacks: int
    restored: int
    lies: int
    shown: int
    leases: int
    releases: int
    spoilt: int


def campaign(
    spec: JobSpec,
    *,
    steps: int = 100_000,
    seed: int = 0,
    kinds: Sequence[str] = (),
    progress: Callable[[int], object] | None = None,
) -> Tally:
    """Run jobs in which machines are killed, connections break, backups come back and members lie.

    The coordinator, every party and, in ``mpc3``, the two other servers are the same machines as over a
    network; time, disks and connections are simulated. Each job is one episode, drawn from its seed; the
    first has ``seed``, each later one the next number. The promises on sums, on what parties and servers say
    and on what they are told are checked all the time; a panic breaks one, too.

    Parameters
    ----------
    spec : JobSpec
        The job. An episode gives it four to seven parties (five to eight in ``pss-malicious``, and where the
        rule of ``mpc3`` is no sum), a few rounds and short vectors. Where the job leaves encoding,
        ``model_update`` and ``density`` at their defaults, these are drawn for each episode.
    steps : int
        After this many events no further episode begins.
    seed : int
        The seed of the first episode, 2^53 at most.
    kinds : sequence of str
        ``"calm"``, ``"storm"``, ``"rollback"``, ``"liar"``, ``"lying-server"``; all of them if empty.
    progress : callable
        Called with the steps so far, after each episode.

    Raises
    ------
    blindsum.ConfigError
        An argument that breaks a rule, or a job that cannot be made so small.
    blindsum.PromiseBroken
        A promise was broken; the error has the seed with which the same happens again.
    """
    checks.job_spec(spec)
    steps = checks.setting("steps", steps, 1, MOST)
    seed = checks.setting("seed", seed, 0, MOST)
    if isinstance(kinds, str):
        raise ConfigError("kinds", f"must be several names, as in [{kinds!r}]")
    return Tally(**dict(_native.campaign(spec._job, steps, seed, list(kinds), progress)))
