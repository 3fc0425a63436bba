"""Cohorts with which a node has trained a model: it gives updates of one model to one cohort alone.

Two sums of updates of one model, one with a node and one without it, tell that node's update by their
difference, where training gives the same again. So a node that has given an update of a model refuses
another one beside other nodes. A round that was lost does not count: strategies send its model again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from blindsum.flower import remembered
from blindsum.flower.refusals import Refusal
from blindsum.flower.settings import REPEATS

FILE = "trained"


class Cohorts:
    """The cohorts of one node.

    Parameters
    ----------
    folder
        The node's folder (``blindsum-state``).
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def enter(self, model: str, parties: Iterable[str]) -> None:
        """Remember that this node gives an update of a model beside these parties.

        Parameters
        ----------
        model
            From :func:`blindsum.flower.measured.model_hash`.
        parties
            All parties of the round.

        Raises
        ------
        blindsum.ConfigError
            It has given one beside others; ``field`` is ``"blindsum-policy-repeats"``.
        blindsum.StoreError
            The folder cannot be written.
        """
        line = line_of(model, parties)
        others = list[str]()

        def change(known: list[str]) -> list[str]:
            others.extend(one for one in known if one.startswith(f"{model} ") and one != line)
            return known if others else [*known, line]

        remembered.changed(self._folder, FILE, change)
        if others:
            raise Refusal(
                REPEATS,
                "is not true, and this node has given an update of the same model beside other nodes: the "
                "difference of the two sums could be one node's update. Start from another model, sample the "
                "same nodes, or allow it in --node-config of the SuperNode",
            )

    def lost(self, model: str, parties: Iterable[str]) -> None:
        """Forget the latest such update: its round came to nothing."""
        self.forget(line_of(model, parties))

    def forget(self, line: str) -> None:
        """The same, of a :func:`line_of` model and parties."""

        def change(known: list[str]) -> list[str]:
            for place in reversed(range(len(known))):
                if known[place] == line:
                    return known[:place] + known[place + 1 :]
            return known

        remembered.changed(self._folder, FILE, change)


def line_of(model: str, parties: Iterable[str]) -> str:
    """A model and a cohort in one line. Names of parties have no spaces."""
    return f"{model} {hashlib.sha256(' '.join(sorted(parties)).encode()).hexdigest()}"
