"""Checks that relative links in the documentation lead somewhere.

    python3 tools/links.py

Looks at every Markdown file of the repository's top folder, of docs/, examples/, experiments/, tools/ and
vectors/: the file or folder must exist, and so must the heading where the link has one. Exit status 1 with
one line per broken link.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Names of the headings of a file, as web views of repositories make them."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {word.replace(" ", "-") for word in words}


def broken(path: Path) -> list[str]:
    """Say what is wrong with the links of a file."""
    problems = []
    for target in LINK.findall(CODE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (path.parent / name).resolve() if name else path
        if not place.exists():
            problems.append(f"{path.relative_to(ROOT)}: {target}: no such file")
        elif anchor and place.suffix == ".md" and anchor not in anchors(place):
            problems.append(f"{path.relative_to(ROOT)}: {target}: no such heading")
    return problems


def main() -> int:
    """Check every file; the exit status."""
    folders = [ROOT / name for name in ("docs", "examples", "experiments", "tools", "vectors")]
    files = sorted([*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))])
    problems = [problem for path in files for problem in broken(path)]
    print("\n".join([*problems, f"{len(files)} files, {len(problems)} broken links"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
