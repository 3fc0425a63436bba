"""Checks that the package takes nothing out of the text of an error: what it needs is an attribute.

    python3 tools/branches.py

The text of an error is ``str(error)``, ``error.rule`` or ``error.reason``, or a name that it was assigned
to. It may be printed and be part of another text; it may not be cut, searched or compared.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/blindsum"

CUTS = {"removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"}
CUTS |= {"replace", "strip", "startswith", "endswith", "find", "index"}
"""Methods that cut a text or look into it; without an argument they only tidy its spaces."""

SEARCHES = {"match", "fullmatch", "search", "sub", "findall", "finditer", "split"}
"""Functions of ``re``, and methods of its patterns."""

ALLOWED = {"framework_jobs.errors_of_settings": "it translates names of settings for people"}
"""Functions that take something out of the text of an error, each with the reason."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def problems(package: Path, allowed: Mapping[str, str]) -> list[str]:
    """The lines that take something out of the text of an error, and exceptions that are not needed."""
    found, needed = list[str](), set[str]()
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, Function) and (lines := sorted(set(_uses(function)))):
                place = f"{name}.{function.name}"
                needed.add(place)
                if place not in allowed:
                    found += [f"{path.relative_to(package)}:{line}: {function.name}" for line in lines]
    return found + [f"{place} is allowed, and need not be" for place in sorted(set(allowed) - needed)]


def _uses(function: Function) -> Iterator[int]:
    errors = set(_errors(function))
    texts = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _is_text(node.value, errors, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=args):
                is_cut = method in CUTS and bool(args) and _is_text(value, errors, texts)
                if is_cut or (method in SEARCHES and any(_is_text(one, errors, texts) for one in args)):
                    yield node.lineno
            case ast.Compare(left=left, comparators=right):
                if any(_is_text(one, errors, texts) for one in (left, *right)):
                    yield node.lineno


def _errors(function: Function) -> Iterator[str]:
    """The names of errors in a function: what its handlers bind, and parameters of such a type."""
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if argument.annotation and ast.unparse(argument.annotation).endswith(("Error", "Exception")):
            yield argument.arg


def _is_text(node: ast.AST, errors: set[str], texts: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in texts
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in errors
        case ast.Attribute(value=ast.Name(id=name), attr="rule" | "reason"):
            return name in errors
        case ast.Call(func=ast.Attribute(value=value, attr=method)):
            return method in CUTS and _is_text(value, errors, texts)
    return False


def main() -> int:
    """Name every such line; the exit status."""
    found = problems(PACKAGE, ALLOWED)
    for line in found:
        print(f"{line}: nothing may depend on the text of an error: give the error an attribute")
    print(f"texts of errors: {len(found)} uses beyond printing, {len(ALLOWED)} allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
