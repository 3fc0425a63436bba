"""Checks of settings and arguments, made before anything runs."""

from __future__ import annotations

import math
import numbers
import operator
import os
import pathlib
from decimal import Decimal

from blindsum.errors import ConfigError, IdentityError, InputError, SpecError, StoreError
from blindsum.spec import JobSpec
from blindsum.texts import is_whole

SEEDS = 2**64 - 1
PARTIES = 2**32 - 1
MAX_WEIGHT = 2**32 - 1
ROUNDS = 2**32 - 1
THREADS = 1024
MAX_LIMIT = 2**64

NAMES_NOTHING = (
    "must name a file or folder, not be empty: give one, or leave it out (a variable that is not set?)"
)
"""What is wrong with an empty path."""


def whole_number(value: object) -> int | None:
    """The value as an ``int``; ``None`` where it is no whole number. Truth values are none."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def count(value: object) -> int | None:
    """The value as an ``int``, also where it is a float without a fraction; ``None`` where it is none.

    An array or tensor of one number without a shape is that number.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = None if getattr(value, "mask", False) else value.item()
    whole = whole_number(value)
    if whole is None and isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool):
        # A decimal may have so large an exponent that its whole number takes a minute to make.
        try:
            is_small = -MAX_LIMIT <= value <= MAX_LIMIT  # type: ignore[operator]
        except ArithmeticError:  # A decimal that is no number.
            return None
        # Nor is NaN small.
        if is_small and math.floor(value) == value:
            whole = whole_number(math.floor(value))
    return whole


def in_words(value: object) -> str:
    """A value for an error. Python writes no number of some thousand digits."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} that Python does not write"


def setting(field: str, value: object, least: int, most: int) -> int:
    """A setting that is a whole number from ``least`` to ``most``.

    Raises
    ------
    blindsum.ConfigError
        It is not.
    """
    whole = whole_number(value)
    if whole is None or not least <= whole <= most:
        raise ConfigError(field, f"{value!r} must be a whole number from {least} to {most}")
    return whole


def fraction(field: str, value: object) -> float:
    """A setting that is a number from 0 to 1.

    Raises
    ------
    blindsum.ConfigError
        It is not.
    """
    return _number(field, value, 1)


def seconds(field: str, value: object) -> float:
    """A setting that is a number of seconds, from 0 to a million.

    Raises
    ------
    blindsum.ConfigError
        It is not.
    """
    return _number(field, value, 1_000_000)


def _number(field: str, value: object, most: int) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    except OverflowError as error:
        raise ConfigError(field, f"is too large a number, and must be from 0 to {most}") from error
    if isinstance(value, str | bool) or not 0 <= number <= most:
        raise ConfigError(field, f"{value!r} must be a number from 0 to {most}")
    return number


def finite(field: str, value: object) -> float:
    """A setting that is a finite number; whole numbers stay whole.

    Raises
    ------
    blindsum.ConfigError
        It is not.
    """
    whole = whole_number(value)
    if whole is not None:
        return whole
    is_whole = isinstance(value, numbers.Integral)
    if isinstance(value, numbers.Real) and not is_whole and math.isfinite(value):
        return float(value)
    raise ConfigError(field, f"{value!r} must be a finite number")


def line(field: str, value: object) -> str:
    """A text; what it may say is checked where it is used.

    Raises
    ------
    blindsum.ConfigError
        It is something else.
    """
    if not isinstance(value, str):
        raise ConfigError(field, f"must be a text, not a {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        rule = f"must be a text of Unicode, and has half a character at {error.start}"
        raise ConfigError(field, rule) from error
    return value


def path(field: str, value: object) -> str:
    """The path of a file or folder.

    An empty or blank one is refused: it would mean the folder in which the program runs, or a file that
    nobody finds again.

    Raises
    ------
    blindsum.ConfigError
        It is empty, or no path.
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(text, str):
        raise ConfigError(field, f"must be a path, not a {type(value).__name__}")
    if "\0" in text:
        raise ConfigError(field, f"{text!r} has a zero byte, which no path may have: give another one")
    if not text.strip():
        raise ConfigError(field, f"{text!r} {NAMES_NOTHING}")
    return text


def name(value: object) -> str:
    """The name of a party or server, which its files have as well; its letters are checked where it is used.

    Raises
    ------
    blindsum.ConfigError
        It is no text.
    blindsum.IdentityError
        It is empty.
    """
    text = line("name", value)
    if not text.strip():
        raise IdentityError(f"name {text!r}: must not be empty; give one, e.g. hospital-a")
    return text


