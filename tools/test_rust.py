"""Runs the Rust tests, some binaries at a time, each test with a time limit, and names those that reach it.

    python3 tools/test_rust.py [--limit 900] [argument of `cargo test` ...]
    python3 tools/test_rust.py --locked -p blindsum-net --test rounds -- case_05

Output and exit status are those of `cargo test --no-fail-fast`, which builds the test binaries, and starts
every documentation test through this file. What a binary prints comes out when it has ended. A test that runs
for longer than the limit ends its binary: the names of the tests at it are printed and the run fails.
So does a binary that says nothing for that long. Whatever a binary has started is killed when it ends.

The test harness says when a test has been running for a minute, which is where the clock is read; a limit
below a minute therefore counts as one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

# On a machine that does much else a test may take many times as long as alone; one that hangs is found, too.
LIMIT = 900.0
# Packages whose tests mostly wait for others, as over the network: more run at a time than there are
# processors.
WAITING = ("net", "daemon", "job", "monitor")
# What the harness itself ends with where a test fails.
FAILED = 101
# After so many seconds the harness says that a test is still running.
WARNED = 60.0
SLOW = re.compile(rb"^test (.+) has been running for over 60 seconds\s*$")
# What a test prints past the harness may stand before its name.
DONE = re.compile(rb"test (.+?)(?: - should panic)? \.\.\. \w+")
RUNNER = "BLINDSUM_TEST_LIMIT"
# Options that choose what `cargo test` builds; documentation tests are run where none is given.
CHOOSING = re.compile(r"--(lib|bins?|tests?|examples?|bench(es)?|all-targets)(=|$)")


@dataclass(frozen=True)
class Binary:
    """A test binary, as cargo has built it."""

    path: Path
    source: Path
    package: Path

    def run(self, arguments: list[str], environment: dict[str, str]) -> tuple[int, bytes, float]:
        """Its exit status, what it prints, and seconds."""
        started = time.monotonic()
        command = [sys.executable, str(Path(__file__).resolve()), str(self.path), *arguments]
        own = {"CARGO_MANIFEST_DIR": str(self.package)}
        if self.package.name not in WAITING and "RUST_TEST_THREADS" not in os.environ:
            own["RUST_TEST_THREADS"] = str(max(2, os.cpu_count() or 1))
        done = subprocess.run(
            command,
            cwd=self.package,
            env=environment | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.returncode, done.stdout, time.monotonic() - started

    def __str__(self) -> str:
        return f"{self.source.relative_to(self.package)} ({self.path.name})"


def cargo(options: list[str], arguments: list[str], limit: float) -> int:
    """Build the test binaries and run them; then the documentation tests."""
    # With a single thread the harness does not say that a test is slow.
    threads = max(2, int(os.environ.get("RUST_TEST_THREADS") or 3 * (os.cpu_count() or 1)))
    environment = os.environ | {RUNNER: str(limit), "RUST_TEST_THREADS": str(threads)}
    options = [option for option in options if option != "--no-fail-fast"]
    status = 0
    if "--doc" not in options:
        binaries = built(options)
        if binaries is None:
            return FAILED
        status = run_all(binaries, arguments, environment)
    if "--doc" in options or not any(CHOOSING.match(option) for option in options):
        runner = json.dumps([sys.executable, str(Path(__file__).resolve())])
        command = ["cargo", "test", "--config", f"target.'cfg(all())'.runner = {runner}", "--no-fail-fast"]
        kind = [] if "--doc" in options else ["--doc"]
        status = wait([*command, *kind, *options, "--", *arguments], environment) or status
    return status


def built(options: list[str]) -> list[Binary] | None:
    """The test binaries, the largest first; `None` where they do not build."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return None
    binaries = []
    for line in done.stdout.splitlines():
        it = json.loads(line)
        if it["reason"] == "compiler-artifact" and it["profile"]["test"] and it["executable"]:
            source, package = Path(it["target"]["src_path"]), Path(it["manifest_path"]).parent
            binaries.append(Binary(Path(it["executable"]), source, package))
    # The largest ones hold most tests and the network; they shall not be the last, alone.
    return sorted(binaries, key=lambda binary: binary.path.stat().st_size, reverse=True)


