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

OPTIONAL_FIELDS = (
    "adversary",
    "bits",
    "clipping",
    "corrupt",
    "density",
    "dropout",
    "key_rounds",
    "masking",
    "packing",
    "threshold",
)
MOST_QUANTISED_BITS = 32


def add_spec_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments from which :func:`spec_from` makes a specification."""
    parser.add_argument("--protocol", required=True, metavar="P", help="the protocol, e.g. plain")
    parser.add_argument(
        "--parties", "--clients", type=int, required=True, metavar="N", help="parties in a round"
    )
    parser.add_argument("--dim", type=whole, required=True, metavar="D", help="coordinates, e.g. 1e6")
    parser.add_argument("--adversary", metavar="A", help="semi-honest or active (default)")
    parser.add_argument(
        "--bits",
        type=int,
        metavar="B",
        help="bits of a quantised value, 2 to 32 (default 16); more, up to 64: integers with exact sums, "
        "as with --set encoding=integers",
    )
    parser.add_argument("--clipping", metavar="C", help="tensor (default), l2, or aciq: from earlier rounds")
    parser.add_argument("--corrupt", type=float, metavar="F", help="fraction that may work with the server")
    parser.add_argument("--density", type=float, metavar="F", help="part of the coordinates sent (flashe)")
    parser.add_argument("--dropout", type=float, metavar="F", help="fraction that may be lost in a round")
    parser.add_argument("--masking", metavar="M", help="cheaper (default), double or single (flashe)")
    parser.add_argument("--key-rounds", type=int, metavar="R", help="rounds that a key serves (flashe)")
    parser.add_argument("--packing", type=int, metavar="L", help="words in a polynomial (fssa, pss)")
    parser.add_argument("--threshold", type=int, metavar="T", help="shares that reconstruct a secret")
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
    for name in OPTIONAL_FIELDS:
        value = getattr(options, name)
        if value is not None:
            fields[name] = value
    for setting in options.set:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError("--set", f"{setting!r} must be FIELD=VALUE")
        fields[name] = _value(name, text)
    return _spec(fields)


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
    return _spec(fields)


def _spec(fields: dict[str, Any]) -> JobSpec:
    """Make a specification; values of more than 32 bits can only be integers."""
    bits = fields.get("bits")
    if isinstance(bits, int) and bits > MOST_QUANTISED_BITS:
        fields.setdefault("encoding", "integers")
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
            case "str" | "str | None":
                return text
            case _:
                return json.loads(text)
    except ValueError as error:
        what = {"int": "a whole number", "float": "a number"}.get(kind, "JSON")
        raise SpecError(name, f"must be {what}, not {text!r}") from error
