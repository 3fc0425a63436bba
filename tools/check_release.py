"""Tries what tools/release.py has built, as a user would: the last step of ``make release``.

    .venv/bin/python tools/check_release.py

Checksums, SBOMs, the C library that is needed, paths of this machine; the wheel in an environment of its own,
with the demo; and for every system a job of three parties with the standalone blindsumd, emulated if the
system is another one. Exit status 1 if something is not as it must be. What could not be tried is said.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from release import DIST, GLIBC, ROOT, SYSTEMS, target, version

MACHINES = {"x86_64": 62, "aarch64": 183}
"""What the header of an ELF file has for a system."""
CROSS = {"x86_64": "libc6-amd64-cross", "aarch64": "libc6-arm64-cross"}
"""Debian's packages with the C library of another system."""
PARTIES = ("hospital-a", "hospital-b", "hospital-c")
JOB = """\
listen = "127.0.0.1:{port}"
certificate = "ca/agg.pem"
key = "ca/agg.key"
ca = "ca/ca.pem"
store = "job.sqlite"
stop_when_done = true

[[jobs]]
job = "tumour"
protocol = "secagg+"
parties = 3
dim = 1000
rounds = 3
encoding = {{ name = "quantised", max_weight = 10000 }}
"""


class CheckError(Exception):
    """What is wrong with a release."""


def expect(holds: bool, problem: str) -> None:
    """Fail with a problem unless something holds."""
    if not holds:
        raise CheckError(problem)


