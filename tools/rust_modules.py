"""Finds the modules of a crate, by reading: what each defines and names, and what a path in it means.

Nothing is built. What is for tests only is left out, and what comes from another crate means nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

COMMENT = r"//[^\n]*|/\*.*?\*/"
TEXT = r'b?r(?P<hashes>#*)".*?"(?P=hashes)' + r"|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\[^u]|\\u\{\w+\}|[^\\'])'"
TOKEN = re.compile(rf"{COMMENT}|{TEXT}|'\w+|(?P<token>\w+|::|->|=>|\S)", re.DOTALL)
ITEM = re.compile(r"fn|struct|enum|union|trait|type|static|const|macro_rules")
ONLY_IN_TESTS = re.compile(r"cfg \( (all \( )?test\b")
NAME = re.compile(r"[^\W\d]\w*")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(eq=False)
class Module:
    """A module: what it defines, what it lets in from elsewhere, and what it names."""

    file: Path
    parent: Module | None = None
    items: set[str] = field(default_factory=set)
    children: dict[str, Module] = field(default_factory=dict)
    # What macros may define: the names they are called with.
    made: set[str] = field(default_factory=set)
    # What `use` calls by another path.
    aliases: dict[str, list[str]] = field(default_factory=dict)
    globs: list[list[str]] = field(default_factory=list)
    # Paths of one name may mean what a glob lets in.
    paths: list[list[str]] = field(default_factory=list)
    # The number of fields of each struct with names for them.
    fields: dict[str, int] = field(default_factory=dict)
    # Of each `impl`: the path of its type, the methods that it defines, and those that it calls on itself.
    # Then whether a trait asks for them.
    methods: list[tuple[list[str], set[str], set[str], bool]] = field(default_factory=list)

    def everything(self) -> Iterator[Module]:
        """It and all below it."""
        yield self
        for child in self.children.values():
            yield from child.everything()

    def above(self) -> Iterator[Module]:
        """It and all above it."""
        yield self
        if self.parent:
            yield from self.parent.above()

    def files_above(self) -> set[Path]:
        """Its file and those of the modules above it."""
        return {module.file for module in self.above()}

    def find(self, path: list[str], seen: tuple[object, ...] = ()) -> tuple[Module, str] | Module | None:
        """What a path means here: a module, or an item of one. None where it is of another crate."""
        (first, *rest), here = path, (self, *path)
        if here in seen:
            return None
        known = {"crate": [*self.above()][-1], "self": self, "super": self.parent, **self.children}
        if first in self.items and not (rest and first in self.children):
            return self, first
        if first in known:
            return known[first].find(rest, seen) if rest and known[first] else known[first]
        if first in self.aliases and (found := self.find(self.aliases[first], (*seen, here))):
            return found.find(rest, (*seen, here)) if rest and isinstance(found, Module) else found
        for glob in self.globs:
            inside = self.find(glob, (*seen, here))
            if isinstance(inside, Module) and (found := inside.find(path, (*seen, here))):
                return found
        return (self, first) if first in self.made else None


def tokens(text: str) -> list[str]:
    """The words and signs of a file, without comments and texts."""
    return [found["token"] for found in TOKEN.finditer(text) if found["token"]]


def closed(words: list[str], at: int) -> int:
    """Where the bracket that opens here is closed."""
    depth = 0
    for place in range(at, len(words)):
        depth += (words[place] in BRACKETS) - (words[place] in BRACKETS.values())
        if depth == 0:
            return place
    raise ValueError(f"{words[at]} is never closed")


def end_of_item(words: list[str], at: int) -> int:
    """Where the item ends that begins here, maybe with attributes."""
    while words[at] not in ("{", ";", *BRACKETS.values()):
        at = closed(words, at) + 1 if words[at] in BRACKETS else at + 1
    return closed(words, at) if words[at] == "{" else at


def imports(words: list[str], before: list[str]) -> Iterator[tuple[list[str], str]]:
    """The paths of a `use`, and the name that it gives to each."""
    path, name = [*before], ""
    for at, word in enumerate(words):
        if word == "{":
            start = at + 1
            for end in range(start, closed(words, at) + 1):
                inside = words[start:end]
                if words[end] in (",", "}") and sum((w == "{") - (w == "}") for w in inside) == 0:
                    yield from imports(inside, path)
                    start = end + 1
            return
        if word == "as":
            name = words[at + 1]
            break
        if word != "::" and not (word == "self" and path):
            path.append(word)
    if words:
        yield path, name or path[-1]


def read(words: list[str], module: Module, folder: Path) -> None:
    """Note what the words of a file, or of a module in it, define and name; read the modules below."""
    at = depth = 0
    while at < len(words):
        word, after = words[at], words[at + 1 : at + 3]
        if word == "#" and "[" in after:
            at = end_of_attribute(words, at + 1 + after.index("["))
        elif word == "mod" and after[1] in (";", "{"):
            at = read_module(words, at, module, folder)
        elif word == "use" and after[0] != "<":
            end = words.index(";", at)
            note_imports(words[at + 1 : end], module)
            at = end
        else:
            if depth == 0 and word == "impl":
                note_methods(words, at + 1, module)
            if depth == 0 and word == "struct":
                note_fields(words, at + 1, module)
            depth += (word in BRACKETS) - (word in BRACKETS.values())
            if depth == 0 and ITEM.fullmatch(word):
                module.items.add(after[1] if after[0] == "!" else after[0])
            elif depth == 0 and after[:1] == ["!"] and after[1] in BRACKETS:
                note_made(words[at + 3 : closed(words, at + 2)], module)
            elif NAME.fullmatch(word):
                end = at + 1
                while words[end : end + 1] == ["::"] and NAME.fullmatch(words[end + 1]):
                    end += 2
                if words[at - 1 : at] != ["::"]:
                    module.paths.append(words[at:end:2])
                at = end - 1
        at += 1


def note_methods(words: list[str], at: int, module: Module) -> None:
    """Note the methods of the `impl` whose head begins here, and those that they call on `self`."""
    at = after_generics(words, at)
    start = words.index("{", at)
    head = words[at:start]
    head = head[: head.index("where")] if "where" in head else head
    # A trait may have a `for<'a>` of its own, which comes before or inside its angle brackets.
    fors = [place for place, word in enumerate(head) if word == "for" and head[place + 1] != "<"]
    head = head[fors[-1] + 1 :] if fors else head
    path = [word for word in head[: head.index("<") if "<" in head else None] if NAME.fullmatch(word)]
    defined, called, depth, end = set(), set(), 0, closed(words, start)
    place = start + 1
    while place < end:
        match words[place : place + 4]:
            case ["#", "[", *_]:
                place = end_of_attribute(words, place + 1)
            case ["fn", name, *_] if depth == 0:
                defined.add(name)
            case ["self", ".", name, "(" | "::"] | ["Self", "::", name, "(" | ")" | ","]:
                called.add(name)
            case _:
                depth += (words[place] in BRACKETS) - (words[place] in BRACKETS.values())
        place += 1
    if path:
        module.methods.append((path, defined, called, bool(fors)))


def note_fields(words: list[str], at: int, module: Module) -> None:
    """Note how many fields the struct has whose name stands here, if they have names."""
    start = next(place for place in range(at, len(words)) if words[place] in ("{", ";", "("))
    if words[start] != "{":
        return
    count, depth, place, end = 0, 0, start + 1, closed(words, start)
    while place < end:
        word = words[place]
        if depth == 0 and word == "#":
            place = end_of_attribute(words, place + 1)
        elif depth == 0 and word == ":" and NAME.fullmatch(words[place - 1]):
            count += 1
        depth += (word in BRACKETS) - (word in BRACKETS.values())
        place += 1
    module.fields[words[at]] = count


def after_generics(words: list[str], at: int) -> int:
    """Where the angle brackets end that may open here."""
    depth = 0
    while depth or words[at] == "<":
        depth += (words[at] == "<") - (words[at] == ">")
        at += 1
    return at


def end_of_attribute(words: list[str], at: int) -> int:
    """Where the attribute ends whose bracket opens here, with its item where that is for tests only."""
    end = closed(words, at)
    return end_of_item(words, end + 1) if ONLY_IN_TESTS.match(" ".join(words[at + 1 : end])) else end


def read_module(words: list[str], at: int, module: Module, folder: Path) -> int:
    """Read the module that is declared here, in its file or in place; where its declaration ends."""
    name, below = words[at + 1], folder / words[at + 1]
    if words[at + 2] == "{":
        end = closed(words, at + 2)
        module.children[name] = child = Module(module.file, module)
        read(words[at + 3 : end], child, below)
        return end
    beside = folder / f"{name}.rs"
    file = beside if beside.exists() else below / "mod.rs"
    module.children[name] = child = Module(file, module)
    read(tokens(file.read_text()), child, below)
    return at + 2


def note_imports(words: list[str], module: Module) -> None:
    """Note what a `use` lets in."""
    for path, name in imports(words, []):
        if name == "*":
            module.globs.append(path[:-1])
        else:
            module.aliases[name] = path
            module.paths.append(path)


def note_made(words: list[str], module: Module) -> None:
    """Note the names that a macro is called with: it may define them, or let them in by a path."""
    module.made |= {name for name in words if name[0].isupper()}
    for start, sign, name in zip(words, words[1:], words[2:], strict=False):
        if sign == "::" and name[0].isupper():
            module.aliases.setdefault(name, [start, name])


def crate(source: Path) -> Module:
    """Read a crate, from the top file in the folder of its sources."""
    top = next(path for path in (source / "lib.rs", source / "main.rs") if path.exists())
    root = Module(top)
    read(tokens(top.read_text()), root, source)
    return root
