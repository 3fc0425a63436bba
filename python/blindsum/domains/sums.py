"""What a domain hands in: its learners' updates and weights, added up.

With updates u_i and weights w_i, whose sum is W, a domain hands in the mean ``sum(w_i * u_i) / W``. Numbers
are added as float64. Integers are added exactly, whatever their size: where 64 bits could overflow, in four
parts of 16 bits each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum import checks
from blindsum.arrays import IntegerVector, Vector, as_integers, as_vector, is_mapping
from blindsum.domains.peers import Addable
from blindsum.errors import ConfigError, DomainInputError, InputError
from blindsum.options import Integers
from blindsum.spec import JobSpec
from blindsum.trees import Entry, entries, float_entries

LARGEST_WEIGHT = 2**32 - 1
PARTS, PART_BITS = 4, 16
COMBINED = ("mean", "sum")


@dataclass(frozen=True)
class Rules:
    """How a domain counts in its job.

    Attributes
    ----------
    spec : JobSpec
        The job.
    combine : str
        ``"mean"`` or, for integers, ``"sum"``.
    counts_as : int or None
        The domain's weight in the job; ``None`` is the sum of its learners' weights, or 1 with ``"sum"``.
    """

    spec: JobSpec
    combine: str
    counts_as: int | None

    def check(self) -> None:
        """Refuse rules that the job cannot keep.

        Raises
        ------
        blindsum.ConfigError
            ``field`` is ``combine`` or ``counts_as``.
        """
        if self.combine not in COMBINED:
            raise ConfigError("combine", f"{self.combine!r} must be one of {', '.join(COMBINED)}")
        if self.combine == "sum" and self.bits is None:
            name = self.spec.encoding.name
            rule = f"'sum' is for jobs of integers; this one's encoding is {name!r}, whose results are means"
            raise ConfigError("combine", rule)
        if self.counts_as is not None:
            checks.setting("counts_as", self.counts_as, 1, self.spec.max_weight)

    @property
    def bits(self) -> int | None:
        """Bits of the job's integers; ``None`` where its updates are numbers."""
        encoding = self.spec.encoding
        return encoding.bits if isinstance(encoding, Integers) else None


@dataclass(frozen=True)
class Own:
    """What one learner adds: its update, and what all must know before they add."""

    vector: Vector | IntegerVector
    weight: int

    @classmethod
    def checked(cls, rules: Rules, learner: int, update: object, weight: object) -> Own:
        """An update and its weight, as far as one learner can check them.

        Raises
        ------
        blindsum.DomainInputError
            They do not fit the job.
        """
        whole = checks.count(weight)
        if whole is None or not 0 <= whole <= LARGEST_WEIGHT:
            rule = (
                f"{weight!r} must be a whole number from 0 to {LARGEST_WEIGHT}; give the number of examples, "
                "as len(data)"
            )
            raise DomainInputError(learner, "weight", rule)
        try:
            vector = _vector(rules, update)
        except InputError as error:
            raise DomainInputError.of(learner, "update", error) from None
        if rules.bits is None:
            _check_finite(vector, learner)
        return cls(vector, whole)

    def said(self) -> dict[str, int]:
        """What the others hear of it before they add."""
        largest = int(self.vector.max(initial=0)) if self.vector.dtype.kind == "u" else 0
        return {"weight": self.weight, "largest": largest}

    def addend(self, parts: int) -> Addable:
        """What this learner adds to the sum: weight times update."""
        if self.vector.dtype.kind == "f":
            # What is too large is refused once it is added up.
            with np.errstate(over="ignore"):
                return self.vector.astype(np.float64) * self.weight
        if parts == 1:
            return self.vector.astype(np.int64) * np.int64(self.weight)
        wide = self.vector.astype(np.uint64)
        cut = [(wide >> np.uint64(PART_BITS * part)) & np.uint64(2**PART_BITS - 1) for part in range(parts)]
        return np.stack(cut).astype(np.int64) * np.int64(self.weight)


