"""Whether jobs with noise hide what they claim: canaries in real rounds, and noise that nobody knows.

    python -m experiments.privacy_audit [--quick] [--out FOLDER]

`privacy_audit_runs` has the rounds, `canaries` the bounds, `restarted` a job whose coordinator is replaced.
An honest run that is found out, or has less noise than it claims, ends the experiment with an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.rows import number
from blindsum.cli import console
from experiments import output
from experiments import privacy_audit_runs as runs
from experiments.privacy_audit_runs import Attack, Audit, Left

PROTOCOLS = ("secagg+", "fssa")
"""Sums of words of 2^b, and of whole numbers modulo a prime number."""
MULTIPLIERS = (0.5, 1.0, 2.0, 4.0)
WEAKER = 8
"""The noise of a weakened run is divided by this, its variance by the square."""


@dataclass(frozen=True)
class Sizes:
    """How much is run.

    Attributes
    ----------
    parties, groups : int
        Parties of audited jobs, and how often each is run.
    attacks : tuple of Attack
        The audits.
    protocols : tuple of str
        Whose noise is measured, with that of corrupt parties taken away.
    whole : tuple of str
        Whose noise is measured as a whole.
    lossy : int
        Parties of these jobs.
    dim, rounds : int
        Coordinates and rounds of these jobs.
    whole_dim : int
        Coordinates of jobs whose noise is measured as a whole.
    """

    parties: int
    groups: int
    attacks: tuple[Attack, ...]
    protocols: tuple[str, ...]
    whole: tuple[str, ...]
    lossy: int
    dim: int
    rounds: int
    whole_dim: int


def attacks(protocols: Sequence[str], multipliers: Sequence[float]) -> tuple[Attack, ...]:
    """Honest runs, runs with less noise, and runs in which all but one work together."""
    found = []
    for protocol in protocols:
        found += [Attack(protocol, multiplier) for multiplier in multipliers]
        found += [Attack(protocol, 2.0, releases=4)]
        found += [Attack(protocol, one, weaker=WEAKER) for one in multipliers if one >= 2]
        found += [Attack(protocol, 2.0, others_known=True)]
    return tuple(found)


FULL = Sizes(
    parties=20,
    groups=60,
    attacks=attacks(PROTOCOLS, MULTIPLIERS),
    protocols=("secagg", "secagg+", "fssa", "pss", "flashe"),
    whole=("paillier-ring", "paillier-broadcast"),
    lossy=20,
    dim=4000,
    rounds=5,
    whole_dim=300,
)
QUICK = Sizes(
    parties=10,
    groups=8,
    attacks=attacks(["fssa"], [1.0, 2.0]),
    protocols=("fssa",),
    whole=(),
    lossy=10,
    dim=200,
    rounds=2,
    whole_dim=10,
)


@dataclass(frozen=True)
class Found:
    """What came of all runs.

    Attributes
    ----------
    audits : list of Audit
        By attack.
    left : list of Left
        Noise that nobody knows, by protocol and stage.
    restarted : list of Left
        The same of jobs whose coordinator is replaced.
    known : list of Left
        The same where one party more than the job says works with the others.
    """

    audits: list[Audit]
    left: list[Left]
    restarted: list[Left]
    known: list[Left]


def run(sizes: Sizes) -> Found:
    """Run all.

    Raises
    ------
    ArithmeticError
        An honest run is found out, or has less noise than it claims.
    """
    found = Found([], [], [], [])
    steps = len(sizes.attacks) + len(sizes.protocols) + len(sizes.whole)
    with console.progress("runs", steps) as bar:
        for done, attack in enumerate(sizes.attacks):
            bar.update(done, f"canaries, {attack.protocol}")
            one = runs.audit(attack, sizes.parties, sizes.groups, seed=done + 1)
            if attack.is_honest and one.bound > one.epsilon:
                raise ArithmeticError(f"{attack}: epsilon is {one.bound} at least, and {one.epsilon} claimed")
            found.audits.append(one)
        for place, protocol in enumerate((*sizes.protocols, *sizes.whole)):
            bar.update(len(sizes.attacks) + place, f"variance, {protocol}")
            takes = protocol in sizes.protocols
            spec = runs.job(protocol, 1.0, sizes.lossy, sizes.dim if takes else sizes.whole_dim)
            found.left.extend(runs.losses(spec, sizes.rounds, 2 * place + 1, takes))
            if takes:
                found.known.extend(runs.losses(spec, sizes.rounds, 2 * place + 2, more=1))
                found.restarted.append(
                    runs.restarts(runs.job(protocol, 1.0, 10, sizes.dim, rounds=sizes.rounds))
                )
    # Seeds are fixed but in the second list: an error by chance there could not be repeated.
    for whole, least in ((found.left, runs.LEAST_P), (found.restarted, runs.LEAST_P**2)):
        for left in whole:
            if left.spread.p <= least:
                raise ArithmeticError(f"{left}: less noise than claimed")
    return found


def audit_rows(audits: Sequence[Audit]) -> list[dict[str, object]]:
    """The table of audits for machines."""
    return [
        {
            "protocol": one.attack.protocol,
            "multiplier": one.attack.multiplier,
            "releases": one.attack.releases,
            "weaker": one.attack.weaker,
            "known": "all others" if one.attack.others_known else "corrupt",
            "delta": runs.DELTA,
            "canaries": one.guesses.canaries,
            "guesses": one.guesses.made,
            "right": one.guesses.right,
            "bound": one.bound,
            "claim": one.epsilon,
            "claim_alone": "none" if one.epsilon_alone is None else one.epsilon_alone,
        }
        for one in audits
    ]


def left_rows(found: Found) -> list[dict[str, object]]:
    """The table of variances for machines."""
    kinds = (("claimed", found.left), ("restarted", found.restarted), ("one more corrupt", found.known))
    return [
        {
            "kind": kind,
            "protocol": one.protocol,
            "lost_in": one.event,
            "survivors": one.survivors,
            "known": one.known,
            "counted": one.counted,
            "numbers": one.spread.numbers,
            "ratio": one.spread.ratio,
            "p": one.spread.p,
        }
        for kind, whole in kinds
        for one in whole
    ]


def ran(attack: Attack) -> str:
    """What was run, in words."""
    if attack.others_known:
        return "all others work together"
    return "as claimed" if attack.weaker == 1 else f"noise divided by {attack.weaker}"


def audit_table(audits: Sequence[Audit]) -> str:
    """Bounds beside claims."""
    header = [
        "protocol",
        "z of the claim",
        "releases",
        "run",
        "right guesses",
        "ε at least",
        "ε claimed",
        "found out",
    ]
    lines = [
        [
            one.attack.protocol,
            f"{one.attack.multiplier:g}",
            str(one.attack.releases),
            ran(one.attack),
            f"{one.guesses.right} of {one.guesses.made}",
            f"{one.bound:.2f}",
            f"{one.epsilon:.2f}",
            "yes" if one.bound > one.epsilon else "no",
        ]
        for one in audits
    ]
    return output.table(header, lines)


def left_table(whole: Sequence[Left]) -> str:
    """Variances beside claims."""
    header = ["protocol", "lost in", "survivors", "noise known of", "variance / claimed", "p"]
    lines = [
        [
            one.protocol,
            one.event,
            str(one.survivors),
            str(one.known),
            f"{one.spread.ratio:.3f}",
            number(one.spread.p),
        ]
        for one in whole
    ]
    return output.table(header, lines)


def short(found: Found) -> str:
    """What the numbers say."""
    honest = [one for one in found.audits if one.attack.is_honest]
    weak = [one for one in found.audits if not one.attack.is_honest]
    caught = [one for one in weak if one.bound > one.epsilon]
    least = min(found.left, key=lambda one: one.spread.p)
    missed = sum(
        one.spread.p > runs.LEAST_P for one in found.known if one.survivors == min_survivors(found.known)
    )
    points = f"""
