"""Takes one defence out at a time and sees whether the tests of its case turn red.

    python3 tools/mutants.py                 all of them (hours on a small machine)
    python3 tools/mutants.py 1 33            those of some cases
    python3 tools/mutants.py witness-rule    by name
    python3 tools/mutants.py --list [...]    what there is
    python3 tools/mutants.py --check         only that each one still fits its file and each case has one

A defence has a name in the code, in a comment above its line: `// guard: one-beginning`. A mutant of this
name, an entry of a file in tools/mutants, is a small patch: the numbered cases whose tests must notice it,
what the defence is, the text that is taken out, which is the first of its kind after the name, the text that
takes its place, and the tests that must fail, as arguments of `cargo test` or of `pytest` (the entry says
which by the first word). White space does not count, so code may move to another file or depth. The patch is
applied, the tests are built and run, and the file is put back, also on Ctrl-C.

Of each of its cases a test must fail, or reach its time limit, as one does that waits for what no longer
comes. A mutant that does not build proves nothing, nor does one that crashes the tests, nor a filter that
matches no test. Exit status 1 if a mutant survives or does not fit.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rust_tests import Selection, Test, all_tests

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "tools" / "mutants"
# Cases that have tests and no mutant, and why.
EXCEPTIONS = {
    35: "shows stated limits of FLASHE and of Paillier: there is no defence to take out",
}
RAN = re.compile(r"^test (.+?)(?: - should panic| - compile fail)? \.\.\. (\w+)", re.MULTILINE)
FAILED_IN_PYTHON = re.compile(r"^FAILED (\S+?)(?:\[\S+)?(?: |$)", re.MULTILINE)
OVERDUE = re.compile(r"^test_rust: \S+: over the limit of \d+ s: (.+)$", re.MULTILINE)
CRASHED = re.compile(r"^test_rust: .+: ended by |^test_rust: .+: no test is said to be slow", re.MULTILINE)
# Seconds for a test: fewer than in `make test`, since some mutants make it wait for ever.
LIMIT = "120"
GUARD = re.compile(r"^[ \t]*(?://|#|--) guard: (.+)$", re.MULTILINE)
SOURCES = ("crates/**/*.rs", "python/blindsum/**/*.py", "proto/*.proto")
# Lines from the name of a defence to the text that is taken out.
REACH = 12
TOKEN = re.compile(r"\w+|[^\w\s]")
# What may be between two words: white space, and guards.
BETWEEN = r"(?:\s|(?://|#|--) guard: [^\n]*\n)*"
WORD = re.compile(r"\w")
FUNCTION = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:fn|def) (\w+)")


@dataclass(frozen=True)
class Mutant:
    """A patch that takes a defence out."""

    # As in the code.
    name: str
    # Whose tests must notice.
    cases: tuple[int, ...]
    # What is taken out, in a line.
    defence: str
    old: str
    new: str
    # Arguments of `cargo test`, or of pytest behind the word.
    test: str

    def selected(self) -> list[Test]:
        """The tests that its arguments select."""
        return Selection.of(self.test).among(all_tests())

    @property
    def file(self) -> str:
        """The file with the defence, from the top of the repository."""
        return guards()[self.name][0]

    def fault(self) -> str | None:
        """What keeps the patch from being applied."""
        places = guards().get(self.name, [])
        if len(places) != 1:
            where = f" ({', '.join(places)})" if places else ""
            return f"the code has {len(places)} guards of this name, must have one{where}"
        return None if self.span() else f"its text is not within {REACH} lines of the guard in {places[0]}"

    def span(self) -> tuple[int, int] | None:
        """Where the text is that is taken out: from, to."""
        text = (ROOT / self.file).read_text()
        start = next(found.end() for found in GUARD.finditer(text) if self.name in names_of(found))
        found = pattern(self.old).search(text, start)
        if found is None or text.count("\n", start, found.start()) > REACH:
            return None
        return found.span()

    def place(self) -> tuple[str, str]:
        """The function that the patch is in, and the first line of the code that it changes."""
        span = self.span()
        assert span is not None
        text = (ROOT / self.file).read_text()
        before = text[: span[0]].splitlines()
        line = text[text.rfind("\n", 0, span[0]) + 1 :].splitlines()[0]
        names = (found[1] for at in reversed([*before, line]) if (found := FUNCTION.match(at)))
        return next(names, ""), line.strip()


def names_of(guard: re.Match[str]) -> list[str]:
    """The names in a comment with guards."""
    return [name.strip() for name in guard[1].split(",")]


@functools.cache
def guards() -> dict[str, list[str]]:
    """The files in which each guard is named."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for glob in SOURCES for path in ROOT.glob(glob)):
        for guard in GUARD.finditer(path.read_text()):
            for name in names_of(guard):
                found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def pattern(text: str) -> re.Pattern[str]:
    """What finds a text of code, with any white space and guards between its words."""
    words = TOKEN.findall(text)
    found = re.escape(words[0])
    for before, word in itertools.pairwise(words):
        is_apart = WORD.match(before) and WORD.match(word)
        found += (r"(?=\W)" if is_apart else "") + BETWEEN + re.escape(word)
    whole = (r"(?<!\w)" if WORD.match(words[0]) else "", r"(?!\w)" if WORD.match(words[-1]) else "")
    return re.compile(whole[0] + found + whole[1])


