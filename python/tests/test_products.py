"""What the wheel and ``blindsumd`` are built of: no code for tests or measurements, none that misbehaves."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = {"math", "crypto", "privacy", "encode", "sharing", "he", "mpc", "protocol", "job", "etcd", "net"}
LIBRARIES |= {"monitor"}
# The crates of ours that each product is built of.
PRODUCTS = {"python": {"python", "sim", "daemon"} | LIBRARIES, "daemon": {"daemon"} | LIBRARIES}
# The simulator implements it, and the party that it is for offers it.
HOOK = {"protocol/src/lib.rs", "protocol/src/protocols/pss_malicious/mod.rs"}
HOOK |= {f"protocol/src/protocols/pss_malicious/client/{name}.rs" for name in ("mod", "misbehaviour")}


def parts(package: str, *arguments: str) -> tuple[set[str], set[str]]:
    """The crates of ours in a package, and their features beside ``default`` as ``crate/feature``."""
    cargo = shutil.which("cargo")
    assert cargo is not None, "cargo must be on the PATH"
    words = ["tree", "--locked", "--offline", "-p", f"blindsum-{package}", "--edges", "no-dev"]
    words += ["--prefix", "none", "--format", "{p}|{f}", *arguments]
    listed = subprocess.run([cargo, *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    ours = re.findall(r"^blindsum-(\w+) v[^|]*\|([\w,-]*)", listed, re.MULTILINE)
    named = {(crate, feature) for crate, features in ours for feature in features.split(",") if feature}
    return {crate for crate, _ in ours}, {
        f"{crate}/{feature}" for crate, feature in named if feature != "default"
    }


def sources() -> dict[str, str]:
    """The Rust files that are no tests, by their path below ``crates``."""
    files = (ROOT / "crates").glob("*/src/**/*.rs")
    paths = {file.relative_to(ROOT / "crates").as_posix(): file for file in files}
    tests = re.compile(r"/(tests|testing)(/|\.rs$)")
    return {path: file.read_text() for path, file in paths.items() if not tests.search(path)}


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_product_has_the_crates_it_needs_and_no_feature(product: str) -> None:
    """A crate or a feature that is not listed here is not in a product: write down why it must be."""
    assert parts(product) == (PRODUCTS[product], set())


def test_features_of_a_build_for_measurements_are_seen() -> None:
    """The check above sees features where they are."""
    _, features = parts("python", "--features", "timers")
    assert features == {"python/timers", "net/bench"}
    _, features = parts("python", "--features", "testing")
    assert features == {
        "crypto/audit",
        "net/bench",
        "protocol/testing",
        "python/testing",
        "python/timers",
    }


def test_products_are_built_without_features() -> None:
    """The command of a release that makes a wheel, and that of the module of the demo, name no feature."""
    commands = [line for line in (ROOT / "Makefile").read_text().splitlines() if "$(BIN)/maturin " in line]
    named = {line.strip().split("maturin ")[1]: re.findall(r"--features (\S+)", line) for line in commands}
    assert [command for command, features in named.items() if not features] == [
        "develop --uv --locked --profile demo"
    ]
    release = (ROOT / "tools/release.py").read_text()
    assert '"maturin", "build", "--release", "--locked"' in release
    assert "features" not in release
    assert sorted(features for features in named.values() if features) == [["testing"], ["timers"]]
    assert (
        "features"
        not in re.split(r"\n\[", (ROOT / "pyproject.toml").read_text().split("[tool.maturin]")[1])[0]
    )


def test_no_file_stands_in_the_place_of_another() -> None:
    """Honest parties run the files that tests run: no feature puts another file in the place of one."""
    found = [re.findall(r'#\[(?:cfg_attr\([^\]]*)?path = "([^"]+)"', text) for text in sources().values()]
    assert [path for paths in found for path in paths if not path.startswith("tests/")] == []


def test_only_the_simulator_misbehaves() -> None:
    """Nothing but the simulator implements the hook, or makes a party that has it."""
    named = {path for path, text in sources().items() if re.search(r"\bMisbehaviour\b|\bmisbehaving\b", text)}
    assert {path for path in named if not path.startswith("sim/")} == HOOK
    implementing = {
        path for path, text in sources().items() if re.search(r"impl Misbehaviour for (?!Honest\b)", text)
    }
    assert implementing == {"sim/src/deviation.rs"}


def test_the_picture_of_the_crates_has_every_arrow() -> None:
    """Every crate that another depends on has its arrow in docs/architecture.md, and there is no other."""
    manifests = {
        file.parent.name: tomllib.loads(file.read_text()) for file in ROOT.glob("crates/*/Cargo.toml")
    }
    arrows = {
        (crate, name.removeprefix("blindsum-"))
        for crate, manifest in manifests.items()
        for name, options in manifest.get("dependencies", {}).items()
        if name.startswith("blindsum-") and not options.get("optional") and crate != "paper"
    }
    picture = (ROOT / "docs/architecture.md").read_text().split("```mermaid")[1].split("```")[0]
    drawn = set(re.findall(r"^ +(\w+) -->(?:\|[^|]*\|)? (\w+)$", picture, re.MULTILINE))
    assert {(start, end) for start, end in drawn if start != "user"} == arrows
