"""Writes the test vectors, or checks that the files are what the model says.

    python3 vectors/make.py            write every file
    python3 vectors/make.py --check    compare, exit 1 at the first difference

Each topic is one module in ``model/`` with a function ``vectors()`` and becomes ``<topic>.json``.
The models use nothing but the standard library and share no code with what they check.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

TOPICS = [
    "shamir",
    "words",
]


def render(topic: str) -> str:
    """The text of one vector file."""
    module = importlib.import_module(f"model.{topic}")
    return json.dumps(module.vectors(), indent=1) + "\n"


def main() -> int:
    """Writes or checks all files; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    sys.path.insert(0, str(HERE))
    for topic in TOPICS:
        path = HERE / f"{topic}.json"
        text = render(topic)
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.name} differs from its model; run vectors/make.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
