"""Who lost its place in a round, in words: who sat the round out is told apart from who was lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SITTING_OUT = frozenset({"sat_out", "not_accepted"})
"""The kinds of loss of parties that had no update by their own word."""


def lost_of(report: Mapping[str, Any]) -> dict[str, str]:
    """By name why parties lost their place, of the report of a round."""
    return {name: why for stage in report["stages"] for name, why in stage["dropped"].items()}


def stages_of(report: Mapping[str, Any]) -> dict[str, str]:
    """By name the stage in which parties lost their place."""
    return {name: stage["name"] for stage in report["stages"] for name in stage["dropped"]}


def causes_of(report: Mapping[str, Any]) -> dict[str, str]:
    """By name the kind of that; reports of earlier versions have none."""
    return {name: cause for stage in report["stages"] for name, cause in stage.get("causes", {}).items()}


def told_losses(lost: Mapping[str, str], causes: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """What happened to each party, its name, and why; those that were lost come first."""
    words = [("sat out" if causes.get(name) in SITTING_OUT else "lost", name, lost[name]) for name in lost]
    yield from sorted(words)
