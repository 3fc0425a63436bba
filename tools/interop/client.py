"""The command line: python client.py URL --job NAME --ca FILE --identity PREFIX --train MODULE:FUNCTION."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import liar
from party import Party, Settings, Train


def training(text: str) -> Train:
    """A function (model, round) -> (update, weight); an update alone has a weight of 1."""
    module, _, function = text.partition(":")
    sys.path.insert(0, ".")
    found = getattr(importlib.import_module(module), function)

    def train(model: list[float], number: int) -> tuple[list[float], int]:
        made = found(model, number)
        update, weight = made if isinstance(made, tuple) else (made, 1)
        return [float(value) for value in update], int(weight)

    return train


def tell(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Take part in a job of Blindsum.")
    parser.add_argument("url", help="https://HOST:PORT")
    parser.add_argument("--job", required=True)
    parser.add_argument("--ca", required=True, type=Path)
    parser.add_argument("--identity", required=True, help="PREFIX.pem and PREFIX.key")
    parser.add_argument("--crl", type=Path)
    parser.add_argument("--train", required=True, help="MODULE:FUNCTION, called with the model and the round")
    parser.add_argument("--server-name")
    parser.add_argument("--state", type=Path, help="file that remembers the latest round and survivor sets")
    parser.add_argument("--protocols", default="secagg,secagg+", help="plain must be named")
    parser.add_argument("--adversaries", default="active", help="semi-honest must be named")
    parser.add_argument("--min-cohort", type=int, default=3)
    parser.add_argument("--min-change", type=int, default=0, help="least difference of two survivor sets")
    parser.add_argument("--lie", choices=sorted(liar.LIES), help="for tests: break the protocol like this")
    parser.add_argument("--round", type=int, default=1, help="the first round in which to lie")
    parser.add_argument("--always", action="store_true", help="lie in every round from then on")
    args = parser.parse_args()
    settings = Settings(
        url=args.url,
        job=args.job,
        ca=args.ca,
        cert=Path(f"{args.identity}.pem"),
        key=Path(f"{args.identity}.key"),
        train=training(args.train),
        crl=args.crl,
        server_name=args.server_name,
        state=args.state,
        protocols=tuple(args.protocols.split(",")),
        adversaries=tuple(args.adversaries.split(",")),
        min_cohort=args.min_cohort,
        min_change=args.min_change,
        tell=tell,
    )
    party = liar.Liar(settings, args.lie, args.round, args.always) if args.lie else Party(settings)
    return 0 if party.run() else 1


if __name__ == "__main__":
    sys.exit(main())
