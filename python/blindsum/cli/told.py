"""What ``blindsum join`` prints while it takes part: for machines an object a line, for people a sentence."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from blindsum.cli import EXIT_ABORT, EXIT_SUM
from blindsum.metrics_text import metrics_text
from blindsum.texts import counted

if TYPE_CHECKING:
    from blindsum.errors import BlindsumError, RoundUnknown
    from blindsum.rounds import Leftover, Round, RoundResult
    from blindsum.session import Session

LAST_WORD = 1.0
"""Seconds in which a session that has ended says what it knows of its round."""


class TrainingError(Exception):
    """The user's function raised in a round; its traceback has been printed."""

    def __init__(self, number: int, cause: Exception | SystemExit) -> None:
        what = f"raised {type(cause).__name__}: {cause}"
        if isinstance(cause, SystemExit):
            what = f"ended the process with sys.exit({cause.code!r}): raise an error, or return None to skip"
        super().__init__(f"the training function {what}")
        self.number = number
        self.cause = cause


class Told:
    """Says what became of each round, and remembers how the last one ended."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._left: Leftover | None = None
        self._current: Round | None = None
        self.status = EXIT_SUM

    def begins(self, current: Round) -> None:
        """A round begins."""
        self._current = current

    def left(self) -> None:
        """Say what is known of the round that this party was in when it left."""
        from blindsum.errors import BlindsumError, RoundUnknown, WaitTimeoutError

        current, self._current = self._current, None
        if current is None or not current.submitted or current.lost is not None:
            return
        try:
            if current.result(timeout=LAST_WORD) is not None:
                self.done(current.number, current.outcome())
        except RoundUnknown as error:
            self.unknown(error)
        except WaitTimeoutError:
            self.unknown(RoundUnknown(current.number, "this party has left the job"))
        except BlindsumError as error:
            # What ended the session, which is told behind this.
            self.unknown(RoundUnknown(current.number, str(error)))
        if current.lost is not None:
            self.lost(current.lost)

    def joined(self, session: Session) -> None:
        """The party is in the job; rounds come when enough others are."""
        if not self._json:
            spec = session.spec
            least = f"a round begins when at least {spec.least_roster} parties are here"
            print(f"joined job {spec.job} as {session.name}: {least}", flush=True)

    def done(self, number: int, outcome: RoundResult) -> None:
        """The round has a result."""
        self.status = EXIT_SUM
        self._left = outcome.leftover
        _say(_report(number, outcome), self._json)
        if outcome.privacy is not None and not self._json:
            print(outcome.privacy, flush=True)

    def ended(self, early: str) -> None:
        """No more rounds come: what is left over is lost."""
        if early and self._json:
            _say({"outcome": "end", "reason": early}, self._json)
        elif early:
            print(f"the job is done: {early}", flush=True)
        if (left := self._left) is not None and left.coordinates:
            _say({"outcome": "end", "leftover": dataclasses.asdict(left)}, self._json)

    def lost(self, error: BlindsumError) -> None:
        """The round has none for this party; the next one may."""
        from blindsum.errors import Fault, ResultMissed

        self.status = EXIT_ABORT
        current = self._current
        was_given = current is not None and current.lost is error and current.submitted
        if isinstance(error, ResultMissed):
            outcome = "missed"
        else:
            outcome = "unknown" if isinstance(error, Fault) and was_given else "abort"
        number = current.number if was_given and current else getattr(error, "number", None)
        _say({"round": number, "outcome": outcome, "fault": str(error)}, self._json)

    def unknown(self, error: RoundUnknown) -> None:
        """The update is out, and nobody says whether it counts."""
        self.status = EXIT_ABORT
        _say({"round": error.number, "outcome": "unknown", "fault": str(error)}, self._json)

    def held(self, reason: str) -> None:
        """Operators let no round begin, or let the job go on."""
        if self._json:
            _say({"outcome": "held", "reason": reason} if reason else {"outcome": "resumed"}, self._json)
        else:
            print(f"no round begins: {reason}" if reason else "rounds begin again", flush=True)

    def skipped(self, number: int, why: str) -> None:
        """Say that this party gives no update."""
        self.status = EXIT_ABORT
        _say({"round": number, "outcome": "skipped", "fault": why}, self._json)

    def failed(self, error: TrainingError) -> None:
        """The user's function raised."""
        _say({"round": error.number, "outcome": "abort", "fault": str(error)}, self._json)


def _report(number: int, outcome: RoundResult) -> dict[str, Any]:
    clipped, left = outcome.clipped, outcome.leftover
    return {
        "round": number,
        "outcome": "sum",
        "survivors": list(outcome.survivors),
        "total_weight": outcome.total_weight,
        "metrics": outcome.metrics_report(),
        "model_version": outcome.model_version,
        "result": outcome.result,
        "seconds": dataclasses.asdict(outcome.timings),
        "privacy": None if outcome.privacy is None else dataclasses.asdict(outcome.privacy),
        "clipped": None if clipped is None else dataclasses.asdict(clipped),
        "leftover": None if left is None else dataclasses.asdict(left),
    }


def _say(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report), flush=True)
    elif report["outcome"] == "sum":
        told = metrics_text(report["metrics"])
        more = f"; {told}" if told else ""
        more += _clipping(report["clipped"] or {}) + _left(report["leftover"])
        print(
            f"round {report['round']}: sum of {counted(len(report['survivors']), 'party')}{more}", flush=True
        )
    elif report["outcome"] == "end":
        print(f"the job is over{_left(report['leftover'])}, which this party has not sent", flush=True)
    elif report["outcome"] == "skipped":
        print(f"round {report['round']}: no update of this party: {report['fault']}", flush=True)
    elif report["outcome"] == "missed":
        print(f"missed a result: {report['fault']}", flush=True)
    elif report["outcome"] == "unknown":
        print(f"not known: {report['fault']}", flush=True)
    else:
        print(f"lost a round: {report['fault']}", flush=True)


def _clipping(clipped: dict[str, Any]) -> str:
    cut = clipped.get("coordinates", 0)
    if (factor := clipped.get("scaled_by")) is not None:
        then = f", then {cut} coordinates cut" if cut else ""
        return f"; this party's update was clipped: multiplied by {factor:.3g}{then}"
    return f"; {cut} coordinates of this party's update clipped" if cut else ""


def _left(left: dict[str, Any] | None) -> str:
    if left is None:
        return ""
    return f"; left over: norm {left['norm']:.3g} in {left['coordinates']} coordinates"