def mutants() -> list[Mutant]:
    """Read the tables."""
    found = []
    for table in sorted(TABLES.glob("*.toml")):
        for entry in tomllib.loads(table.read_text())["mutant"]:
            cases = tuple(entry.pop("cases"))
            try:
                found.append(Mutant(cases=cases, **entry))
            except TypeError as error:
                raise SystemExit(f"tools/mutants.py: {table.name}: {entry.get('name')}: {error}") from None
    return found


def check(every: list[Mutant], tests: dict[int, set[tuple[str, str]]]) -> list[str]:
    """What is wrong with the tables, where the cases have these tests: (file, name)."""
    cases = set(tests)
    wrong = [f"{mutant.name}: {fault}" for mutant in every if (fault := mutant.fault())]
    for mutant in every:
        selected = mutant.selected()
        idle = Selection.of(mutant.test).idle([test.name for test in selected])
        wrong += [f"{mutant.name}: no test is selected by {filter}" for filter in idle]
        for case in mutant.cases:
            if not any(shows(test, tests.get(case, set())) for test in selected):
                wrong.append(f"{mutant.name}: no test of case {case} is selected by {mutant.test}")
    names = [mutant.name for mutant in every]
    unused = sorted(set(guards()) - set(names))
    wrong += [f"guard {name} in {', '.join(guards()[name])}: no mutant has this name" for name in unused]
    wrong += [f"{name}: two mutants have this name" for name in sorted(set(names)) if names.count(name) > 1]
    covered = {case for mutant in every for case in mutant.cases}
    wrong += [f"case {case} has tests and no mutant" for case in sorted(cases - covered - set(EXCEPTIONS))]
    wrong += [f"case {case} has a mutant and no test" for case in sorted(covered - cases)]
    wrong += [f"case {case} is no exception: it has a mutant" for case in sorted(covered & set(EXCEPTIONS))]
    return wrong


def shows(test: Test, of_case: set[tuple[str, str]]) -> bool:
    """Whether a test is one of a case."""
    name = "compile_fail" if test.target == "doc" else test.function
    return (test.file, name) in of_case


