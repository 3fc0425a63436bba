"""Partitions: which party has which examples.

Every rule takes the label (or the user) of each example, the number of parties and a seed. It gives one
array of indices a party. Every example is in exactly one of them. The same arguments give the same arrays.
The order of the indices in an array has no meaning.

>>> import numpy as np
>>> labels = np.repeat([0, 1, 2], 100)
>>> parts = dirichlet(labels, 4, alpha=0.5, seed=1)
>>> sum(map(len, parts))
300
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blindsum import checks
from blindsum.errors import ConfigError

Indices = NDArray[np.int64]
Parts = list[Indices]
Seed = int | Sequence[int] | np.random.Generator

MAX_TRIES = 100
"""Draws of :func:`dirichlet` until no party has too few examples."""

FORMS = ("iid", "dirichlet:ALPHA", "skewed:SHARE", "shards:COUNT", "by-user")
"""What :func:`partition` reads."""


def iid(labels: ArrayLike, parties: int, *, seed: Seed, minimum: int = 1) -> Parts:
    """Deal the examples at random; sizes differ by one at most.

    Parameters
    ----------
    labels
        The label of each example, shape ``(n,)``. Only their number matters.
    parties
        How many parties there are.
    seed
        What ``numpy.random.default_rng`` takes.
    minimum
        Examples of every party, at least.

    Returns
    -------
    list of ndarray
        The indices of each party.

    Raises
    ------
    blindsum.ConfigError
        An argument is wrong, or a party would have fewer than ``minimum`` examples.
    """
    codes, _ = _coded("labels", labels)
    _check_sizes(len(codes), parties, minimum)
    return np.array_split(_generator(seed).permutation(len(codes)), parties)


def dirichlet(labels: ArrayLike, parties: int, *, alpha: float, seed: Seed, minimum: int = 1) -> Parts:
    """Give each party a share of each label that is drawn from a Dirichlet distribution.

    The whole draw is repeated while a party has fewer than ``minimum`` examples, :data:`MAX_TRIES` times at
    most.

    Parameters
    ----------
    labels
        The label of each example, shape ``(n,)``.
    parties
        How many parties there are.
    alpha
        The concentration: the smaller, the less alike the parties' data. From 0.001 to 1,000,000.
    seed
        What ``numpy.random.default_rng`` takes.
    minimum
        Examples of every party, at least.

    Returns
    -------
    list of ndarray
        The indices of each party.

    Raises
    ------
    blindsum.ConfigError
        An argument is wrong, or in every draw a party had fewer than ``minimum`` examples.
    """
    codes, names = _coded("labels", labels)
    _check_sizes(len(codes), parties, minimum)
    alpha = _number("alpha", alpha, 1e-3, 1e6)
    rng = _generator(seed)
    by_label = _grouped(codes, len(names))
    most = 0
    for _ in range(MAX_TRIES):
        places, owners = [], []
        for own in by_label:
            places.append(rng.permutation(own))
            ends = np.cumsum(rng.dirichlet(np.full(parties, alpha)))[:-1] * len(own)
            bounds = np.rint(np.concatenate([[0.0], ends, [len(own)]])).astype(np.int64)
            sizes = bounds[1:] - bounds[:-1]
            owners.append(np.repeat(np.arange(parties), sizes))
        owner = np.concatenate(owners)
        least = int(np.bincount(owner, minlength=parties).min())
        if least >= minimum:
            everything = np.concatenate(places)
            return [everything[part] for part in _grouped(owner, parties)]
        most = max(most, least)
    rule = (
        f"in {MAX_TRIES} draws with alpha = {alpha:g} some party of {parties} always had {most} examples or "
        f"fewer, and minimum = {minimum}: take a larger alpha, fewer parties or a smaller minimum"
    )
    raise ConfigError("minimum", rule)


def skewed(labels: ArrayLike, parties: int, *, share: float, seed: Seed, minimum: int = 1) -> Parts:
    """Give each party a share of its data in labels of its own, and fill up with others at random.

    All parties have equally many examples (sizes differ by one at most). With at least as many parties as
    labels each party has one label of its own, in turns. With fewer parties each has several, in turns as
    well, and the share is that of all of them together. Parties come in their order: if a party's own labels
    have fewer examples left than its share, it gets all of these, and is filled up. This is the rule of the
    thesis of mpc3 (4.5.2).

    Parameters
    ----------
    labels
        The label of each example, shape ``(n,)``.
    parties
        How many parties there are.
    share
        Of a party's examples, from 0 to 1.
    seed
        What ``numpy.random.default_rng`` takes.
    minimum
        Examples of every party, at least.

    Returns
    -------
    list of ndarray
        The indices of each party.

    Raises
    ------
    blindsum.ConfigError
        An argument is wrong, or a party would have fewer than ``minimum`` examples.
    """
    codes, names = _coded("labels", labels)
    _check_sizes(len(codes), parties, minimum)
    share = _number("share", share, 0, 1)
    rng = _generator(seed)
    groups = min(parties, len(names))
    pools = [rng.permutation(own) for own in _grouped(codes % groups, groups)]
    size, more = divmod(len(codes), parties)
    sizes = [size + (party < more) for party in range(parties)]
    own: Parts = []
    for party in range(parties):
        # The product may lie above the whole number that is meant by the last bit.
        quota = math.ceil(share * sizes[party] - 1e-9)
        pool = pools[party % groups]
        own.append(pool[:quota])
        pools[party % groups] = pool[quota:]
    rest = rng.permutation(np.concatenate(pools))
    ends = np.cumsum([count - len(part) for count, part in zip(sizes, own, strict=True)])
    return [np.concatenate(both) for both in zip(own, np.split(rest, ends[:-1]), strict=True)]


def shards(labels: ArrayLike, parties: int, *, count: int = 2, seed: Seed, minimum: int = 1) -> Parts:
    """Sort by label, cut into equal shards, and deal ``count`` of them to each party.

    A party then has few labels. This is the rule of the first paper on federated averaging (McMahan et al.,
    2017).

    Parameters
    ----------
    labels
        The label of each example, shape ``(n,)``.
    parties
        How many parties there are.
    count
        Shards of a party.
    seed
        What ``numpy.random.default_rng`` takes.
    minimum
        Examples of every party, at least.

    Returns
    -------
    list of ndarray
        The indices of each party.

    Raises
    ------
    blindsum.ConfigError
        An argument is wrong, there are more shards than examples, or a party has fewer than ``minimum``
        examples.
    """
    codes, _ = _coded("labels", labels)
    _check_sizes(len(codes), parties, minimum)
    count = checks.setting("count", count, 1, len(codes))
    if parties * count > len(codes):
        rule = (
            f"{parties} parties × {count} shards = {parties * count} must be at most the {len(codes)} "
            "examples: take fewer shards or fewer parties"
        )
        raise ConfigError("count", rule)
    rng = _generator(seed)
    mixed = rng.permutation(len(codes))
    ordered = mixed[np.argsort(codes[mixed], kind="stable")]
    owners = np.repeat(np.arange(parties), count)[rng.permutation(parties * count)]
    size, more = divmod(len(codes), len(owners))
    sizes = np.full(len(owners), size)
    sizes[:more] += 1
    parts = [ordered[part] for part in _grouped(np.repeat(owners, sizes), parties)]
    _check_least(parts, minimum, "take fewer parties, other shards or a smaller minimum")
    return parts


def by_user(users: ArrayLike, parties: int | None = None, *, seed: Seed, minimum: int = 1) -> Parts:
    """Give all examples of a user to one party.

    Parties have equally many users (numbers differ by one at most).

    Parameters
    ----------
    users
        The user of each example, shape ``(n,)``.
    parties
        How many parties there are; ``None`` for one for each user.
    seed
        What ``numpy.random.default_rng`` takes.
    minimum
        Examples of every party, at least.

    Returns
    -------
    list of ndarray
        The indices of each party.

    Raises
    ------
    blindsum.ConfigError
        An argument is wrong, there are more parties than users, or a party has fewer than ``minimum``
        examples.
    """
    codes, names = _coded("users", users)
    if parties is None:
        parties = len(names)
    _check_sizes(len(codes), parties, minimum)
    if parties > len(names):
        raise ConfigError("parties", f"{parties} must be at most the {len(names)} users: take fewer parties")
    owners = np.empty(len(names), dtype=np.int64)
    owners[_generator(seed).permutation(len(names))] = np.arange(len(names)) % parties
    parts = _grouped(owners[codes], parties)
    _check_least(parts, minimum, "take fewer parties or a smaller minimum")
    return parts


def partition(
    form: str,
    labels: ArrayLike,
    parties: int | None,
    *,
    seed: Seed,
    users: ArrayLike | None = None,
    minimum: int = 1,
) -> Parts:
    """Make the partition that a text names: one of :data:`FORMS`, e.g. ``dirichlet:0.5``.

    Parameters
    ----------
    form
        The rule, and behind a colon its number. ``shards`` alone means ``shards:2``.
    labels
        The label of each example, shape ``(n,)``.
    parties
        How many parties there are; with ``by-user`` ``None`` means one for each user.
    seed
        What ``numpy.random.default_rng`` takes.
    users
        The user of each example where the data have users; ``by-user`` needs it.
    minimum
        Examples of every party, at least.

    Returns
    -------
    list of ndarray
        The indices of each party.

    Raises
    ------
    blindsum.ConfigError
        There is no such rule, or it does not fit the data.
    """
    if parties is None and form != "by-user":
        raise ConfigError("parties", f"must be given for {form!r}: only by-user knows how many there are")
    name, colon, text = form.partition(":")
    rest: dict[str, Any] = {"seed": seed, "minimum": minimum}
    if name in _NUMBERS and (colon or name == "shards"):
        field, rule = _NUMBERS[name]
        if colon:
            rest[field] = _read(form, text, whole=name == "shards")
        try:
            return rule(labels, parties, **rest)
        except ConfigError as error:
            if error.field != field:
                raise
            raise ConfigError("partition", f"{form!r} {field}: {error.rule}") from error
    if form == "iid":
        return iid(labels, parties, **rest)  # type: ignore[arg-type]
    if form != "by-user":
        raise ConfigError("partition", f"{form!r} must be one of {', '.join(FORMS)}")
    if users is None:
        others = ", ".join(one for one in FORMS if one != form)
        raise ConfigError("partition", f"'by-user' needs data with users, and these have none: take {others}")
    return by_user(users, parties, **rest)


_NUMBERS: dict[str, tuple[str, Callable[..., Parts]]] = {
    "dirichlet": ("alpha", dirichlet),
    "skewed": ("share", skewed),
    "shards": ("count", shards),
}
"""For each rule with a number the name of that."""


@dataclass(frozen=True)
class PartyData:
    """The data of one party, in numbers.

    Attributes
    ----------
    party : int
        From 0 on.
    examples : int
        How many it has.
    labels : int
        How many labels occur in them.
    majority : int or str or None
        The label that occurs most; ``None`` where the party has no example.
    share : float
        Its share of the party's examples; 0 where there are none.
    """

    party: int
    examples: int
    labels: int
    majority: int | str | None
    share: float


def describe(labels: ArrayLike, parts: Sequence[ArrayLike]) -> list[PartyData]:
    """Count what each party has.

    Raises
    ------
    blindsum.ConfigError
        ``labels`` or ``parts`` are no labels, or no indices into them.
    """
    names, table = label_counts(labels, parts)
    found = []
    for party, counts in enumerate(table):
        total, first = int(counts.sum()), int(counts.argmax())
        majority = names[first].item() if total else None
        share = counts[first] / total if total else 0.0
        found.append(PartyData(party, total, int((counts > 0).sum()), majority, float(share)))
    return found


def label_counts(labels: ArrayLike, parts: Sequence[ArrayLike]) -> tuple[NDArray[Any], Indices]:
    """Count each label at each party.

    Returns
    -------
    names : ndarray
        The labels that occur, sorted, shape ``(l,)``.
    counts : ndarray
        Shape ``(parties, l)``.

    Raises
    ------
    blindsum.ConfigError
        ``labels`` or ``parts`` are no labels, or no indices into them.
    """
    codes, names = _coded("labels", labels)
    counts = np.zeros((len(parts), len(names)), dtype=np.int64)
    for party, part in enumerate(parts):
        place = np.asarray(part)
        if place.size and (place.dtype.kind not in "iu" or place.min() < 0 or place.max() >= len(codes)):
            raise ConfigError(f"parts[{party}]", f"must be indices from 0 to {len(codes) - 1}")
        counts[party] = np.bincount(codes[place.astype(np.int64)], minlength=len(names))
    return names, counts


def _coded(field: str, values: ArrayLike) -> tuple[Indices, NDArray[Any]]:
    """Each value's place among the different ones, and these, sorted."""
    found = np.asarray(values)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "biuUS":
        rule = (
            f"must be whole numbers or texts of shape (n,), n >= 1, not {found.dtype} of shape {found.shape}"
        )
        raise ConfigError(field, f"{rule}: give one for each example")
    names, codes = np.unique(found, return_inverse=True)
    return codes.astype(np.int64, copy=False), names


