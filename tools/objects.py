"""Finds objects that are too large to be kept in mind: structs with many fields, types with many methods.

    python3 tools/objects.py              the crates that have the rule
    python3 tools/objects.py --largest    what is largest in each of them

A type has at most 15 fields and 40 methods, wherever its `impl` blocks lie. What is for tests only does not
count, nor what a trait asks for. Those of `LARGE` have more: their numbers only get smaller.
Exit status 1 for an object above its limits, and for an entry of `LARGE` that allows more than there is.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from rust_modules import Module, crate

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("job", "net", "sim")
FIELDS, METHODS = 15, 40
# By crate and type: fields and methods. No type is added, and no number grows.
LARGE = {
    "job": {
        "party::suspended::Suspended": (26, 40),
        "store::written::StoredBytes": (16, 40),
        # What people read.
        "report::JobStatus": (25, 40),
        "report::RoundReport": (18, 40),
    },
    "net": {
        # What people write.
        "coordinator::file::ConfigFile": (26, 40),
        "limits::Limits": (17, 40),
    },
    "sim": {
        "drive::Drive": (24, 40),
        "report::RoundReport": (21, 40),
    },
}


def objects(root: Module) -> dict[str, tuple[int, int]]:
    """The fields and methods of each type of a crate, by its path."""
    found: dict[tuple[Module, str], list[int]] = defaultdict(lambda: [0, 0])
    for module in root.everything():
        for name, fields in module.fields.items():
            found[module, name][0] = fields
        for path, defined, _, is_of_trait in module.methods:
            if not is_of_trait and isinstance(meant := module.find(path), tuple):
                found[meant][1] += len(defined)
    return {path_of(root, *of): (fields, methods) for of, (fields, methods) in found.items()}


def path_of(root: Module, module: Module, name: str) -> str:
    """The path of a type in its crate."""
    names = [name]
    while module is not root and module.parent is not None:
        names.insert(0, next(name for name, child in module.parent.children.items() if child is module))
        module = module.parent
    return "::".join(names)


def problems(source: Path, large: Mapping[str, tuple[int, int]]) -> list[str]:
    """What is wrong with the objects of the crate whose sources are in this folder."""
    wrong, known = [], objects(crate(source))
    for name, (fields, methods) in sorted(known.items()):
        most = large.get(name, (FIELDS, METHODS))
        if fields > most[0] or methods > most[1]:
            limits = f"at most {most[0]} and {most[1]}"
            wrong.append(f"{name} has {fields} fields and {methods} methods, must have {limits}")
    for name, most in sorted(large.items()):
        has = known.get(name, (0, 0))
        shrunk = (max(has[0], FIELDS), max(has[1], METHODS))
        if shrunk == (FIELDS, METHODS):
            wrong.append(f"{name} is not large: take it out of LARGE")
        elif shrunk[0] < most[0] or shrunk[1] < most[1]:
            wrong.append(f"{name} has {has[0]} fields and {has[1]} methods: write {shrunk} into LARGE")
    return wrong


def main() -> int:
    """Check the crates, or show the largest; the exit status."""
    count = 0
    for name in CRATES:
        source = ROOT / "crates" / name / "src"
        if "--largest" in sys.argv[1:]:
            by_size = sorted(objects(crate(source)).items(), key=lambda it: -it[1][0] - it[1][1])
            for path, (fields, methods) in by_size[:5]:
                print(f"{name}: {path}: {fields} fields, {methods} methods")
            continue
        for wrong in problems(source, LARGE.get(name, {})):
            print(f"{name}: {wrong}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
