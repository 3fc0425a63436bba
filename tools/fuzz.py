"""Runs every fuzz target for a while.

    python3 tools/fuzz.py [--seconds 60] [TARGET ...]

Uses cargo-fuzz, which is installed into .tools if it is not on the PATH, and the nightly toolchain where
there is one (the stable one with its unstable options unlocked otherwise). What a target learns stays in
fuzz/corpus, what breaks it in fuzz/artifacts. Exit status 1 if a target found something.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
# Bytes of one input.
LONGEST = 4096
# MiB in total and at once, seconds for one input.
LIMITS = ("-rss_limit_mb=2048", "-malloc_limit_mb=256", "-timeout=20", f"-max_len={LONGEST}")


def targets() -> list[str]:
    """Names of the fuzz targets."""
    manifest = tomllib.loads((ROOT / "fuzz" / "Cargo.toml").read_text())
    return [binary["name"] for binary in manifest["bin"]]


def cargo_fuzz() -> tuple[list[str], dict[str, str]]:
    """The command to run cargo-fuzz with, and its environment."""
    environment = os.environ | {"PATH": f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    if shutil.which("cargo-fuzz", path=environment["PATH"]) is None:
        print("fuzz: installing cargo-fuzz into .tools", flush=True)
        install = ["cargo", "install", "--quiet", "--locked", "--root", str(TOOLS), "cargo-fuzz"]
        subprocess.run(install, check=True)
    nightly = subprocess.run(["cargo", "+nightly", "--version"], capture_output=True, check=False)
    if nightly.returncode == 0:
        return ["cargo", "+nightly", "fuzz"], environment
    return ["cargo", "fuzz"], environment | {"RUSTC_BOOTSTRAP": "1"}


def record_frames() -> None:
    """Put the frames of the recorded connections among what `frames` has learnt, as any bytes."""
    place = ROOT / "fuzz" / "corpus" / "frames"
    place.mkdir(parents=True, exist_ok=True)
    recorded = json.loads((ROOT / "vectors" / "connection.json").read_text())
    for connection, case in enumerate(recorded["connections"]):
        for number, said in enumerate(case["frames"]):
            # Four bytes choose the first form of an input, and the rest is its contents.
            frame = bytes(4) + bytes.fromhex(said["frame"])
            if len(frame) <= LONGEST:
                (place / f"recorded-{connection}-{number}-{said['what']}").write_bytes(frame)


def main() -> int:
    """Run the targets; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    parser.add_argument("target", nargs="*", help="which targets (default: all)")
    options = parser.parse_args()
    known = targets()
    chosen = options.target or known
    for name in chosen:
        if name not in known:
            parser.error(f"there is no target {name}; there are {', '.join(known)}")
    command, environment = cargo_fuzz()
    record_frames()
    failed = []
    for place, name in enumerate(chosen, start=1):
        print(f"fuzz: {name} ({place} of {len(chosen)}), {options.seconds} s", flush=True)
        learnt, seeds = (ROOT / "fuzz" / folder / name for folder in ("corpus", "seeds"))
        learnt.mkdir(parents=True, exist_ok=True)
        corpus = [learnt, *([seeds] if seeds.is_dir() else [])]
        limits = [f"-max_total_time={options.seconds}", "-print_final_stats=1", *LIMITS]
        run = [*command, "run", name, *map(str, corpus), "--", *limits]
        done = subprocess.run(run, cwd=ROOT, env=environment, check=False)
        if done.returncode != 0:
            failed.append(name)
    print(f"fuzz: {len(chosen)} targets, found something: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
