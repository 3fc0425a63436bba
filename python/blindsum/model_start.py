"""What a coordinator starts from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelStart:
    """The model that a coordinator starts from.

    Attributes
    ----------
    kind : str
        ``"zeros"``, ``"given"`` (by ``model``), ``"awaited"`` (a party gives it, and has not yet),
        ``"party"`` (a party gave it), ``"store"`` (the job goes on), ``"parties"`` (the job goes on, and
        only its parties have the model), or ``"none"`` (the job keeps no model).
    version : int
        Its version: the number of sums that are in it.
    hash : str
        Its hash, 64 hexadecimal digits, as in a status; empty for ``"awaited"``, ``"parties"`` and
        ``"none"``.
    party : str
        The party that gave the first model; empty where none did.
    """

    kind: str
    version: int
    hash: str
    party: str = ""
