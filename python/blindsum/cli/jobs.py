"""Job specifications on the command line and in files."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

from blindsum.errors import ConfigError, SpecError
from blindsum.spec import JobSpec


def add_spec_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments from which :func:`spec_from` makes a specification."""
    parser.add_argument("--protocol", required=True, metavar="P", help="the protocol, e.g. plain")
    parser.add_argument("--parties", type=int, required=True, metavar="N", help="parties in a round")
    parser.add_argument("--dim", type=whole, required=True, metavar="D", help="coordinates, e.g. 1e6")
    parser.add_argument("--adversary", metavar="A", help="semi-honest or active (default)")
    parser.add_argument("--bits", type=int, metavar="B", help="bits of a quantised value (default 16)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="any field of JobSpec, e.g. --set neighbours=20 --set clip=0.5",
    )


def spec_from(options: argparse.Namespace, **defaults: Any) -> JobSpec:
    """Make the specification that the arguments describe."""
    fields = {**defaults, "protocol": options.protocol, "parties": options.parties}
    fields["dim"] = options.dim
    if options.adversary is not None:
        fields["adversary"] = options.adversary
    if options.bits is not None:
        fields["bits"] = options.bits
    for setting in options.set:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError("--set", f"{setting!r} must be FIELD=VALUE")
        fields[name] = _value(name, text)
    return JobSpec.from_dict(fields)


def spec_from_file(path: str) -> JobSpec:
    """Read a specification from a TOML or JSON file."""
    try:
        text = Path(path).read_text()
        fields = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("--job", f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise ConfigError("--job", f"{path}: {error}") from error
    if not isinstance(fields, dict):
        raise ConfigError("--job", f"{path} must hold an object of JobSpec fields")
    return JobSpec.from_dict(fields)


def whole(text: str) -> int:
    """Read a whole number, also written like 1e6."""
    number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


def _value(name: str, text: str) -> Any:
    kinds = {item.name: str(item.type) for item in dataclasses.fields(JobSpec) if item.init}
    kind = kinds.get(name, "str")
    try:
        match kind:
            case "int":
                return whole(text)
            case "float":
                return float(text)
            case "str":
                return text
            case _:
                return json.loads(text)
    except ValueError as error:
        what = {"int": "a whole number", "float": "a number"}.get(kind, "JSON")
        raise SpecError(name, f"must be {what}, not {text!r}") from error
