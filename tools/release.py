"""Builds the files of a release into dist/.

    .venv/bin/python tools/release.py                    wheels, blindsumd, SBOMs, SHA256SUMS, for all systems
    .venv/bin/python tools/release.py --system x86_64    the same for one of them
    .venv/bin/python tools/release.py --wheel            the wheel for this machine alone

Zig is the linker: it links against a C library as old as GLIBC says, whatever this machine has, and builds
for the other system as well. maturin writes an SBOM, in CycloneDX, of what it has linked. No path of this
machine is in what is built.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SYSTEMS = ("x86_64", "aarch64")
GLIBC = "2.17"
"""The oldest C library that runs what is built. Rust's standard library needs no older one."""


class ReleaseError(Exception):
    """What could not be built, and what to do."""


def version() -> str:
    """The version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def target(system: str) -> str:
    """What Rust calls a system."""
    return f"{system}-unknown-linux-gnu"


def environment(system: str) -> dict[str, str]:
    """That of a build: paths of this machine become names, in code of Rust and of C."""
    names = {os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")): "/cargo", str(ROOT): "/blindsum"}
    rust = "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in names.items())
    c = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in names.items())
    flags = {"CARGO_ENCODED_RUSTFLAGS": rust, f"CFLAGS_{target(system).replace('-', '_')}": c}
    return os.environ | flags


def check_target(system: str) -> None:
    """Install Rust's standard library for a system where it is missing."""
    asked = ["rustc", "--print", "target-libdir", "--target", target(system)]
    if Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()).is_dir():
        return
    try:
        subprocess.run(["rustup", "target", "add", target(system)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ReleaseError(
            f"Rust's standard library for {target(system)} is missing, and rustup could not install it "
            f"({error}); install it, or build without it: tools/release.py --system {platform.machine()}"
        ) from error


def maturin(system: str, out: Path, *words: str) -> Path:
    """Build one wheel."""
    command = ["maturin", "build", "--release", "--locked", "--strip", "--zig", "--target", target(system)]
    command += ["--compatibility", f"manylinux_{GLIBC.replace('.', '_')}", *words]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "--out", folder], cwd=ROOT, env=environment(system), check=True)
        (built,) = Path(folder).glob("*.whl")
        wheel = out / built.name
        without_paths(built, wheel)
    return wheel


def without_paths(built: Path, wheel: Path) -> None:
    """Copy a wheel; in its SBOM, the folder of the project becomes a name."""
    with zipfile.ZipFile(built) as old, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        content = {one.filename: old.read(one) for one in old.infolist()}
        (record,) = [name for name in content if name.endswith(".dist-info/RECORD")]
        name = sbom_name(list(content))
        content[name] = content[name].replace(f"file://{ROOT}".encode(), b"file:///blindsum")
        digest = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).rstrip(b"=").decode()
        line = f"{name},sha256={digest},{len(content[name])}".encode()
        content[record] = re.sub(
            rf"^{re.escape(name)},.*$".encode(), line, content[record], flags=re.MULTILINE
        )
        for one in old.infolist():
            new.writestr(one, content[one.filename], zipfile.ZIP_DEFLATED)


def sbom_name(names: list[str]) -> str:
    """The SBOM among the files of a wheel."""
    (name,) = [name for name in names if name.endswith(".cyclonedx.json")]
    return name


def build_package(system: str) -> list[Path]:
    """Build the wheel, and copy its SBOM out of it."""
    wheel = maturin(system, DIST)
    sbom = DIST / f"blindsum-{version()}-{system}.cdx.json"
    with zipfile.ZipFile(wheel) as archive:
        sbom.write_bytes(archive.read(sbom_name(archive.namelist())))
    return [wheel, sbom]


def build_daemon(system: str) -> list[Path]:
    """Build blindsumd alone, for servers without Python, with its SBOM, and drop the wheel around it."""
    program = DIST / f"blindsumd-{version()}-{system}-linux"
    sbom = DIST / f"blindsumd-{version()}-{system}.cdx.json"
    with tempfile.TemporaryDirectory() as folder:
        wheel = maturin(system, Path(folder), "--manifest-path", "crates/daemon/Cargo.toml")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("/scripts/blindsumd")]
            program.write_bytes(archive.read(name))
            sbom.write_bytes(archive.read(sbom_name(archive.namelist())))
    program.chmod(0o755)
    return [program, sbom]


def write_sums(files: list[Path]) -> Path:
    """Write the checksums, in the form of ``sha256sum``."""
    path = DIST / "SHA256SUMS"
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    path.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))
    return path


def clear() -> None:
    """Remove the files of releases from dist/."""
    ours = re.compile(r"blindsumd?-.*|SHA256SUMS")
    for file in DIST.iterdir():
        if file.is_file() and ours.fullmatch(file.name):
            print(f"release: removing dist/{file.name} of an earlier release")
            file.unlink()


def build(systems: list[str]) -> None:
    """Build everything for some systems."""
    for system in systems:
        check_target(system)
    clear()
    files = []
    for system in systems:
        files += [*build_package(system), *build_daemon(system)]
    files.append(write_sums(files))
    for file in sorted(files):
        print(f"release: dist/{file.name}, {file.stat().st_size / 1e6:.1f} MB")


def main() -> int:
    """Build what is asked for; the exit status."""
    parser = argparse.ArgumentParser(description="Build the files of a release into dist/.")
    parser.add_argument("--wheel", action="store_true", help="the wheel for this machine alone")
    parser.add_argument("--system", choices=SYSTEMS, help="one system (default: both)")
    options = parser.parse_args()
    DIST.mkdir(exist_ok=True)
    begin = time.monotonic()
    try:
        if options.wheel:
            wheel = maturin(platform.machine(), DIST)
            print(f"release: dist/{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")
        else:
            build([options.system] if options.system else list(SYSTEMS))
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: error: {error}", file=sys.stderr)
        return 1
    print(f"release: built in {time.monotonic() - begin:.0f} s, for glibc {GLIBC} and later")
    return 0


if __name__ == "__main__":
    sys.exit(main())
