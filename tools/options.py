"""Writes what is derived from the declarations of options: Python's classes and tables for people.

    .venv/bin/python tools/options.py            write python/blindsum/options.py and docs/options.md
    .venv/bin/python tools/options.py --check    compare, exit 1 if they are not what the declarations say

The declarations are in Rust; the native module, as it is built now, gives them as a JSON schema.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from blindsum import _native

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / "python" / "blindsum" / "options.py"
DOCS = ROOT / "docs" / "options.md"
BEGIN, END = "<!-- begin of what tools/options.py writes -->\n", "<!-- end -->\n"
WIDTH = 110

# The classes of what is chosen, by the field that chooses it.
BASES = {
    "protocol": "Protocol",
    "encoding": "Encoding",
    "step": "ServerStep",
    "stop": "Stop",
    "privacy": "Privacy",
}
# The tables of these classes by their names.
TABLES = {field: f"{field.upper()}S" for field in BASES} | {"privacy": "MECHANISMS"}
HEADINGS = BASES | {"step": "Server step"}
TYPES = {"integer": "int", "number": "float", "string": "str"}
# The classes of entries of lists, by their schema.
ENTRIES = {"#/$defs/tensor": "Tensor", "#/$defs/metric": "Metric"}
# Types of lists and tables as they are given, and as a job has them.
GIVEN = {"array": "Sequence[{}]", "lines": "Sequence[str] | ModelLayout", "object": "Mapping[str, object]"}
HELD = {"array": "tuple[{}, ...]", "lines": "tuple[str, ...]", "object": "Parameters"}


def imported(module: str, names: list[str]) -> list[str]:
    """An import of these names, in as many lines as it takes."""
    names = sorted(names, key=lambda name: (not name.isupper(), name))
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]


def names_of(option: dict) -> list[str]:
    """The names that an option may have, where it is a choice."""
    return [way["const"] for way in option.get("oneOf", []) if "const" in way]


def sentence(option: dict, told: str = " By default {}.") -> str:
    """What an option is, its choices, and its default as ``told``."""
    text = option["description"]
    if any("description" in way for way in option.get("oneOf", [])):
        ways = (f"``{way['const']}``: {way['description'].rstrip('.')}" for way in option["oneOf"])
        text += " " + "; ".join(way[0].lower() + way[1:] for way in ways) + "."
    if "default" in option:
        text += told.format(shown(option["default"]))
    return text.replace("``", "`").replace("`", "``")


def shown(default: object) -> str:
    """A default in a sentence."""
    return "none" if default in ([], {}) else f"``{json.dumps(default)}``"


def documented(head: str, entries: list[tuple[str, str, str]], title: str = "Attributes") -> str:
    """A docstring in NumPy style: each entry has a name, a type and a sentence."""
    first, rest = head, ""
    if len(head) > WIDTH - 10:
        first, _, rest = head.partition(". " if ". " in head else ": ")
        first = f"{first.rstrip('.')}."
        rest = rest[:1].upper() + rest[1:]
    lines = [f'    """{first}', ""]
    if rest:
        lines += [*wrapped(rest, 4), ""]
    if entries:
        lines += [f"    {title}", f"    {'-' * len(title)}"]
    for name, kind, text in entries:
        lines += [f"    {name} : {kind}", *wrapped(text, 8)]
    return "\n".join([*lines, '    """']) if len(lines) > 2 else f'    """{first}"""'


def wrapped(text: str, indent: int) -> list[str]:
    """Text in lines that fit."""
    pad = " " * indent
    return textwrap.wrap(text, WIDTH, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False)


def type_of(option: dict, larger: dict[str, str] = GIVEN) -> str:
    """The Python type of an option, where ``larger`` has those of lists and tables."""
    kind = option.get("type", "string")
    if kind != "array":
        return larger.get(kind) or TYPES[kind]
    if "$ref" not in option["items"]:
        return larger["lines"]
    return larger["array"].format(ENTRIES[option["items"]["$ref"]])


def table_class(field: str, table: dict) -> str:
    """The class of one table."""
    options = {name: option for name, option in table["properties"].items() if name != "name"}
    entries = [(name, type_of(option), sentence(option)) for name, option in options.items()]
    lines = ["@dataclass(frozen=True, kw_only=True)", f"class {table['title']}({BASES[field]}):"]
    lines += [documented(table["description"], entries), ""]
    lines += [f'    name: ClassVar[str] = "{table["properties"]["name"]["const"]}"']
    lines += [f"    {name}: {type_of(option)} = UNSET" for name, option in options.items()]
    return "\n".join(lines)


def fields_class(schema: dict) -> str:
    """The fields of every job, as they are once it is checked."""
    entries, lines = [], []
    for name, option in schema["properties"].items():
        kind = BASES.get(name) or type_of(option, HELD)
        entries.append((name, kind, sentence(option)))
        lines.append(f"    {name}: {kind}")
    head = "What every job has; a field that was not given has its default."
    return "\n".join(
        [
            "@dataclass(frozen=True, init=False)",
            "class JobFields:",
            documented(head, entries),
            "",
            *lines,
        ]
    )


