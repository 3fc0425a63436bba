"""Job specifications on the command line and in files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator
from typing import Any

from blindsum import _native, os_errors, texts
from blindsum.errors import ConfigError, SpecError
from blindsum.spec import JobSpec

# Names of flags beside those of their fields.
ALSO = {"parties": ["--clients"]}

LISTED = "`blindsum spec --schema` says what each of them is"
"""Where the options of a job are described."""

TOO_DEEP = "is nested too deeply: a job has tables in tables, and lists of these, and nothing deeper"
"""What is wrong with a text that has brackets within brackets without end."""


def add_spec_arguments(parser: argparse.ArgumentParser, own: Collection[str] = ()) -> None:
    """Add the arguments from which :func:`spec_from` makes a specification: a flag for every option.

    The command has flags of its ``own`` by the names of some; ``--set`` reaches the options behind them.
    """
    group = parser.add_argument_group("the job")
    for name, meanings in _options():
        if name not in own:
            flags = [f"--{name.replace('_', '-')}", *ALSO.get(name, [])]
            text = "; ".join(meanings).replace("%", "%%")
            group.add_argument(*flags, dest=f"job_{name}", metavar=name[0].upper(), help=text)
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="the same for any option, e.g. --set neighbours=20 --set clip=0.5 --set parameters.epochs=3",
    )


def spec_from(options: argparse.Namespace, **defaults: Any) -> JobSpec:
    """Make the specification that the arguments describe."""
    settings: list[tuple[str, object]] = list(defaults.items())
    for name, _ in _options():
        value = getattr(options, f"job_{name}", None)
        if value is not None:
            settings.append((name, _value(f"--{name.replace('_', '-')}", value)))
    for setting in options.set:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError("--set", f"{setting!r} must be OPTION=VALUE")
        settings.append((name, _value(f"--set {name}", text)))
    try:
        return JobSpec.from_settings(settings)
    except SpecError as error:
        given = {name.rpartition(".")[2] for name, _ in settings}
        if error.field in given - {name for name, _ in _options()}:
            raise SpecError(error.field, f"{error.rule}; {LISTED}") from error
        raise


def spec_from_file(path: str, argument: str = "--job") -> JobSpec:
    """Read a specification from a TOML or JSON file: UTF-8, whatever the locale.

    Errors of the file name the ``argument`` that the path is from.
    """
    try:
        text = texts.read(path)
    except OSError as error:
        raise ConfigError(argument, f"{path} {os_errors.unreadable(error)}") from error
    except ValueError as error:
        raise ConfigError(argument, f"{path} {error}") from error
    try:
        is_json = path.lower().endswith(".json")
        fields = texts.json_of(path, text, object_pairs_hook=_once) if is_json else texts.toml_of(path, text)
    except ValueError as error:
        raise ConfigError(argument, str(error)) from error
    except RecursionError as error:
        raise ConfigError(argument, f"{path} {TOO_DEEP}") from error
    if not isinstance(fields, dict):
        raise ConfigError(argument, f"{path} must hold an object of JobSpec fields")
    try:
        return JobSpec.from_dict(fields)
    except SpecError as error:
        raise SpecError(error.field, error.rule, path) from error


def spec_from_file_alone(options: argparse.Namespace) -> JobSpec:
    """Read the job file of ``--job``; together with it no flag may set an option of the job."""
    flags = flags_of_job(options)
    if flags:
        raise ConfigError("--job", f"the file has the whole job: leave {' and '.join(flags)} out")
    return spec_from_file(options.job)


def flags_of_job(options: argparse.Namespace) -> list[str]:
    """The flags that were given for the job itself."""
    said = [name for name, _ in _options() if getattr(options, f"job_{name}", None) is not None]
    return [f"--{name.replace('_', '-')}" for name in said] + ["--set"] * bool(options.set)


def _options() -> Iterator[tuple[str, list[str]]]:
    """Every option by its name, and what it is in each table that has it."""
    schema = _native.job_schema()
    for name, option in schema["properties"].items():
        yield name, [_said_of(option)]
    found: dict[str, dict[str, list[str]]] = {}
    for place, table in schema["$defs"].items():
        _, dot, owner = place.partition(".")
        for name, option in table["properties"].items() if dot else ():
            if name != "name":
                found.setdefault(name, {}).setdefault(_said_of(option), []).append(owner)
    for name, meanings in found.items():
        yield name, [f"{text} ({', '.join(owners)})" for text, owners in meanings.items()]


def _said_of(option: dict[str, Any]) -> str:
    """What an option is, its names where it is one of several, its default."""
    text: str = option["description"].rstrip(".")
    names = [way["const"] for way in option.get("oneOf", []) if "const" in way]
    names = names or option.get("oneOf", [{}])[0].get("enum", [])
    if names:
        text += f": {', '.join(names)}"
    return text + (f"; default {option['default']}" if option.get("default", []) not in ([], {}) else "")


def _value(argument: str, text: str) -> Any:
    """Lists and tables are written in JSON; everything else the core reads."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise ConfigError(argument, f"must be JSON, not {text!r}: {error}") from error
    except RecursionError as error:
        raise ConfigError(argument, f"its JSON {TOO_DEEP}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of JSON; a name that is there twice is refused, as TOML does."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} is there twice; leave one of them out")
    return fields