@dataclass(frozen=True)
class Whole:
    """What all learners add up together, known before they do.

    Attributes
    ----------
    total : int
        The sum of their weights.
    weight : int
        The weight that the domain has in the job.
    parts : int
        In how many parts integers are added.
    """

    total: int
    weight: int
    parts: int

    @classmethod
    def of(cls, rules: Rules, said: Sequence[Mapping[str, int]]) -> Whole:
        """From what every learner said.

        Raises
        ------
        blindsum.DomainInputError
            A weight that the job cannot have.
        """
        weights = [one["weight"] for one in said]
        total, most = sum(weights), rules.spec.max_weight
        shown = f"{' + '.join(map(str, weights))} = {total}"
        if total < 1:
            raise DomainInputError(
                None, "weight", f"the sum of the learners' weights {shown} must be at least 1"
            )
        weight = rules.counts_as or (1 if rules.combine == "sum" else total)
        if weight > most:
            rule = (
                f"the sum of the learners' weights {shown} must be at most the job's max_weight = {most}; "
                f"set max_weight = {weight} or more in the job, or give the domain a weight of its own: "
                "join_domain(counts_as=1)"
            )
            raise DomainInputError(None, "weight", rule)
        bound = sum(one["weight"] * one["largest"] for one in said)
        return cls(total, weight, 1 if bound < 2**63 else PARTS)

    def handed_in(self, rules: Rules, added: Addable) -> NDArray[Any]:
        """The update of the domain.

        Raises
        ------
        blindsum.DomainInputError
            A sum that float64 or the job's integers cannot hold, or a mean that is no integer.
        """
        bits = rules.bits
        if bits is None:
            mean: NDArray[np.float64] = added / self.total
            _check_finite(mean, None)
            return mean
        sums = added if self.parts == 1 else _joined(added)
        if rules.combine == "mean":
            rest = sums % self.total
            if rest.any():
                index = int(np.argmax(rest != 0))
                rule = (
                    f"coordinate {index}: the mean {sums[index]} / {self.total} of the learners' integers "
                    "must be an integer; join_domain(combine='sum') submits their sum"
                )
                raise DomainInputError(None, "update", rule, index)
            sums = sums // self.total
        if (large := sums > 2**bits - 1).any():
            index = int(np.argmax(large))
            rule = (
                f"coordinate {index}: the {rules.combine} {sums[index]} of the learners' integers must be "
                f"at most 2**{bits} - 1; give the job more bits"
            )
            raise DomainInputError(None, "update", rule, index)
        return sums.astype(np.uint64)


def _check_finite(vector: NDArray[Any], learner: int | None) -> None:
    finite = np.isfinite(vector)
    if not finite.all():
        index = int(np.argmin(finite))
        rule = f"coordinate {index} is {vector[index]}, and must be a finite number"
        raise DomainInputError(learner, "update", rule, index)


def _joined(added: Addable) -> NDArray[np.object_]:
    """Sums of any size from the sums of their parts."""
    whole = np.zeros(added.shape[1], dtype=object)
    for part, values in enumerate(added):
        whole += values.astype(object) * 2 ** (PART_BITS * part)
    return whole


def _vector(rules: Rules, update: object) -> Vector | IntegerVector:
    """An update as a flat vector: an array, or several in a list or a mapping, one after the other.

    Of several arrays of floats those of integers are left out or refused as :func:`blindsum.flatten` does.
    """
    dim, bits = rules.spec.dim, rules.bits
    arrays = _arrays(update)
    if arrays is None:
        return as_vector(update, dim) if bits is None else as_integers(update, dim, bits)
    if bits is None:
        return as_vector(np.concatenate([vector for _, vector in float_entries(update)]), dim)
    whole = [as_integers(entry.array, None, bits, f"entry {entry.name!r}") for entry in arrays]
    return as_integers(np.concatenate(whole), dim, bits)


def _arrays(update: object) -> list[Entry] | None:
    """The arrays of a tree of arrays with their names; ``None`` where it is something else."""
    if hasattr(update, "__array__") or not (isinstance(update, list | tuple | deque) or is_mapping(update)):
        return None
    arrays = list(entries(update))
    return arrays if any(np.ndim(entry.array) > 0 for entry in arrays) else None