def run_all(binaries: list[Binary], arguments: list[str], environment: dict[str, str]) -> int:
    """Run the binaries, as many at a time as there are processors; the exit status."""
    paths = subprocess.run(
        ["rustc", "--print", "target-libdir"], stdout=subprocess.PIPE, text=True, check=True
    )
    libraries = [paths.stdout.strip(), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = environment | {"LD_LIBRARY_PATH": ":".join(filter(None, libraries))}
    status = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runs = {pool.submit(binary.run, arguments, environment): binary for binary in binaries}
        try:
            for number, done in enumerate(as_completed(runs), 1):
                failed, printed, seconds = done.result()
                print(f"     Running {runs[done]}, {number} of {len(runs)}, {seconds:.0f} s", flush=True)
                sys.stdout.buffer.write(printed)
                sys.stdout.buffer.flush()
                status = FAILED if failed else status
        except KeyboardInterrupt:
            # It reaches the runners as well, which end by themselves.
            pool.shutdown(cancel_futures=True)
            return 128 + signal.SIGINT
    return status


def wait(command: list[str], environment: dict[str, str]) -> int:
    """Run a command; its exit status."""
    process = subprocess.Popen(command, env=environment)
    while True:
        # Ctrl-C reaches cargo and the runners as well, which end by themselves.
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()


class Watch:
    """What is known of the tests of a binary from what it prints."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.heard = time.monotonic()
        # Tests that the harness calls slow, and when they reach the limit.
        self.slow: dict[bytes, float] = {}

    def take(self, line: bytes) -> None:
        """Read a line of the harness."""
        self.heard = time.monotonic()
        if slow := SLOW.match(line):
            self.slow[slow[1]] = self.heard + max(0.0, self.limit - WARNED)
        elif done := DONE.search(line):
            self.slow.pop(done[1], None)

    def deadline(self) -> float:
        """When something has taken too long, if nothing more is heard."""
        return min([self.heard + max(self.limit, WARNED) + 1, *self.slow.values()])

    def overdue(self) -> str:
        """What has taken too long."""
        running = ", ".join(sorted(name.decode() for name in self.slow))
        return running or "no test is said to be slow, but nothing was printed for so long"


def run(command: list[str], limit: float) -> int:
    """Run one test binary; the exit status that cargo is told."""
    # Else documentation tests, which rustdoc puts into one binary, would share a process.
    environment = os.environ | {"RUSTDOC_DOCTEST_BIN_PATH": command[0]}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True)
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=read, args=(process, lines), daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(FAILED))
    watch, name = Watch(limit), Path(command[0]).name
    try:
        while (line := lines.get(timeout=max(0.0, watch.deadline() - time.monotonic()))) is not None:
            watch.take(line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    except queue.Empty:
        print(f"\ntest_rust: {name}: over the limit of {limit:.0f} s: {watch.overdue()}", flush=True)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        kill_group(process)
    status = process.wait()
    if status < 0:
        print(f"\ntest_rust: {name}: ended by {signal.Signals(-status).name}", flush=True)
    return status if status >= 0 else 128 - status


def read(process: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    """Hand on what the binary prints, and None once it has ended."""

    def end() -> None:
        # Not reaped yet, so that its number is still that of its group.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        kill_group(process)

    # What the binary has started would keep the pipe open.
    threading.Thread(target=end, daemon=True).start()
    for line in process.stdout or ():
        lines.put(line)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    lines.put(None)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the binary, and whatever it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def main() -> int:
    """Run the tests, or one binary of them; the exit status."""
    if limit := os.environ.get(RUNNER):
        return run(sys.argv[1:], float(limit))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each test (default 900)")
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    options, arguments = parser.parse_known_args(given[:end])
    return cargo(arguments, given[end + 1 :], options.limit)


if __name__ == "__main__":
    sys.exit(main())
