"""Files of a training run: JSON lines, which are read back, and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from blindsum import checks, os_errors, texts
from blindsum.errors import InputError
from blindsum.training.record import KINDS, BestModel, StageCost, TrainingRecord, TrainingRound

if TYPE_CHECKING:
    from blindsum.pki import AnyPath

FORMAT = "blindsum-training-1"
"""What the first line of a file says of itself; another layout gets another number."""

OUTCOMES = ("sum", "abort")

_NOT_FINITE = ("nan", "inf", "-inf")


def record_lines(record: TrainingRecord) -> str:
    """A record as JSON lines: what is true of the whole run, then its rounds."""
    whole = {one.name: getattr(record, one.name) for one in fields(record) if one.name != "rounds"}
    whole["key_setups"] = [asdict(one) for one in record.key_setups]
    if (best := whole.pop("best_model")) is not None:
        whole["best_model"] = {name: value for name, value in vars(best).items() if name != "model"}
    first = {"format": FORMAT, **whole, "rounds": len(record.rounds)}
    return "".join(f"{_json(line)}\n" for line in (first, *map(asdict, record.rounds)))


def round_line(one: TrainingRound) -> str:
    """A round as a line of JSON."""
    return f"{_json(asdict(one))}\n"


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: object) -> object:
    """A value that JSON can have: it knows no number that is not finite."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {str(name): _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value


def _is_store(path: str) -> bool:
    """Whether a file is one of SQLite."""
    try:
        with open(path, "rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        # Reading it says why.
        return False


def read_record(path: AnyPath) -> dict[str, Any]:
    """The fields of a record, from the file that :func:`record_lines` is in.

    Raises
    ------
    blindsum.InputError
        It cannot be read, is no record, or one that was cut off.
    """
    name = checks.path("path", path)
    if _is_store(name):
        raise InputError(f"record {name}", "is a coordinator's store: `blindsum report --store` reads it")
    try:
        # Other line ends may stand in a reason: JSON has \n as an escape, and no line but the end of one.
        lines = texts.read(name).removesuffix("\n").split("\n")
    except OSError as error:
        raise InputError(
            f"record {name}", f"{os_errors.unreadable(error, 'give a file of JSON lines')}"
        ) from error
    except ValueError as error:
        raise InputError(f"record {name}", str(error)) from error
    if lines == [""]:
        raise InputError(f"record {name}", f"is empty; {_ADVICE}")
    first = _Line(name, 1, lines[0])
    if first.table.pop("format", None) != FORMAT:
        raise first.wrong("format", f"must be {FORMAT!r}")
    count = first.take("rounds", _whole)
    if count != len(lines) - 1:
        rule = f"is {count}, and {len(lines) - 1} lines follow: the file was cut off or joined with another"
        raise first.wrong("rounds", rule)
    whole = {
        "kind": first.take("kind", _one_of(KINDS)),
        "job": first.take("job", _text),
        "protocol": first.take("protocol", _text),
        "spec": first.take("spec", _table(_anything)),
        "parameters": first.take("parameters", _table(_anything)),
        "origin": first.take("origin", _table(_text)),
        "ended": first.take("ended", _text),
        "error_bound": first.take("error_bound", _or_none(_number)),
        "key_setups": first.take("key_setups", _several(lambda value: _round(first.inside(value)))),
    }
    # Only the record of a job with stop has it.
    if "best_model" in first.table:
        whole["best_model"] = first.take("best_model", lambda value: _best(first.inside(value)))
    first.end()
    rounds = [_round(_Line(name, number, line)) for number, line in enumerate(lines[1:], 2)]
    return {**whole, "rounds": tuple(rounds)}


_ADVICE = "give a file that TrainingRecord.to_jsonl or a `--jsonl FILE` wrote"


class _Line:
    """A line of a file, whose fields are taken one by one."""

    def __init__(self, path: str, number: int, text: str) -> None:
        self.path, self.number = path, number
        self.table = self._table(self._read(text))

    def _read(self, text: str) -> object:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"record {self.path}, line {self.number}", f"is no JSON; {_ADVICE}") from error

    def _table(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InputError(f"record {self.path}, line {self.number}", f"must be a JSON object; {_ADVICE}")
        return value

    def inside(self, value: object) -> _Line:
        """A table within this line, of which errors say the same place."""
        found = object.__new__(_Line)
        found.path, found.number, found.table = self.path, self.number, dict(self._table(value))
        return found

    def wrong(self, field: str, rule: str) -> InputError:
        """The error that a field breaks a rule."""
        return InputError(f"record {self.path}, line {self.number}, {field}", f"{rule}; {_ADVICE}")

    def take(self, field: str, read: Callable[[Any], Any]) -> Any:
        """A field, read by a function that raises ``ValueError`` with the rule."""
        if field not in self.table:
            raise self.wrong(field, "is missing")
        try:
            return read(self.table.pop(field))
        except InputError:
            # That of a field within this one.
            raise
        except ValueError as error:
            raise self.wrong(field, str(error)) from error

    def end(self) -> None:
        """Refuse fields that nobody took."""
        for field in self.table:
            raise self.wrong(field, "is no field of this version")


def _round(line: _Line) -> TrainingRound:
    found = TrainingRound(
        number=line.take("number", _whole),
        outcome=line.take("outcome", _one_of(OUTCOMES)),
        survivors=line.take("survivors", _several(_text)),
        lost=line.take("lost", _table(_text)),
        seconds=line.take("seconds", _number),
        stages=line.take("stages", _several(lambda value: _stage(line.inside(value)))),
        metrics=line.take("metrics", _table(_or_none(_number))),
        reported=line.take("reported", _table(_number)),
        test=line.take("test", _table(_number)),
        plain_test=line.take("plain_test", _table(_number)),
        deviation=line.take("deviation", _or_none(_number)),
        clipped=line.take("clipped", _or_none(_whole)),
        fault=line.take("fault", _or_none(_text)),
        model_version=line.take("model_version", _whole),
        epsilon=line.take("epsilon", _or_none(_number)),
        roster=line.take("roster", _several(_text)),
        # Records of earlier versions have the stage in the reason.
        lost_stages=line.take("lost_stages", _table(_text)) if "lost_stages" in line.table else {},
    )
    line.end()
    return found


def _best(line: _Line) -> BestModel:
    found = BestModel(
        metric=line.take("metric", _text),
        round=line.take("round", _whole),
        version=line.take("version", _whole),
        value=line.take("value", _number),
        without_gain=line.take("without_gain", _whole),
    )
    line.end()
    return found


def _stage(line: _Line) -> StageCost:
    found = StageCost(
        line.take("name", _text),
        line.take("seconds", _number),
        line.take("up", _whole),
        line.take("down", _whole),
    )
    line.end()
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("must be a whole number of 0 or more")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float) or value in _NOT_FINITE):
        raise ValueError(f"must be a number, or one of {', '.join(_NOT_FINITE)}")
    return float(value)