def check_sums() -> list[Path]:
    """Every file has its checksum, and every checksum its file; gives the files."""
    lines = (DIST / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    there = {file.name for file in DIST.glob("blindsum*") if file.is_file()}
    expect(there == set(sums), f"SHA256SUMS does not list what is in dist/: {sorted(there ^ set(sums))}")
    for name, digest in sums.items():
        found = hashlib.sha256((DIST / name).read_bytes()).hexdigest()
        expect(found == digest, f"dist/{name}: its checksum is {found}, SHA256SUMS has {digest}")
    print(f"check: {len(sums)} checksums are right")
    return sorted(DIST / name for name in sums)


def programs(file: Path) -> dict[str, bytes]:
    """The ELF files in a file of the release, by their names."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    return {file.name: file.read_bytes()} if file.name.endswith("-linux") else {}


def check_binaries(files: list[Path]) -> None:
    """Each is for its system, needs no later C library than it should, and names no path of this machine."""
    paths = [str(ROOT).encode(), str(Path.home() / ".cargo").encode()]
    for file in files:
        system = next(name for name in SYSTEMS if name in file.name)
        for name, data in programs(file).items():
            machine = int.from_bytes(data[18:20], "little")
            expect(machine == MACHINES[system], f"{name}: it is for ELF machine {machine}, not for {system}")
            needed = max(int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", data))
            expect(needed <= int(GLIBC.split(".")[1]), f"{name}: it needs glibc 2.{needed}, not {GLIBC}")
            named = [path.decode() for path in paths if path in data]
            expect(not named, f"{name}: it names paths of this machine: {named}")
            print(f"check: {file.name}: {len(data) / 1e6:.1f} MB for {system}, needs glibc 2.{needed}")


def linked(package: str, system: str) -> set[tuple[str, str]]:
    """Names and versions of the crates that a package is linked of."""
    words = ["cargo", "tree", "--locked", "-p", package, "--edges", "normal", "--prefix", "none"]
    words += ["--format", "{p}", "--target", target(system)]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^(\S+) v(\S+)", said, re.MULTILINE))


def check_sbom(file: Path) -> None:
    """It lists every crate that is linked."""
    system = next(name for name in SYSTEMS if name in file.name)
    package = "blindsum-daemon" if file.name.startswith("blindsumd-") else "blindsum-python"
    sbom = json.loads(file.read_text())
    expect(sbom["bomFormat"] == "CycloneDX", f"{file.name}: it is no SBOM of CycloneDX")
    described = [sbom["metadata"]["component"], *sbom["components"]]
    listed = {(part["name"], part["version"]) for part in described}
    missing = sorted(linked(package, system) - listed)
    expect(not missing, f"{file.name}: crates that are linked are missing: {missing}")
    expect(str(ROOT) not in file.read_text(), f"{file.name}: it names a path of this machine")
    print(f"check: {file.name}: CycloneDX {sbom['specVersion']}, {len(listed)} crates")


def run(*words: str | Path, folder: Path) -> str:
    """Run a command; gives its output."""
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{words}: exit status {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel as a user does; gives the folder of its commands."""
    venv.create(folder / "venv", with_pip=True)
    commands = folder / "venv/bin"
    run(commands / "pip", "install", "--quiet", f"{wheel}[demo]", folder=folder)
    for name in ("blindsum", "blindsumd"):
        said = run(commands / name, "--version", folder=folder).strip()
        expect(said == f"{name} {version()}", f"{name} --version says {said!r}")
    return commands


def demo(commands: Path, folder: Path) -> None:
    """Run the demo as the README says."""
    begin = time.monotonic()
    said = run(commands / "blindsum", "demo", folder=folder)
    expect("NOT AS PROMISED" not in said and "plot: " in said, f"blindsum demo: {said}")
    print(f"check: blindsum demo took {time.monotonic() - begin:.1f} s from an installed wheel")


def emulator(system: str) -> list[str] | None:
    """What a program of a system is run by; none where nothing here can."""
    if system == platform.machine():
        return []
    found = shutil.which(f"qemu-{system}-static") or shutil.which(f"qemu-{system}")
    library = Path(f"/usr/{system}-linux-gnu")
    return [found, "-L", str(library)] if found and library.is_dir() else None


@contextmanager
def started(words: list[str], folder: Path, log: bool) -> Iterator[subprocess.Popen[str]]:
    """A process, with its log alone or all of its output; it does not outlive its block."""
    out, err = (None, subprocess.PIPE) if log else (subprocess.PIPE, subprocess.STDOUT)
    process = subprocess.Popen(words, cwd=folder, text=True, stdout=out, stderr=err)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def job(daemon: list[str], commands: Path, folder: Path) -> None:
    """Run a job of three rounds: this daemon as its coordinator, parties from the wheel."""
    blindsum = commands / "blindsum"
    run(blindsum, "pki", "init", "ca", folder=folder)
    run(blindsum, "pki", "issue", "ca", "agg", "--coordinator", "--host", "localhost", folder=folder)
    for name in PARTIES:
        run(blindsum, "pki", "issue", "ca", name, folder=folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "blindsumd.toml").write_text(JOB.format(port=port))
    shutil.copy(ROOT / "examples/training.py", folder)
    join = [str(blindsum), "join", f"https://localhost:{port}", "--job", "tumour", "--ca", "ca/ca.pem"]
    join += ["--train", "training:step", "--log", "error", "--identity"]
    with ExitStack() as running:
        server = running.enter_context(started([*daemon, "--config", "blindsumd.toml"], folder, log=True))
        assert server.stderr is not None
        log = []
        for line in server.stderr:
            log.append(line)
            if "coordinator listening" in line:
                break
        parties = [
            running.enter_context(started([*join, f"ca/{name}"], folder, log=False)) for name in PARTIES
        ]
        said = [party.communicate(timeout=300)[0] for party in parties]
        log.append(server.communicate(timeout=300)[1])
    expect(server.returncode == 0, f"{daemon}: exit status {server.returncode}: {''.join(log)}")
    wanted = [f"round {number}: sum of 3 parties" for number in (1, 2, 3)]
    for one in said:
        rounds = [line for line in one.splitlines() if line.startswith("round ")]
        expect(rounds == wanted, f"{daemon}: a party saw {one!r}; the log: {''.join(log)}")


def try_out(files: list[Path]) -> None:
    """Install and run what this machine can run; say what it cannot."""
    wheels = [file for file in files if file.suffix == ".whl" and platform.machine() in file.name]
    expect(len(wheels) == 1, f"dist/ has {len(wheels)} wheels for {platform.machine()}, not one")
    with tempfile.TemporaryDirectory() as name:
        commands = install(wheels[0], Path(name))
        demo(commands, Path(name))
        for daemon in (file for file in files if file.name.endswith("-linux")):
            system = next(name for name in SYSTEMS if name in daemon.name)
            prefix = emulator(system)
            if prefix is None:
                print(f"check: {daemon.name} was NOT run: install qemu-user-static and {CROSS[system]}")
                continue
            said = run(*prefix, daemon, "--version", folder=Path(name)).strip()
            expect(said == f"blindsumd {version()}", f"{daemon.name} --version says {said!r}")
            folder = Path(name) / system
            folder.mkdir()
            job([*prefix, str(daemon)], commands, folder)
            how = "emulated" if prefix else "natively"
            print(f"check: {daemon.name} ran a job of three parties, {how}")


def main() -> int:
    """Check everything; the exit status."""
    os.environ.pop("PYTHONPATH", None)
    try:
        files = check_sums()
        check_binaries(files)
        for file in files:
            if file.name.endswith(".cdx.json"):
                check_sbom(file)
        try_out(files)
    except (CheckError, OSError, subprocess.SubprocessError) as error:
        print(f"check: error: {error}", file=sys.stderr)
        return 1
    print("check: the release is as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
