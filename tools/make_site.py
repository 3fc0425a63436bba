"""Makes a site of the documentation, in build/site: open build/site/index.html, also without a server.

    .venv/bin/python tools/make_site.py

Pages link to each other and to files of the repository by their places there. So the site has the same
places. This copies the pages, and every file that one of them links to, into build/pages. Zensical makes the
site of that, strictly: a link to a page or heading that is not there ends it. Who reads the site asks nothing
of other machines: fonts are the reader's own, the search is in the site, and so are the SCRIPTS, which npm
brings once.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from links import CODE, LINK

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build/pages"
SITE = ROOT / "build/site"
KEPT = ROOT / ".tools/site"
"""Where scripts are kept from one time to the next."""
FIRST = ("README.md", "docs/index.md")
"""The pages that all others are reached from."""
OUTSIDE = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?(?:https?:)?//[^"'\s>]+|url\((?:https?:)?//"""
)
"""What would be fetched from another machine when a page is shown. Links to follow are no such thing."""


class SiteError(Exception):
    """Why there is no site, and what to do."""


@dataclass(frozen=True)
class Script:
    """A script that pages run, out of a package of the npm registry."""

    package: str
    version: str
    member: str
    file: str
    sha512: str


SCRIPTS = (
    Script(
        "mermaid",
        "12.3.0",
        "package/dist/mermaid.min.js",
        "mermaid.min.js",
        "4113TdXeLAsMruJ79OpFL5O8+LTFXhQqZ260rF3tgUmiNAtRm4Uume04I+65PRN6yZ69J4f8rVYWW8zRk65UYw==",
    ),
    Script(
        "iframe-worker",
        "1.0.4",
        "package/shim/index.js",
        "iframe-worker.js",
        "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q==",
    ),
)


def fetched(script: Script) -> Path:
    """The script; brought by npm if it is not there yet, and compared with its hash."""
    path = KEPT / f"{script.version}-{script.file}"
    if path.exists():
        return path
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        name = f"{script.package}@{script.version}"
        try:
            subprocess.run(
                ["npm", "pack", "--silent", name], cwd=folder, check=True, stdout=subprocess.DEVNULL
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise SiteError(
                f"npm could not bring {name}, a script of the site ({error}); install npm"
            ) from error
        (archive,) = Path(folder).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != script.sha512:
            raise SiteError(f"{name}: its SHA-512 is {digest}, must be {script.sha512}; do not use it")
        with tarfile.open(archive) as members:
            member = members.extractfile(script.member)
            assert member is not None
            path.write_bytes(member.read())
    return path


def linked(page: Path) -> set[Path]:
    """The files of the repository that a page links to."""
    found = set()
    for target in LINK.findall(CODE.sub("", page.read_text())):
        name = target.partition("#")[0]
        if name and not re.match(r"[a-z]+:", target):
            found.add((page.parent / name).resolve())
    return found


def reached() -> set[Path]:
    """Every file that the first pages lead to."""
    found: set[Path] = set()
    todo = {ROOT / name for name in FIRST}
    while todo:
        path = todo.pop()
        found.add(path)
        if path.suffix == ".md":
            todo |= {one for one in linked(path) if one.is_relative_to(ROOT)} - found
    return found


def place(path: Path) -> Path:
    """Where a file is below the pages: as in the repository, and README.md is the first page."""
    relative = path.relative_to(ROOT)
    if relative == Path("README.md"):
        return Path("index.md")
    return relative


def rewritten(page: Path) -> str:
    """A page whose links lead to the places of files in the site; a link to a folder becomes its words."""

    def moved(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        name, mark, anchor = target.partition("#")
        if not name or re.match(r"[a-z]+:", target):
            return match[0]
        path = (page.parent / name).resolve()
        if path.is_dir():
            return words
        relative = os.path.relpath(place(path), place(page).parent)
        return f"[{words}]({relative}{mark}{anchor})"

    pieces = re.split(f"({CODE.pattern})", page.read_text(), flags=re.DOTALL)
    links = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
    text = "".join(piece if CODE.fullmatch(piece) else links.sub(moved, piece) for piece in pieces)
    # Kinds of blocks that tests tell apart, as in "toml job", have no meaning here.
    return re.sub(r"^```(\w+) .*$", r"```\1", text, flags=re.MULTILINE)


def copy_pages() -> None:
    """Write build/pages anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for path in sorted(reached()):
        if path.is_dir():
            continue
        target = PAGES / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(rewritten(path))
        else:
            shutil.copyfile(path, target)
    for script in SCRIPTS:
        target = PAGES / "assets" / script.file
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(fetched(script), target)


def asks_others() -> list[str]:
    """What pages and styles of the site would fetch from other machines."""
    files = [*SITE.rglob("*.html"), *SITE.rglob("*.css")]
    return [
        f"{file.relative_to(SITE)}: {found}" for file in files for found in OUTSIDE.findall(file.read_text())
    ]


def main() -> int:
    """Make it; the exit status."""
    try:
        copy_pages()
        shutil.rmtree(SITE, ignore_errors=True)
        subprocess.run(["zensical", "build", "--strict", "--clean"], cwd=ROOT, check=True)
        if problems := asks_others():
            raise SiteError("pages would fetch from other machines:\n" + "\n".join(problems[:20]))
        if not (SITE / "search.json").exists() and not list(SITE.rglob("search*.js*")):
            raise SiteError("the site has no index for its search; see the plugins in mkdocs.yml")
    except (SiteError, subprocess.CalledProcessError) as error:
        print(f"site: error: {error}", file=sys.stderr)
        return 1
    print(f"site: {len(list(SITE.rglob('*.html')))} pages; open build/site/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