def folder(field: str, value: object) -> str:
    """The path of a folder, which need not be there yet.

    Raises
    ------
    blindsum.ConfigError
        It is empty or no path, or leads to a file.
    """
    text = path(field, value)
    place = pathlib.Path(text)
    there = next((one for one in (place, *place.parents) if os.path.lexists(one)), place)
    if os.path.exists(there) and not os.path.isdir(there):
        raise ConfigError(field, f"{text} must be a folder, and {there} is a file: give another one")
    return text


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths lead to one file, by whatever names, also where it is not there yet."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def store(value: object) -> str:
    """The path of a coordinator's store, which need not be there yet.

    Raises
    ------
    blindsum.ConfigError
        It is empty or no path, SQLite would take it for something else than a file, or no file can be
        written there.
    """
    text = path("store", value)
    name = pathlib.PurePath(text).name
    if any(one.startswith(":") or one.lower().startswith("file:") for one in (text, name)):
        rule = (
            f"{text!r} must be the name of a file, and neither begin with ':' nor be a URI, as the name of a "
            "store in memory does: give a file, e.g. job.sqlite"
        )
        raise ConfigError("store", rule)
    around = os.path.dirname(text) or os.curdir
    if os.path.isdir(text):
        raise ConfigError("store", f"{text} must be a file, not a folder: give a file in it, e.g. job.sqlite")
    if not os.path.isdir(around):
        raise ConfigError("store", f"{text}: there is no folder {around}: make it, or give another file")
    if os.path.exists(text) and not os.path.isfile(text):
        raise ConfigError("store", f"{text} must be a file, and not a device or a pipe: give another one")
    if os.path.exists(text) and os.access(text, os.R_OK) and not _is_database(text):
        raise ConfigError("store", f"{text} is no store, but a file of another kind: give another one")
    # SQLite writes files of its own beside it.
    if not (os.access(around, os.W_OK) and (not os.path.exists(text) or os.access(text, os.R_OK | os.W_OK))):
        raise ConfigError(
            "store", f"{text} and its folder must be writable by this user: change that, or give another file"
        )
    return text


def stored(value: object) -> str:
    """The path of a store that is there, to be read.

    Raises
    ------
    blindsum.ConfigError
        It is empty or no path.
    blindsum.StoreError
        There is no such file, or it may not be read.
    """
    text = path("store", value)
    advice = "give the file of `blindsum serve --store`"
    if not os.path.exists(text):
        raise StoreError(f"store {text}: no such file; {advice}")
    if not os.path.isfile(text):
        what = "a folder" if os.path.isdir(text) else "a device or a pipe"
        raise StoreError(f"store {text}: must be a file, not {what}; {advice}")
    if not os.access(text, os.R_OK):
        raise StoreError(
            f"store {text}: may not be read by this user; read it as the user of the coordinator"
        )
    if not _is_database(text):
        raise StoreError(f"store {text}: is no store, but a file of another kind; {advice}")
    return text


def _is_database(path: str) -> bool:
    """Whether a file begins as a database of SQLite does, or is empty."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) in (b"", _MAGIC)


_MAGIC = b"SQLite format 3\0"


def limit(name: str, value: object) -> float:
    """A limit of a coordinator or server; what it may be is checked where it is used.

    Raises
    ------
    blindsum.ConfigError
        It is not a finite number, or beyond every limit.
    """
    if not isinstance(name, str) or not is_whole(name):
        raise ConfigError("limits", f"has a limit with the name {name!r}: names are texts, such as 'lease'")
    number = finite(f"limits.{name}", value)
    if abs(number) > MAX_LIMIT:
        raise ConfigError(f"limits.{name}", "must be from -2^64 to 2^64: no limit is beyond")
    # A count may be written as a float, as in 1e6.
    return int(number) if float(number).is_integer() and abs(number) < 2**63 else float(number)


def weight(
    name: str, value: object, spec: JobSpec, sits_out: str = "call rnd.skip() to sit the round out"
) -> int:
    """A weight that the job allows.

    Parameters
    ----------
    name
        What it is called, for the error.
    value
        The weight.
    spec
        The job.
    sits_out
        What to do instead of giving a weight of 0; empty where there is nothing.

    Raises
    ------
    blindsum.InputError
        No whole number, below 1, or above the job's ``max_weight``. ``300.0`` is one, ``300.5`` is not.
    """
    most = spec.max_weight
    whole = count(value)
    if whole is not None and 1 <= whole <= most:
        return whole
    is_count = whole is not None and 0 <= whole <= MAX_WEIGHT
    advice = "" if is_count else "; give the number of examples, as len(data)"
    if whole == 0 and sits_out:
        advice = f"; {sits_out}"
    if whole is not None and most < whole <= MAX_WEIGHT:
        advice = _weight_advice(whole, spec)
    rule = f"must be a whole number from 1 to max_weight = {most}"
    raise InputError(name, f"{in_words(value)} {rule}{advice}")


def _weight_advice(weight: int, spec: JobSpec) -> str:
    """What to do about a weight that is too large: some jobs can have none."""
    try:
        spec.replace(encoding=spec.encoding.to_dict() | {"max_weight": max(2, spec.max_weight)})
    except SpecError as error:
        return f"; {error.rule}; in this job an update comes alone, without a weight"
    return (
        "; if parties have larger weights, e.g. their number of examples, the job must allow them: "
        f"set max_weight = {weight} or more in it (for everybody, at the coordinator)"
    )


def job_spec(value: object) -> JobSpec:
    """A job specification.

    Raises
    ------
    blindsum.ConfigError
        Something else.
    """
    if not isinstance(value, JobSpec):
        kind = type(value).__name__
        raise ConfigError(
            "spec", f"must be a blindsum.JobSpec, not a {kind}; JobSpec.from_dict makes one of a mapping"
        )
    return value