@contextlib.contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The file with the patch, as long as the block runs."""
    path, span = ROOT / mutant.file, mutant.span()
    assert span is not None
    original = path.read_bytes()
    text = original.decode()
    try:
        path.write_text(text[: span[0]] + mutant.new + text[span[1] :])
        yield
    finally:
        path.write_bytes(original)


def commands(mutant: Mutant) -> tuple[list[str], list[str]]:
    """How its tests are built, and how they are run."""
    first, *rest = shlex.split(mutant.test)
    if first == "pytest":
        return ["make", ".state/debug"], [str(ROOT / ".venv" / "bin" / "pytest"), *rest]
    arguments = [first, *rest]
    build = arguments[: arguments.index("--")] if "--" in arguments else arguments
    # Documentation tests are built when they are run.
    built = [argument for argument in build if argument != "--doc"]
    runner = [sys.executable, str(ROOT / "tools" / "test_rust.py"), "--limit", LIMIT, "--locked"]
    runner.append("--no-fail-fast")
    return ["cargo", "test", "--locked", "--no-run", *built], [*runner, *arguments]


def judge(mutant: Mutant, tests: dict[int, set[tuple[str, str]]]) -> tuple[bool, str]:
    """Whether the tests of its cases notice the patch, and what there is to say."""
    build, run = commands(mutant)
    with applied(mutant):
        built = output(build)
        if built.returncode != 0:
            return False, f"does not build:\n{built.stdout}"
        ran = output(run)
    if CRASHED.search(ran.stdout):
        return False, f"the tests were killed:\n{ran.stdout}"
    overdue = {name for names in OVERDUE.findall(ran.stdout) for name in names.split(", ")}
    names = [name for name, _ in RAN.findall(ran.stdout)] + [*overdue]
    failed = {name for name, outcome in RAN.findall(ran.stdout) if outcome == "FAILED"} | overdue
    if run[0] != sys.executable:
        # pytest says so itself where a filter selects nothing.
        failed = {name.split("::")[-1] for name in FAILED_IN_PYTHON.findall(ran.stdout)}
    elif not overdue and (idle := Selection.of(mutant.test).idle(names)):
        return False, f"no test was run by {', '.join(idle)}:\n{ran.stdout}"
    if not failed:
        return False, "SURVIVED" if ran.returncode == 0 else f"no test failed:\n{ran.stdout}"
    said = ", ".join(sorted(failed))
    red = {name.split(" ")[0].rsplit("::", 1)[-1] for name in failed}
    for case in mutant.cases:
        if not any(name in red or (name == "compile_fail" and file in red) for file, name in tests[case]):
            return False, f"no test of case {case} failed, only {said}"
    return True, said


def output(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command; its output and errors in one."""
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def chosen(every: list[Mutant], wanted: list[str]) -> list[Mutant]:
    """The mutants of these cases or names; all where nothing is wanted."""
    picked = [
        mutant
        for mutant in every
        if not wanted or mutant.name in wanted or {str(case) for case in mutant.cases} & set(wanted)
    ]
    known = {mutant.name for mutant in every} | {str(case) for mutant in every for case in mutant.cases}
    if unknown := set(wanted) - known:
        raise SystemExit(f"tools/mutants.py: no mutant and no case: {', '.join(sorted(unknown))}")
    return picked


def hunt(picked: list[Mutant], tests: dict[int, set[tuple[str, str]]]) -> int:
    """Try them one after the other; the exit status."""
    survivors = []
    for number, mutant in enumerate(picked, start=1):
        started = time.monotonic()
        cases = ", ".join(map(str, mutant.cases))
        print(f"[{number}/{len(picked)}] case {cases}: {mutant.name}: ", end="", flush=True)
        if fault := mutant.fault():
            noticed, said = False, fault
        else:
            noticed, said = judge(mutant, tests)
        if not noticed:
            survivors.append(mutant.name)
        print(f"{'red' if noticed else 'GREEN'} ({time.monotonic() - started:.0f} s): {said}", flush=True)
    print(f"mutants: {len(picked)} tried, not noticed: {', '.join(survivors) or 'none'}")
    return 1 if survivors else 0


def main() -> int:
    """Check, list or try; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only that the patches fit; builds nothing")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("wanted", nargs="*", help="numbers of cases or names of mutants (default: all)")
    options = parser.parse_args()
    every = mutants()
    # Which reads the mutants as well.
    from cases import tests_of_cases

    tests = tests_of_cases()
    if options.check:
        wrong = check(every, tests)
        print("".join(f"tools/mutants.py: {line}\n" for line in wrong), file=sys.stderr, end="")
        return 1 if wrong else 0
    picked = chosen(every, options.wanted)
    if options.list:
        for mutant in picked:
            print(
                f"{mutant.name}: case {', '.join(map(str, mutant.cases))}: {mutant.defence} ({mutant.file})"
            )
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ.setdefault("CARGO_INCREMENTAL", "1")
    # What finds a mutant is no regression of the code.
    os.environ["PROPTEST_DISABLE_FAILURE_PERSISTENCE"] = "1"
    try:
        return hunt(picked, tests)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
