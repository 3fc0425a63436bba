"""What operators are shown of a job, in lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from blindsum.losses import causes_of, lost_of, told_losses
from blindsum.metrics_text import metrics_text, standing_lines

MAX_NAMES = 8
"""Names of a list; how many more there are is said."""


def summary(job: Mapping[str, Any]) -> str:
    """One job in a line."""
    of = f" of {job['rounds']}" if job["rounds"] else ""
    return (
        f"job {job['job']} ({job['protocol']}): {doing(job)}; {job['rounds_done']}{of} rounds done, "
        f"{counted(len(job['connected']), 'party', 'parties')} connected"
    )


def counted(number: int, one: str, many: str) -> str:
    """A number of things."""
    return f"{number} {one if number == 1 else many}"


def doing(job: Mapping[str, Any]) -> str:
    """What a job does now."""
    if job["state"] != "running":
        return str(job["state"])
    latest = job["round"]
    match job["stage"]:
        case "waiting":
            if job["hosted"]:
                return job["held"] or "waits for its host to begin a round"
            return job["held"] or f"waits for parties, at least {job['min_parties']}"
        case "offered":
            return f"round {latest['number']} is offered{_since(job)}"
        case stage:
            return f"round {latest['number']}, stage {stage}{_since(job)}"


def _since(job: Mapping[str, Any]) -> str:
    if job["stage_since_ms"] is None:
        return ""
    return f" for {max(0.0, time.time() - job['stage_since_ms'] / 1000):.0f} s"


def lines_of(job: Mapping[str, Any]) -> Iterator[str]:
    """A job in lines: what it does, who is here, its last rounds and orders."""
    yield summary(job)
    for name in ("held", "reason", "warning"):
        if job[name]:
            yield f"  {name}: {job[name]}{failed_advice(job) if name == 'reason' else ''}"
    for name, text in (
        ("connected", "connected"),
        ("ready", "ready"),
        ("waiting_for", "awaited"),
        ("lost", "connection lost"),
        ("unconfirmed", "have not confirmed the latest result"),
    ):
        if job[name]:
            yield f"  {text}: {_names(job[name])}"
    for party, why in sorted(job["left"].items()):
        yield f"  left: {party}: {why}"
    for party, until in sorted(job["banned"].items()):
        yield f"  banned: {party}{_until(until)}"
    yield f"  model version {job['model_version']}, hash {job['model_hash'][:16]}; job {job['hash'][:16]}"
    if job.get("model_from"):
        yield f"  the first model is from {job['model_from']}"
    yield from (f"  {line}" for line in standing_lines(job))
    for ended in job["ended"]:
        yield from ended_lines(ended)
    for order in job["orders"]:
        refused = "refused: " if order["refused"] else ""
        at, by, command = moment(order["at_ms"]), order["by"], order["command"]["command"]
        yield f"  order of {at}: {command} by {by} ({order['reason']}): {refused}{order['outcome']}"


def failed_advice(job: Mapping[str, Any]) -> str:
    """What an operator does about a job that has failed, behind the reason; empty where it has not."""
    if job["state"] != "failed":
        return ""
    return f"; when that is mended: blindsum admin resume {job['job']}"


def ended_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """A round that is over, as ``Admin.describe`` gives it, from the report of a store."""
    counts = {"parties": len(report["parties"]), "survivors": len(report["survivors"])}
    losses = {"lost": lost_of(report), "causes": causes_of(report)}
    return {**report, "metrics": report.get("metrics", {}), **counts, **losses}


def ended_lines(ended: Mapping[str, Any]) -> Iterator[str]:
    """A round that is over: what came of it, and who was lost in it or sat it out."""
    yield f"  {_round(ended)}"
    for what, party, why in told_losses(ended["lost"], ended.get("causes", {})):
        yield f"    {what}: {party}: {why}"


def _round(ended: Mapping[str, Any]) -> str:
    at = f"round {ended['number']} of {moment(ended['started_ms'])}"
    if ended["state"] == "done":
        told = metrics_text(ended["metrics"])
        more = f"; {told}" if told else ""
        what = "key set-up, held by" if ended["key_setup"] else "sum of"
        return (
            f"{at}: {what} {ended['survivors']} of {counted(ended['parties'], 'party', 'parties')}, "
            f"{ended['seconds']:.1f} s{more}"
        )
    return f"{at}: no sum: {ended['reason']}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f", and {more} more" if more > 0 else "")


def _until(until_ms: int | None) -> str:
    # The party is told the same whole second, the first one in which it may come back.
    return "" if until_ms is None else f" until {moment(-(-until_ms // 1000) * 1000)}"


def moment(ms: int) -> str:
    """A time in milliseconds since 1970, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