def _anything(value: object) -> object:
    return value


def _or_none(read: Callable[[Any], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None else read(value)


def _one_of(names: Iterable[str]) -> Callable[[object], str]:
    known = tuple(names)

    def read(value: object) -> str:
        if value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return str(value)

    return read


def _several(read: Callable[[Any], Any]) -> Callable[[object], tuple[Any, ...]]:
    def all_of(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("must be a list")
        return tuple(map(read, value))

    return all_of


def _table(read: Callable[[Any], Any]) -> Callable[[object], dict[str, Any]]:
    def all_of(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("must be a JSON object")
        return {name: read(one) for name, one in value.items()}

    return all_of


def csv_lines(record: TrainingRecord) -> str:
    """A row a round, with a header: columns of the round, of its metrics and of its stages."""
    rows = [_cells(one) for one in record.rounds]
    # Every round has the first columns in one order; stages and metrics follow as they first appear.
    names = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, names or _cells(_NO_ROUND)))
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def _cells(one: TrainingRound) -> dict[str, object]:
    row: dict[str, object] = {
        "round": one.number,
        "outcome": one.outcome,
        "fault": one.fault,
        "model_version": one.model_version,
        "seconds": one.seconds,
        "up_bytes": one.up,
        "down_bytes": one.down,
        "survivors": len(one.survivors),
        "survivor_names": " ".join(one.survivors),
        "lost": len(one.lost),
        "lost_why": "; ".join(f"{name} ({why})" for name, why in one.lost_words.items()),
        "clipped": one.clipped,
        "deviation": one.deviation,
        "epsilon": one.epsilon,
    }
    tables = {"parties": one.metrics, "reported": one.reported, "test": one.test, "plain": one.plain_test}
    for kind, table in tables.items():
        row.update({f"{kind}.{name}": value for name, value in table.items()})
    for name, stage in stage_sums(one).items():
        row[f"seconds.{name}"] = stage.seconds
        row[f"up_bytes.{name}"] = stage.up
        row[f"down_bytes.{name}"] = stage.down
    return row


def stage_sums(one: TrainingRound) -> dict[str, StageCost]:
    """The stages of a round by their names, those of one name together: a ring has one for each party."""
    found: dict[str, StageCost] = {}
    for stage in one.stages:
        before = found.get(stage.name, StageCost(stage.name, 0.0, 0, 0))
        found[stage.name] = StageCost(
            stage.name, before.seconds + stage.seconds, before.up + stage.up, before.down + stage.down
        )
    return found


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    # A line is a row: a reason that a party gives may have line breaks.
    text = " ".join(str(value).split())
    # A table program would take it for a formula. Numbers are none.
    # guard: no-cell-is-a-formula
    return f"'{text}" if text.startswith(_FORMULA) and not isinstance(value, int) else text


_FORMULA = ("=", "+", "-", "@")


_NO_ROUND = TrainingRound(0, "abort", (), {}, 0.0, (), {}, {}, {}, {}, None, None, None, 0)
"""Names the columns of a run without rounds."""
