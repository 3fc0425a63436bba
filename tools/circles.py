"""Finds circles between files of a crate, and between folders: what cannot be read one after the other.

    python3 tools/circles.py              every crate
    python3 tools/circles.py math job     some of them

A file has an arrow to the file that defines what it names: in a `use`, or in a path in the code, through
whatever re-exports lie between; and to the file that defines a method which it calls on `self`. But what it
names of a module above it is no arrow, so that parent and child may name each other. No way along the arrows
may come back to where it began, neither between files nor between files and folders that lie side by side.
A method that is called on something else than `self` is not seen, and what is for tests only is left out.
Exit status 1, with the names that tie each circle, and for an entry of `TANGLED` that is none any more.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from rust_modules import Module, crate

ROOT = Path(__file__).resolve().parent.parent
CRATES = (
    "math",
    "crypto",
    "privacy",
    "encode",
    "sharing",
    "he",
    "mpc",
    "protocol",
    "job",
    "sim",
    "net",
    "daemon",
    "paper",
    "python",
    "bench",
)

# Objects whose methods go round between their files, until their states are types. No file is added here.
TANGLED: dict[str, dict[str, str]] = {}

# Who names what of whom: the file or folder, then that of what is named, then the names.
Arrows = dict[Path, dict[Path, set[str]]]


def between_files(root: Module) -> Arrows:
    """What the files of a crate name of one another, except of those above them."""
    found: Arrows = defaultdict(lambda: defaultdict(set))
    for module in root.everything():
        for path in module.paths:
            meant = module.find(path)
            if isinstance(meant, tuple):
                owner, name = meant
                if owner.file not in module.files_above():
                    found[module.file][owner.file].add(name)
    return found


def between_methods(root: Module) -> Arrows:
    """The files whose methods call methods on `self` that other files define, except of those above them."""
    of_types: dict[tuple[Module, str], list[tuple[Module, set[str], set[str]]]] = defaultdict(list)
    for module in root.everything():
        for path, defined, called, _ in module.methods:
            if isinstance(meant := module.find(path), tuple):
                of_types[meant].append((module, defined, called))
    found: Arrows = defaultdict(lambda: defaultdict(set))
    for (_, kind), blocks in of_types.items():
        for module, _, called in blocks:
            own = {name for other, defined, _ in blocks if other.file == module.file for name in defined}
            for other, defined, _ in blocks:
                if other.file not in module.files_above():
                    found[module.file][other.file] |= {f"{kind}::{name}" for name in called & defined - own}
    return {start: {end: names for end, names in ends.items() if names} for start, ends in found.items()}


def side_by_side(files: Arrows) -> Arrows:
    """The same between what lies side by side: files, and folders with all that is in them.

    With a name of or in a folder come the two files that it ties. Every circle of files is one of these too.
    """
    found: Arrows = defaultdict(lambda: defaultdict(set))
    for start, ends in files.items():
        for end, names in ends.items():
            ways = zip((*start.parents[::-1], start), (*end.parents[::-1], end), strict=False)
            one, other = next((one, other) for one, other in ways if one != other)
            tied = "" if (one, other) == (start, end) else f" ({start.name}, {end.name})"
            found[one][other] |= {name + tied for name in names}
    return found


def circles(arrows: Arrows) -> list[list[Path]]:
    """The groups of which every one leads to every other."""

    def reached(start: Path) -> set[Path]:
        found: set[Path] = set()
        ahead = [start]
        while ahead:
            new = arrows.get(ahead.pop(), {}).keys() - found
            found |= new
            ahead += new
        return found

    ways = {start: reached(start) for start in arrows}
    groups = {tuple(sorted(end for end in way if start in ways.get(end, ()))) for start, way in ways.items()}
    return [list(group) for group in sorted(groups) if group]


def joined(*parts: Arrows) -> Arrows:
    """All arrows of several kinds."""
    found: Arrows = defaultdict(lambda: defaultdict(set))
    for arrows in parts:
        for start, ends in arrows.items():
            for end, names in ends.items():
                found[start][end] |= names
    return found


def problems(source: Path, tangled: Mapping[str, str] = MappingProxyType({})) -> list[list[str]]:
    """The circles of the crate whose sources are in this folder: for each who is in it, then what ties it."""
    root = crate(source)
    arrows = side_by_side(joined(between_files(root), between_methods(root)))
    found, known = [], {source / folder / name for folder, names in tangled.items() for name in names.split()}
    round_trips = circles(arrows)
    for group in round_trips:
        if {path.with_suffix("") for path in group} <= known:
            continue
        shown = {path: str(path.relative_to(source)) for path in group}
        ties = [(start, end) for start in group for end in group if end in arrows.get(start, {})]
        said = [
            f"{shown[start]} -> {shown[end]}: {', '.join(sorted(arrows[start][end]))}" for start, end in ties
        ]
        found.append([f"a circle of {', '.join(shown.values())}", *said])
    straight = known - {path.with_suffix("") for group in round_trips for path in group}
    found += [
        [f"{path.relative_to(source)} is in no circle: take it out of TANGLED"] for path in sorted(straight)
    ]
    return found


def main() -> int:
    """Check the crates; the exit status."""
    count = 0
    for name in sys.argv[1:] or CRATES:
        for first, *ties in problems(ROOT / "crates" / name / "src", TANGLED.get(name, {})):
            print(f"{name}: {first}", *(f"    {tie}" for tie in ties), sep="\n")
            count += 1
    print(f"{count} circles between files or folders")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
