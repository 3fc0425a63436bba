"""Writes the test vectors, or checks that the files are what the model says.

    python3 vectors/make.py            write every file
    python3 vectors/make.py --check    compare, name every file that differs, exit 1 if there is one
    python3 vectors/make.py masks      only masks.json

Each topic is one module in ``model/`` with a function ``vectors()`` and becomes ``<topic>.json``.
The models use nothing but the standard library and share no code with what they check.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent

TOPICS = [
    "aciq",
    "connection",
    "crypto",
    "encoding",
    "flashe",
    "flashe_rounds",
    "flashe_sparse",
    "flashe_sparse_rounds",
    "graph",
    "masks",
    "metrics",
    "model",
    "mpc3",
    "mpc_rules",
    "numbers",
    "options",
    "paillier",
    "paillier_rounds",
    "plain",
    "privacy",
    "pss_malicious",
    "ramp",
    "ramp_rounds",
    "round",
    "secagg",
    "shamir",
    "sparse",
    "words",
]
WIDTH = 110


def render(value: object, indent: int = 0) -> str:
    """JSON in which whatever fits is on one line."""
    line = json.dumps(value)
    if indent + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        names = {json.dumps(name) + ": ": inner for name, inner in value.items()}
        inside = [pad + name + render(inner, indent + 1) for name, inner in names.items()]
    else:
        inside = [pad + render(inner, indent + 1) for inner in value]
    opening, closing = line[0], line[-1]
    return opening + "\n" + ",\n".join(inside) + "\n" + " " * indent + closing


def text_of(topic: str) -> str:
    """Text of one vector file."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    return render(importlib.import_module(f"model.{topic}").vectors()) + "\n"


def main() -> int:
    """Write or check all files; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="only these; default: all")
    arguments = parser.parse_args()
    topics = arguments.topics or TOPICS
    status = 0
    with ProcessPoolExecutor() as processes:
        texts = list(processes.map(text_of, topics))
    for topic, text in zip(topics, texts, strict=True):
        path = HERE / f"{topic}.json"
        if not arguments.check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.name} differs from its model; run vectors/make.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
