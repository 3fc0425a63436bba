"""Checks that the Rust code of the wire, and of etcd's, is what `make schema` wrote from proto/.

    python3 tools/generated.py

Each file names, in its first line, the SHA-256 of the schema that it was made from and of the code behind
that line. So nobody who builds or tests the program needs to build what writes the code.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
CRATES = ROOT / "crates"
ETCD = CRATES / "etcd/src/generated.rs"
FOLDERS = (CRATES / "job/src/generated", CRATES / "net/src/generated")
FIRST_LINE = re.compile(rb"// Made by tools/schema from a schema with SHA-256 (\w+); the code has (\w+)\.\n")


def schema_of(path: Path) -> Path:
    """The schema of a file of generated code."""
    return PROTO / ("etcd.proto" if path == ETCD else "blindsum.proto")


def wrong(path: Path) -> str | None:
    """What is wrong with a file, if anything is."""
    content = path.read_bytes()
    line = FIRST_LINE.match(content)
    if line is None:
        return "its first line is not that of generated code"
    schema = schema_of(path)
    if line[1].decode() != hashlib.sha256(schema.read_bytes()).hexdigest():
        return f"it was made from another {schema.relative_to(ROOT)}"
    if line[2].decode() != hashlib.sha256(content[line.end() :]).hexdigest():
        return "it was changed by hand"
    return None


def main() -> int:
    """Name every file that is not as it was written; the exit status."""
    files = sorted([ETCD, *(path for folder in FOLDERS for path in folder.glob("*.rs"))])
    found = [(path, reason) for path in files if (reason := wrong(path))]
    for path, reason in found:
        print(f"{path.relative_to(ROOT)}: {reason}: run `make schema`")
    print(f"{len(files)} generated files, {len(found)} not as they were written")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