In {len(honest)} honest runs the lower bound of ε is below the claim, with claims from
{min(one.epsilon for one in honest):.2f} to {max(one.epsilon for one in honest):.2f} and bounds from
{min(one.bound for one in honest):.2f} to {max(one.bound for one in honest):.2f}.

{len(caught)} of {len(weak)} weakened runs are found out: their bound is above the claim.

Wherever parties are lost, the noise that nobody knows is not found to be less than the claim counts on, at a
level of {runs.LEAST_P:g}. The smallest p of {len(found.left)} is {number(least.spread.p)} ({least.protocol},
lost in: {least.event}).

If one party more works with the others than the job says, the variance of the fewest survivors is too
small, and {"the test finds it in all cases" if not missed else f"the test misses it in {missed} cases"}.
"""
    return "\n".join(["## In short", "", output.points(points)])


def min_survivors(whole: Sequence[Left]) -> int:
    """Of sums with the fewest updates."""
    return min(one.survivors for one in whole)


def canaries_part(found: Found, sizes: Sizes) -> str:
    """The audits."""
    guessed = found.audits[0].guesses
    against_all = [one.epsilon_alone for one in found.audits if one.attack.others_known]
    alone = " and ".join(dict.fromkeys(f"{one:.2f}" for one in against_all if one is not None))
    text = f"""