def arguments_class(schema: dict) -> str:
    """What a job may be made of."""
    lines = ["class JobArguments(TypedDict, total=False):", '    """What a job is made of."""', ""]
    for name, option in schema["properties"].items():
        base = BASES.get(name)
        kind = f"str | {base} | Mapping[str, object]" if base else type_of(option)
        lines.append(f"    {name}: {f'Required[{kind}]' if name in schema['required'] else kind}")
    return "\n".join(lines)


def python(schema: dict) -> str:
    """The module of classes."""
    tables = [
        (field, schema["$defs"][f"{field}.{name}"])
        for field in BASES
        for name in schema["properties"][field]["oneOf"][0]["enum"]
    ]
    titles = [table["title"] for _, table in tables]
    exported = [f'    "{name}",' for name in sorted(titles)]
    choices = [
        f"{TABLES[field]}: dict[str, type[{base}]] = "
        + "{item.name: item for item in ("
        + ", ".join(table["title"] for of, table in tables if of == field)
        + ")}"
        for field, base in BASES.items()
    ]
    head = [
        '"""The options of jobs, protocols, encodings, server steps and stops.',
        "",
        "Written by tools/options.py from the declarations in Rust: change them there.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping, Sequence",
        "from dataclasses import dataclass",
        "from typing import TYPE_CHECKING, ClassVar, Required, TypedDict",
        "",
        *imported("blindsum.tables", ["UNSET", "Metric", "Parameters", "Tensor", *BASES.values()]),
        "",
        "if TYPE_CHECKING:",
        "    from blindsum.layouts import ModelLayout",
        "",
        "__all__ = [",
        *exported,
        "]",
    ]
    classes = [table_class(field, table) for field, table in tables]
    parts = ["\n".join(head), *classes, fields_class(schema), arguments_class(schema), "\n".join(choices)]
    return "\n\n\n".join(parts) + "\n"


def entries_of(option: dict, defs: dict) -> str:
    """What the entries of a list are."""
    if "$ref" not in option["items"]:
        return "lines `NAME DTYPE SHAPE`"
    entry = defs[option["items"]["$ref"].rpartition("/")[2]]
    return "tables with " + ", ".join(f"`{name}`" for name in entry["properties"])


def range_of(option: dict, defs: dict) -> str:
    """Which values an option may have."""
    if "oneOf" in option:
        names = names_of(option) or option["oneOf"][0].get("enum", [])
        return ", ".join(f"`{name}`" for name in names)
    least = option.get("minimum", option.get("exclusiveMinimum"))
    most = option.get("maximum", option.get("exclusiveMaximum"))
    if "pattern" in option:
        return f"`{option['pattern']}`"
    if least is None:
        if option["type"] == "object":
            return "a table"
        return entries_of(option, defs) if option["type"] == "array" else option["type"]
    above = ">" if "exclusiveMinimum" in option else "≥"
    if most is None or most == 2**32 - 1:
        return f"{above} {least}"
    below = "<" if "exclusiveMaximum" in option else "≤"
    return f"{above} {least}, {below} {most}"


def docs_table(table: dict, required: list[str], defs: dict) -> str:
    """The options of a table for people."""
    options = {name: option for name, option in table["properties"].items() if name != "name"}
    if not options:
        return "No options."
    lines = ["| option | values | default | |", "|---|---|---|---|"]
    for name, option in options.items():
        default = "required" if name in required else "see right"
        if "default" in option:
            default = "none" if option["default"] in ([], {}) else f"`{json.dumps(option['default'])}`"
        text = sentence(option, told="").replace("``", "`").replace("|", "\\|")
        lines.append(f"| `{name}` | {range_of(option, defs)} | {default} | {text} |")
    return "\n".join(lines)


def docs(schema: dict) -> str:
    """The part of the page that lists options."""
    parts = ["## Every job", docs_table(schema, schema["required"], schema["$defs"])]
    for field, base in HEADINGS.items():
        for name in schema["properties"][field]["oneOf"][0]["enum"]:
            table = schema["$defs"][f"{field}.{name}"]
            parts += [f"## {base} `{name}`", table["description"], docs_table(table, [], schema["$defs"])]
    return "\n" + "\n\n".join(parts) + "\n\n"


def formatted(text: str) -> str:
    """Python as ruff writes it."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "format", "--stdin-filename", PYTHON, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main() -> int:
    """Write or check; the exit status."""
    schema = _native.job_schema()
    page = DOCS.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    texts = {PYTHON: formatted(python(schema)), DOCS: before + BEGIN + docs(schema) + END + after}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(texts[path])
        return 0
    for path in stale:
        name = path.relative_to(ROOT)
        print(
            f"{name} is not what the declarations say: run .venv/bin/python tools/options.py", file=sys.stderr
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
