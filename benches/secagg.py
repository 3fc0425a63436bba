"""secagg and secagg+ against their targets; costs of the Python package."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benches import peer, simulated
from benches.rows import Row
from blindsum import _native

Step = Callable[[], list[Row]]


def steps(scale: bool) -> Iterator[tuple[str, Step]]:
    """What is measured, in order: a name for the progress and the work.

    Parameters
    ----------
    scale
        Also the rounds with thousands of parties, which take minutes.
    """
    yield "secagg+, 10^6 coordinates", _secagg_plus
    yield "secagg, complete graph", _secagg
    yield "round trips", _round_trips
    if scale:
        yield "1,000 parties", lambda: [_scale(1_000, 1_000_000, 60.0)]
        yield "10,000 parties", lambda: [_scale(10_000, 100_000, 300.0)]
    yield "masks", _masks
    yield "Python", _python


def _secagg_plus() -> list[Row]:
    """100 parties, 15 neighbours, the peer's workload: semi-honest, 10 % dropped before upload."""
    dim, parties, dropped, neighbours = 1_000_000, 100, 10, 15
    # So few neighbours carry 3 % of corrupt parties at the strength that the job demands.
    fields = ["adversary=semi-honest", f"neighbours={neighbours}", "corrupt=0.03"]
    reports = [simulated.report("secagg+", parties, dim, fields, "--drop", "0.1") for _ in range(3)]
    client = min(report["client_ms"]["median"] for report in reports)
    server = min(report["server_ms"] for report in reports)
    peak = min(report["peak_rss_bytes"] for report in reports) / 2**20
    up = reports[0]["up_bytes_per_party"] / dim
    theirs: list[float | None] = [None, None, None]
    if peer.installed():
        threshold = 8
        theirs = [
            peer.client_ms(dim, neighbours, threshold),
            peer.server_ms(dim, parties, dropped, neighbours, threshold),
            peer.word_bytes(),
        ]
    title = "secagg+, 100 parties, 15 neighbours, D = 10⁶"
    extrapolated = "flwr: calls measured singly and multiplied"
    whole = "the whole simulator process, parties and synthetic updates included"
    return [
        Row(f"{title}: one client, all stages", "ms", client, 15, peer=theirs[0]),
        Row(f"{title}: server, 10 % dropped", "ms", server, 150, peer=theirs[1], note=extrapolated),
        Row(f"{title}: peak memory", "MiB", peak, 100, note=whole),
        Row(f"{title}: upload per parameter", "B", up, 2.88 * 1.01, peer=theirs[2]),
    ]


def _secagg() -> list[Row]:
    """Complete graph, semi-honest."""
    dim, parties = 10_000, 100
    reports = [
        simulated.report("secagg", parties, dim, ["adversary=semi-honest"], "--drop", "0.1") for _ in range(3)
    ]
    server = min(report["server_ms"] for report in reports)
    stages = [{stage["name"]: stage for stage in report["stages"]} for report in reports]
    share = min(stage["share-keys"]["client_ms"]["median"] for stage in stages)
    theirs = peer.share_ms(parties, 51) if peer.installed() else None
    title = "secagg, 100 parties, complete graph, D = 10⁴"
    note = "the whole stage: key agreement and sealing to 99 parties included"
    return [
        Row(f"{title}: server, 10 % dropped", "ms", server, 300),
        Row(f"{title}: one client's share creation", "ms", share, 10, peer=theirs, note=note),
    ]


def _round_trips() -> list[Row]:
    from blindsum.spec import JobSpec

    rows = []
    for adversary, target in (("semi-honest", 4), ("active", 5)):
        spec = JobSpec(protocol="secagg+", parties=100, dim=1, adversary=adversary)
        rows.append(Row(f"secagg+, {adversary}: client round trips", "", len(spec.stages), target))
    return rows


def _scale(parties: int, dim: int, seconds: float) -> Row:
    begin = time.monotonic()
    report = simulated.report("secagg+", parties, dim, [])
    taken = time.monotonic() - begin
    note = f"peak memory {report['peak_rss_bytes'] / 2**30:.2f} GiB"
    return Row(f"simulated secagg+, {parties} parties, D = {dim}", "s", taken, seconds, note=note)


def _masks() -> list[Row]:
    """The kernel in cache, and a whole client of ``secagg+`` with the most masks, beside the AES unit."""
    dim, neighbours = 1_000_000, 15
    fields = ["adversary=semi-honest", f"neighbours={neighbours}", "corrupt=0.03"]
    client = min(simulated.report("secagg+", 100, dim, fields)["client_ms"]["median"] for _ in range(3))
    # A mask for each neighbour and the own one, of 32-bit words.
    return mask_rows(_native.mask_rate(64 << 10, 8, 0.5), client, (neighbours + 1) * dim * 4)


def mask_rows(rates: tuple[str, float, float | None], client_ms: float, client_bytes: int) -> list[Row]:
    """Rates of keystream as fractions of what the AES unit gave in the same run.

    Parameters
    ----------
    rates
        Backend, GB/s of the kernel, GB/s of the AES unit alone where it can be measured.
    client_ms, client_bytes
        What a client takes in all, and the bytes of its masks.
    """
    backend, rate, limit = rates
    whole = client_bytes / client_ms / 1e6

    def row(what: str, gigabytes: float, target: float | None) -> Row:
        unit = "that cannot be measured here" if limit is None else f"{limit:.1f} GB/s in the same run"
        note = f"{gigabytes:.1f} GB/s, backend {backend}; the AES unit alone: {unit}"
        fraction = None if limit is None else gigabytes / limit
        return Row(f"masks ÷ AES unit: {what}", "", fraction, target, better="more", note=note)

    return [
        row("expansion with addition, in cache, one core", rate, 0.7),
        row("a whole client of secagg+, 15 neighbours, D = 10⁶", whole, None),
    ]


def _python() -> list[Row]:
    vector = np.zeros(4, dtype=np.float32)
    calls = 20_000
    begin = time.perf_counter()
    for _ in range(calls):
        _native.first_not_finite(vector)
    overhead = 1e6 * (time.perf_counter() - begin) / calls
    bare = _start_ms("pass")
    wheel = _wheel_bytes()
    return [
        Row("Python call with an array, GIL released", "µs", overhead, 50),
        Row("import blindsum", "ms", _start_ms("import blindsum") - bare, 150),
        Row(
            "import blindsum, first use with numpy",
            "ms",
            _start_ms("import blindsum; blindsum.simulate") - bare,
            None,
            note="numpy itself included",
        ),
        Row("wheel", "MB", None if wheel is None else wheel / 1e6, 15, note="`make build` makes it"),
    ]


def _start_ms(program: str) -> float:
    """Least milliseconds of an interpreter that runs this."""
    least = float("inf")
    for _ in range(7):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        least = min(least, time.perf_counter() - begin)
    return 1000 * least


def _wheel_bytes() -> int | None:
    wheels = sorted(Path("dist").glob("blindsum-*.whl"), key=lambda path: path.stat().st_mtime)
    return wheels[-1].stat().st_size if wheels else None
