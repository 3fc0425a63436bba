"""Metrics of training as they are shown. Commands that need nothing else of the package load this module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blindsum.texts import counted


def values_and_shares(
    report: Mapping[str, Mapping[str, float | None]],
) -> tuple[dict[str, float | None], dict[str, float]]:
    """The values of a report's metrics and the shares of the weight that they are the means of, by name."""
    values = {name: one["value"] for name, one in report.items()}
    return values, {name: one["share"] or 0.0 for name, one in report.items()}


def metrics_text(report: Mapping[str, Mapping[str, float | None]]) -> str:
    """Metrics of a round for people, e.g. ``accuracy 0.931, loss 0.21 (of 80 % of the weight)``."""
    values, shares = values_and_shares(report)
    return ", ".join(_text(name, value, shares[name]) for name, value in values.items())


def best_text(best: Mapping[str, Any]) -> str:
    """The best value of a metric for people, with its model."""
    since = f", {counted(best['without_gain'], 'round')} since then" if best["without_gain"] else ""
    return (
        f"best {best['metric']} {best['value']:.4g}, of model version {best['version']}, which round "
        f"{best['round']} started from{since}"
    )


def standing_lines(job: Mapping[str, Any]) -> Iterator[str]:
    """The best value of a job and what its noise guarantees, as far as it has them, for people."""
    if job.get("best"):
        yield best_text(job["best"])
    if job.get("privacy"):
        yield _privacy_text(job["privacy"])


def _privacy_text(privacy: Mapping[str, Any]) -> str:
    """What the noise of a job guarantees by now, for people."""
    target = "" if privacy["target"] is None else f" of {privacy['target']:g}"
    lacking = privacy.get("lacking", 0)
    missing = f"; {counted(lacking, 'round')} that the store lacks are not counted" if lacking else ""
    return (
        f"privacy: epsilon {privacy['epsilon']:.4g}{target} at delta {privacy['delta']:g} after "
        f"{counted(privacy['releases'], 'release')}{missing}"
    )


def _text(name: str, value: float | None, share: float) -> str:
    if value is None:
        return f"{name} reported by no party"
    part = "" if share == 1.0 else f" (of {100 * share:.3g} % of the weight)"
    return f"{name} {value:.4g}{part}"
