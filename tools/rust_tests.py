"""Finds the tests of the workspace, by reading: the names that `cargo test` and `pytest` know them by.

Nothing is built, so that a filter which matches no test is noticed by whoever changes a name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?mod (\w+) \{")
TEST = re.compile(r"^\s*#\[(?:tokio::)?test\b")
FUNCTION = re.compile(r"^\s*(?:async )?fn (\w+)")
# Lists of tests that a macro makes for each of several protocols.
MACRO = re.compile(r"^\w+! \{$")
LISTED = re.compile(r"^    (\w+)$")
PYTHON_TEST = re.compile(r"^\s*def (test_\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Test:
    """One test, or the documentation tests of a file."""

    # From the top of the repository.
    file: str
    # As in `-p`; "pytest" for Python.
    package: str
    # "lib", "doc", "bin", or the name of an integration test.
    target: str
    # With its modules; for documentation tests the file.
    name: str

    @property
    def function(self) -> str:
        """The last part of its name."""
        return self.name.rsplit("::", 1)[-1]


@dataclass(frozen=True)
class Selection:
    """What the arguments of `cargo test`, or of pytest behind that word, select."""

    packages: tuple[str, ...]
    targets: tuple[str, ...]
    # A test whose name has one of these in it; all where there are none.
    filters: tuple[str, ...]

    @classmethod
    def of(cls, arguments: str) -> Selection:
        """Read the arguments."""
        words = iter(shlex.split(arguments))
        packages, targets, filters = [], [], []
        for word in words:
            match word:
                case "pytest":
                    packages.append("pytest")
                    targets.append(next(words, ""))
                case "-p":
                    packages.append(next(words, ""))
                case "--test":
                    targets.append(next(words, ""))
                case "--lib" | "--doc":
                    targets.append(word.removeprefix("--"))
                case "--":
                    filters += list(words)
                case "-k":
                    filters += [part for part in next(words, "").split() if part not in ("or", "and", "not")]
                case other:
                    raise SystemExit(f"tools/rust_tests.py: {arguments!r}: {other} is not understood")
        return cls(tuple(packages), tuple(targets), tuple(filters))

    def among(self, tests: list[Test]) -> list[Test]:
        """The tests that are selected."""
        return [test for test in tests if self.has(test) and self.matches(test.name)]

    def has(self, test: Test) -> bool:
        """Whether the test is in what is built."""
        return test.package in self.packages and test.target in self.targets

    def matches(self, name: str) -> bool:
        """Whether a test of this name is run."""
        return not self.filters or any(filter in name for filter in self.filters)

    def idle(self, names: list[str]) -> list[str]:
        """The filters that match none of these names."""
        return [filter for filter in self.filters if not any(filter in name for name in names)]


@cache
def all_tests() -> list[Test]:
    """Every test of the workspace."""
    found: list[Test] = []
    for crate in sorted(path.parent for path in ROOT.glob("crates/*/Cargo.toml")):
        package = f"blindsum-{crate.name}"
        for path in sorted(crate.glob("src/**/*.rs")):
            file, module = str(path.relative_to(ROOT)), modules(path.relative_to(crate / "src"))
            text = path.read_text()
            found += [Test(file, package, "lib", name) for name in names(text, module)]
            if "```" in text:
                found.append(Test(file, package, "doc", file))
        for path in sorted(crate.glob("tests/**/*.rs")):
            inside = path.relative_to(crate / "tests")
            target = inside.parts[0].removesuffix(".rs")
            module = modules(Path(*inside.parts[1:])) if len(inside.parts) > 1 else []
            file = str(path.relative_to(ROOT))
            found += [Test(file, package, target, name) for name in names(path.read_text(), module)]
    for path in sorted(ROOT.glob("python/tests/*.py")):
        file = str(path.relative_to(ROOT))
        tests = PYTHON_TEST.findall(path.read_text())
        found += [Test(file, "pytest", file, name) for name in tests]
    return found


def modules(path: Path) -> list[str]:
    """The modules that a file stands for."""
    parts = [*path.parts[:-1], path.stem]
    return parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts


def names(text: str, module: list[str]) -> Iterator[str]:
    """The tests in a file, with their modules."""
    inner: list[tuple[str, str]] = []
    marked = listing = False
    for line in text.splitlines():
        if MACRO.match(line):
            listing = True
        elif line == "}" and listing:
            listing = False
        elif listing and (listed := LISTED.match(line)):
            yield "::".join([*module, listed[1]])
        elif opened := MODULE.match(line):
            inner.append((opened[1], opened[2]))
        elif inner and line == f"{inner[-1][0]}}}":
            inner.pop()
        elif TEST.match(line):
            marked = True
        elif marked and (function := FUNCTION.match(line)):
            yield "::".join([*module, *(name for _, name in inner), function[1]])
            marked = False