A canary is a party's update: the longest one, in a coordinate of its own, or 0, by a fair coin. Jobs of
{sizes.parties} parties are run until there are {guessed.canaries:,} canaries. As many parties are lost as
may be lost, and the corrupt ones among the survivors take their noise away: this is the least noise that
the claim counts on. The auditors then guess {guessed.made:,} coins, those of the highest and the lowest
numbers. That many was fixed before the run. From the right guesses follows an ε that the run has at least,
with a confidence of 95 % (Steinke, Nasr and Jagielski 2023), at δ = {runs.DELTA:g}.
"""
    weak = f"""
A bound from so few guesses is far below the claim of an honest run: the audit finds gross faults. So
weakened runs stand beside the honest ones. "Noise divided by {WEAKER}" is a job of a multiplier {WEAKER}
times smaller, held against the claim of the larger one. "All others work together" is the job of the claim,
and everybody else takes their noise away, not only the corrupt ones: `epsilon_alone` of such a job is
{alone}. With several releases a canary sends the same update in each of them.
"""
    return "\n\n".join(["## Canaries", output.filled(text), audit_table(found.audits), output.filled(weak)])


def variance_part(found: Found, sizes: Sizes) -> str:
    """The variances."""
    text = f"""
All parties send zeros, so that sums are noise. {sizes.lossy} parties, z = 1; as many as may be lost are
lost in one stage, others in each round. What the noise of a party was is known from the difference of two
sums, with it and without it: a simulated party draws the same noise of a seed and a round. The noise of
corrupt survivors is taken away. What is left is compared with z · growth · clip of the claim: p is the
chance of so small a variance, or a smaller one, if the variance is the one that is claimed (chi-square,
one-sided). With all survivors the ratio is above 1, since noise is sized for the fewest.
"""
    whole = """
In `paillier-…` a lost party makes the others begin again, with other noise. So nothing is taken away there,
and the variance is compared with that of the fewest survivors.
"""
    again = """
The coordinator is replaced by another one, which goes on from the store, twice for every sum: with half of
the updates, and after all of them where a stage follows. Parties are those of real jobs here, and their
noise is from the system's random numbers: it is compared with that of all the fewest survivors, and the
next run gives other numbers. The round that was under way ends without a sum, and its updates count as a
release.
"""
    more = """
One party more than the job says takes its noise away. Of the fewest survivors too little is left then, and
p says so.
"""
    return "\n\n".join(
        [
            "## Noise that nobody knows",
            output.filled(text),
            left_table(found.left),
            *([output.filled(whole)] if sizes.whole else []),
            "### After the coordinator was replaced",
            output.filled(again),
            left_table(found.restarted),
            "### One corrupt party too many",
            output.filled(more),
            left_table(found.known),
        ]
    )


def plot(found: Found, path: Path) -> None:
    """Draw bounds against claims, and variances against what is claimed."""
    drawn, axes = output.figure(2)
    kinds = (
        ("as claimed", [one for one in found.audits if one.attack.is_honest], "o"),
        (f"noise divided by {WEAKER}", [one for one in found.audits if one.attack.weaker > 1], "s"),
        ("all others work together", [one for one in found.audits if one.attack.others_known], "^"),
    )
    most = max(one.epsilon for one in found.audits)
    axes[0].plot([0, most], [0, most], color="black", linewidth=1, label="bound = claim")
    for name, audits, marker in kinds:
        axes[0].plot([one.epsilon for one in audits], [one.bound for one in audits], marker, label=name)
    axes[0].set_xlabel("ε claimed")
    axes[0].set_ylabel("ε at least, 95 %")
    axes[0].legend(fontsize="small")
    for name, whole, marker in (
        ("as claimed", [*found.left, *found.restarted], "o"),
        ("one corrupt party too many", found.known, "s"),
    ):
        shares = [one.survivors - one.known for one in whole]
        axes[1].plot(shares, [one.spread.ratio for one in whole], marker, alpha=0.6, label=name)
    axes[1].axhline(1, color="black", linewidth=1)
    axes[1].set_xlabel("shares of noise that nobody knows")
    axes[1].set_ylabel("variance / claimed")
    axes[1].legend(fontsize="small")
    output.save(drawn, path)


def main(words: Sequence[str] | None = None) -> None:
    """Audit, and write."""
    options = output.options(words, "privacy_audit", "Canaries in jobs with noise, and variances of noise.")
    sizes = QUICK if options.quick else FULL
    found = run(sizes)
    output.write_csv(options, "privacy-audit.csv", audit_rows(found.audits))
    output.write_csv(options, "privacy-variances.csv", left_rows(found))
    plot(found, options.out / "privacy-audit.svg")
    picture = "![bounds against claims, and variances](privacy-audit.svg)"
    parts = [short(found), picture, canaries_part(found, sizes), variance_part(found, sizes)]
    output.write_page(
        options, "privacy-audit.md", "Audits of jobs with noise", parts, timed=False, seeded=False
    )


if __name__ == "__main__":
    main()
