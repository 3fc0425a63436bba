"""What ``blindsum serve`` prints while it runs: for machines an object a line, for people what is new."""

from __future__ import annotations

import json
import time
from typing import Any

from blindsum.cli.output import Output
from blindsum.display import names_text
from blindsum.losses import causes_of, lost_of, told_losses
from blindsum.metrics_text import metrics_text


class Json:
    """Events for machines: an object a line."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def say(self, event: str, fields: dict[str, Any]) -> None:
        """Print it."""
        self._out.line(json.dumps({"event": event, "time": time.time(), **fields}))


class Lines:
    """Events for people: who is waited for, a line when a round begins to run and when it ends, warnings."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._said: tuple[Any, ...] = ()
        self._here: int | None = None
        self._left: dict[str, str] = {}
        self._warning = ""
        self._blocked = ""
        self._held = ""
        self._failed = False
        # Whether the next status tells what was before this start.
        self._is_old = False
        self._was_done = False

    def say(self, event: str, fields: dict[str, Any]) -> None:
        """Print what is new."""
        if event == "ready":
            hosts = ", ".join(fields["hosts"])
            self._out.line(
                f"blindsum: job {fields['job']} ({fields['protocol']}) at https://{fields['address']}"
            )
            if fields["admin"]:
                self._out.line(f"blindsum: operators at https://{fields['admin']}")
            self._out.line(f"blindsum: parties connect by a name in the certificate: {hosts}")
            if fields["dashboard"]:
                self._out.line(f"blindsum: dashboard at http://{fields['dashboard']}/")
            if fields["metrics"]:
                self._out.line(f"blindsum: metrics at http://{fields['metrics']}/metrics")
            self._out.line(f"blindsum: job {fields['job']} {fields['model']}")
            for warning in fields["warnings"]:
                self._out.line(f"blindsum: {warning}")
            self._is_old = fields["starts_from"]["kind"] in ("store", "parties")
        elif event == "stopped" and self._was_done:
            self._out.line("blindsum: stopped; nothing was left to do")
        elif event == "stopped":
            done = fields["rounds_done"]
            self._out.line(
                f"blindsum: stopped; {done} {'round has' if done == 1 else 'rounds have'} a result"
            )
        else:
            self._status(fields)

    def _status(self, status: dict[str, Any]) -> None:
        if self._is_old:
            self._was_here(status)
        if self._was_done and _is_done(status):
            return
        self._was_done = False
        self._warn(status["warnings"], status["blocked"])
        if status["held"] != self._held:
            now = status["held"] or "rounds begin again"
            self._held = status["held"]
            self._out.line(f"blindsum: {now}")
        self._departed(status["left"])
        if (current := status["round"]) is not None:
            self._round(current)
        if status["state"] == "failed" and not self._failed:
            self._failed = True
            self._out.line(f"blindsum: the job failed: {status['reason']}")
        if status["state"] == "stopped" and not self._failed:
            self._failed = True
            reason = status["reason"]
            self._out.line(f"blindsum: stopped, the job has not failed and goes on from its store: {reason}")
        if status["state"] == "running" and (current is None or current["state"] != "running"):
            self._waiting(list(status["connected"]), status["min_parties"], status["left"])

    def _departed(self, left: dict[str, str]) -> None:
        """Say who has left, and why: again for another reason, or if the party was back in between."""
        for name, reason in left.items():
            if self._left.get(name) != reason:
                self._out.line(f"{name} has left: {reason}")
        self._left = left

    def _was_here(self, status: dict[str, Any]) -> None:
        """Take what was before this start as said."""
        self._is_old = False
        current = status["round"]
        if current is not None and current["state"] != "running":
            self._said = (current["number"], current["state"])
        if _is_done(status):
            self._was_done = True
            job, done = status["job"], status["rounds_done"]
            self._out.line(
                f"blindsum: job {job} is done: {done} of {status['rounds']} rounds; to go on, start with "
                f"--stay --admin HOST:PORT, and then: blindsum admin extend {job} --rounds N"
            )

    def _warn(self, warnings: list[str], blocked: str) -> None:
        """Say for whom the job waits, once, and what else must be known."""
        if blocked and not self._blocked.startswith(blocked):
            self._out.line(f"blindsum: {blocked}")
        self._blocked = blocked
        others = "; ".join(warnings)
        if others != self._warning:
            now = others or f"no longer: {self._warning}"
            self._warning = others
            self._out.line(f"blindsum: {now}")

    def _waiting(self, here: list[str], least: int, left: dict[str, str]) -> None:
        if len(here) < least and len(here) != self._here:
            names = f" ({names_text(here)})" if here else ""
            without = f" without {', '.join(sorted(left))}" if left else ""
            self._out.line(f"{len(here)} of at least {least} parties are here{names}{without}; waiting")
        self._here = len(here)

    def _round(self, current: dict[str, Any]) -> None:
        state = (current["number"], current["state"])
        if state == self._said or current["state"] == "joining":
            return
        self._said = state
        self._out.line(f"round {current['number']}: {_told(current)}")


def _is_done(status: dict[str, Any]) -> bool:
    rounds = status.get("rounds", 0)
    return bool(status["state"] == "done" or 0 < rounds <= status["rounds_done"])


def _told(current: dict[str, Any]) -> str:
    parties, survivors, key_setup = len(current["parties"]), len(current["survivors"]), current["key_setup"]
    match current["state"]:
        case "running":
            return f"{'key set-up, ' if key_setup else ''}{parties} {'party' if parties == 1 else 'parties'}"
        case "done":
            what = "key set-up, held by" if key_setup else "sum of"
            told = metrics_text(current.get("metrics", {}))
            more = f"; {told}" if told else ""
            losses = list(told_losses(lost_of(current), causes_of(current)))
            for kind in ("lost", "sat out"):
                if of_kind := [f"{name} ({why})" for what, name, why in losses if what == kind]:
                    more += f"; {kind}: {names_text(of_kind)}"
            return f"{what} {survivors} of {parties} parties, {current['seconds']:.2f} s{more}"
        case _:
            return f"{'key set-up failed' if key_setup else 'no sum'}: {current['reason']}"
