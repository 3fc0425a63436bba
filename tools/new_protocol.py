"""Begins a protocol: its module with a unit test, its page, its registration, its Python test.

    python3 tools/new_protocol.py NAME        e.g. masked-sum; then build, and see `make test` pass

What it writes works at once, as `plain` does, and hides nothing: the idea is yours. It changes the list of
protocols in the crate, the list of pages with pictures, and the slow model of what jobs say, and it writes
the vectors of options again. What comes next is said at the end, and in CONTRIBUTING.md.

Nothing is written where the name is taken, or where a file does not look as expected.
"""

from __future__ import annotations

import argparse
import re
import string
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "tools" / "protocol"
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
WORDS_OF_RUST = re.compile(
    "as|async|await|box|break|const|continue|crate|do|dyn|else|enum|extern|false|fn|for|gen|if|impl|in|let|loop"
    "|match|mod|move|mut|pub|ref|return|self|static|struct|super|trait|true|try|type|unsafe|use|where|while|yield"
)
"""Names that no module can have."""

MAX_NAME = 40

NEXT = """\
{count} files written or changed. Next:

  make .state/debug                          builds the native module with it
  .venv/bin/python tools/options.py          its Python class, and its part of docs/options.md
  .venv/bin/python tools/pictures.py         its stages on its page
  cargo test -p blindsum-protocol {module}
  .venv/bin/pytest python/tests/test_{module}.py
  make test

Then write it: CONTRIBUTING.md, "Adding a protocol", says what belongs to one."""


class RefusedError(Exception):
    """What is wrong, where, and what to do."""


@dataclass(frozen=True)
class Names:
    """A protocol's name as users, modules and types have it: masked-sum, masked_sum, MaskedSum."""

    name: str

    @property
    def module(self) -> str:
        """The name of its folder and of its Python test."""
        return self.name.replace("-", "_")

    @property
    def type(self) -> str:
        """The name of its table of options."""
        return "".join(part.capitalize() for part in self.name.split("-"))

    def filled(self, template: str) -> str:
        """A template with the names in it."""
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        return string.Template(text).substitute(name=self.name, type=self.type, module=self.module)


def checked(name: str, root: Path) -> Names:
    """The names of a protocol that does not exist yet."""
    if not NAME.fullmatch(name) or len(name) > MAX_NAME:
        rule = f"must be at most {MAX_NAME} small letters and digits, with single hyphens between"
        raise RefusedError(f"NAME: {name!r} {rule}: give another one, e.g. masked-sum")
    names = Names(name)
    if WORDS_OF_RUST.fullmatch(names.module):
        raise RefusedError(f"NAME: {name!r} is a word of Rust: give another one, e.g. {name}-sum")
    protocols = root / "crates/protocol/src/protocols"
    tables = "\n".join(path.read_text(encoding="utf-8") for path in protocols.rglob("*.rs"))
    taken = re.search(rf'\b{names.type} = |= "{re.escape(name)}";', tables)
    if taken or (protocols / names.module).exists():
        raise RefusedError(f"NAME: there is a protocol {name!r} in {protocols}: give another name")
    return names


def written(names: Names, root: Path) -> dict[Path, str]:
    """Every file, new or changed, with its text."""
    folder = root / "crates/protocol/src/protocols" / names.module
    new = {
        folder / f"{part}.rs": names.filled(f"{part}.rs.in") for part in ("mod", "client", "server", "tests")
    }
    new[root / "docs/protocols" / f"{names.name}.md"] = names.filled("page.md.in")
    new[root / "python/tests" / f"test_{names.module}.py"] = names.filled("test.py.in")
    for path in new:
        if path.exists():
            raise RefusedError(f"{path}: is there already: give another NAME, or remove it")
    changed = {
        root / "crates/protocol/src/lib.rs": lambda text: registered(text, names),
        root / "tools/pictures.py": lambda text: behind(
            text,
            r'        "mpc3": by_adversary\("mpc3"\),\n',
            f'        "{names.name}": [Picture("A round", job("{names.name}"))],\n',
        ),
        root / "vectors/model/said.py": lambda text: behind(
            text, r"PROTOCOLS: .* = \{\n(?:    .*\n)+", f'    "{names.name}": {{}},\n'
        ),
    }
    for path, change in changed.items():
        try:
            new[path] = change(path.read_text(encoding="utf-8"))
        except LookupError as error:
            raise RefusedError(
                f"{path}: does not look as expected ({error}): add {names.name} by hand"
            ) from error
    return new


def registered(text: str, names: Names) -> str:
    """The crate's root, with the module in its list, in order, and the table at the end of the choice."""
    block = re.search(r"mod protocols \{\n((?:    pub\(crate\) mod \w+;\n)+)\}", text)
    if block is None:
        raise LookupError("no list of modules")
    lines = sorted([*block[1].splitlines(keepends=True), f"    pub(crate) mod {names.module};\n"])
    text = text[: block.start(1)] + "".join(lines) + text[block.end(1) :]
    return behind(
        text,
        r"    ProtocolName, ProtocolTable;\n(?:    \w+::\w+,\n)+",
        f"    {names.module}::{names.type},\n",
    )


def behind(text: str, pattern: str, line: str) -> str:
    """A text with a line behind what is found in it once."""
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        raise LookupError(f"{pattern!r} is there {len(found)} times")
    return text[: found[0].end()] + line + text[found[0].end() :]


def main() -> int:
    """Write, and say what comes next; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", metavar="NAME", help="the protocol's name, e.g. masked-sum")
    name = parser.parse_args().name
    try:
        names = checked(name, ROOT)
        files = written(names, ROOT)
    except RefusedError as error:
        print(f"new_protocol: error: {error}", file=sys.stderr)
        return 2
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
    subprocess.run([sys.executable, "vectors/make.py", "options"], cwd=ROOT, check=True)
    print(NEXT.format(count=len(files), module=names.module))
    return 0


if __name__ == "__main__":
    sys.exit(main())