def _grouped(owners: Indices, count: int) -> Parts:
    """The places of each owner, in their order."""
    ends = np.cumsum(np.bincount(owners, minlength=count))
    return np.split(np.argsort(owners, kind="stable"), ends[:-1])


def _generator(seed: Seed) -> np.random.Generator:
    """The generator of a seed. ``None`` would mean another one each time."""
    try:
        if seed is not None:
            return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "seed", f"{seed!r} is none that numpy takes ({error}): give a number from 0 on"
        ) from error
    raise ConfigError("seed", "must be given, or the partition would be another one each time: give a number")


def _check_sizes(examples: int, parties: int, minimum: int) -> None:
    checks.setting("parties", parties, 1, checks.PARTIES)
    checks.setting("minimum", minimum, 0, 2**63 - 1)
    if parties * minimum > examples:
        rule = (
            f"{parties} parties × minimum = {minimum} must be at most the {examples} examples: "
            "take fewer parties or a smaller minimum"
        )
        raise ConfigError("parties", rule)


def _check_least(parts: Parts, minimum: int, advice: str) -> None:
    least = min(map(len, parts))
    if least < minimum:
        raise ConfigError(
            "minimum", f"the smallest party has {least} examples, and minimum = {minimum}: {advice}"
        )


def _number(field: str, value: object, least: float, most: float) -> float:
    number = checks.finite(field, value)
    if not least <= number <= most:
        raise ConfigError(field, f"{value!r} must be a number from {least:g} to {most:g}")
    return number


def _read(form: str, text: str, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError as error:
        kind = "a whole number" if whole else "a number"
        raise ConfigError("partition", f"{form!r} must have {kind} behind the colon") from error
