"""pss-malicious against its targets, beside pss and Prio3, and what it costs by size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benches import kernels, simulated
from benches.kernels import ProofTime
from benches.rows import Row, number
from blindsum.errors import SpecError
from blindsum.options import PssMalicious, Quantised
from blindsum.spec import JobSpec

PARTIES, DIM, BITS = 100, 10_000, 16
MAX_NORM = 10.0
"""Of jobs that bound entries by 1 as well; those that bound the norm alone have 1."""
LIARS = 10
COST_DIMS = (1_000, 10_000, 100_000)
ADVERSARIES = ("semi-honest", "active")
MAX_SECONDS, MAX_TIMES_PSS = 10.0, 25.0
OURS = "blindsum"

OnText = Callable[[str], object]
Work = Callable[[OnText], None]


@dataclass(frozen=True)
class Cost:
    """What one round costs, parties and server in one process.

    Attributes
    ----------
    adversary : str
        Of the job.
    dim, bits : int
        Coordinates, and bits of one: as many as the job takes, at most 16.
    bound : str
        What is proved: that of the job.
    max_norm : float
        The bound of the norm; 0 where it has none.
    client_ms, server_ms : float
        Work of one party (the median) and of the server, least of the runs.
    up_bytes, down_bytes : int
        Of one party.
    peak_bytes : int
        Memory of the process: all parties, their updates and the server.
    refused : str
        Why there are not more bits; empty with 16.
    """

    adversary: str
    dim: int
    bits: int
    bound: str
    max_norm: float
    client_ms: float
    server_ms: float
    up_bytes: int
    down_bytes: int
    peak_bytes: int
    refused: str = ""

    HEADER = (
        "D",
        "bits",
        "bound",
        "max_norm",
        "one client",
        "server",
        "up",
        "down",
        "up per parameter",
        "peak memory",
    )

    @property
    def cells(self) -> list[str]:
        """The row of a table."""
        return [
            f"{self.dim:,}",
            str(self.bits),
            self.bound,
            f"{self.max_norm:g}" if self.max_norm else "none",
            f"{number(self.client_ms)} ms",
            f"{number(self.server_ms)} ms",
            f"{number(self.up_bytes / 2**20)} MiB",
            f"{number(self.down_bytes / 2**20)} MiB",
            f"{number(self.up_bytes / self.dim)} B",
            f"{number(self.peak_bytes / 2**20)} MiB",
        ]


@dataclass
class Measured:
    """What was found so far."""

    rows: list[Row] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    proofs: list[ProofTime] = field(default_factory=list)
    absent: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "costs": [asdict(cost) for cost in self.costs],
            "proofs": [asdict(proof) for proof in self.proofs],
            "absent": self.absent,
        }


def steps(found: Measured) -> Iterator[tuple[str, Work]]:
    """What is measured, in order: a name for the progress, and the work.

    Parameters
    ----------
    found
        What the work adds to. Work is called with what to call with news of it.
    """
    yield "proofs (builds a bench)", lambda _: _proofs(found)
    for adversary in ADVERSARIES:
        yield adversary, _adds_targets(found, adversary)
    for bound, max_norm in (("entries", 0.0), ("entries", MAX_NORM), ("l2", 1.0)):
        for dim in COST_DIMS:
            job = f"D = {dim}, bound = {bound}, max_norm = {max_norm:g}"
            yield job, _adds_cost(found, dim, bound, max_norm)


def _adds_targets(found: Measured, adversary: str) -> Work:
    return lambda on_text: found.rows.extend(targets(adversary, PARTIES, DIM, LIARS, on_text=on_text))


def _adds_cost(found: Measured, dim: int, bound: str, max_norm: float) -> Work:
    # A long round takes a minute, and is disturbed less.
    times = 3 if dim <= DIM else 1
    return lambda _: found.costs.append(cost(PARTIES, dim, max_norm, times, bound=bound))


def _proofs(found: Measured) -> None:
    if kernels.available():
        found.proofs.extend(kernels.proofs())
    else:
        found.absent = kernels.NEEDS


def targets(
    adversary: str,
    parties: int,
    dim: int,
    liars: int,
    times: int = 3,
    on_text: OnText = lambda _text: None,
) -> list[Row]:
    """Work of all parties and the server: of honest rounds, of rounds with liars, and of ``pss``.

    Nobody is lost, so that every party does all there is to do.

    Parameters
    ----------
    adversary, parties, dim
        Of the job.
    liars
        Parties that lie, each in another way.
    times
        Runs of each, in turns; the least counts.
    on_text
        Called with what is measured.

    Raises
    ------
    ArithmeticError
        A sum is wrong, a liar was not found, or somebody honest was left out.
    """
    lying = who_lies(adversary, parties, liars)
    honest, lied, plain, norm_alone = [], [], [], []
    for run in range(times):
        on_text(f"run {run + 1} of {times}")
        plain.append(work(_report("pss", adversary, parties, dim, 0.0), parties))
        report = _report("pss-malicious", adversary, parties, dim, MAX_NORM)
        check(report, set())
        honest.append(work(report, parties))
        report = _report("pss-malicious", adversary, parties, dim, MAX_NORM, "--malicious", str(liars))
        check(report, lying)
        lied.append(work(report, parties))
        report = _report("pss-malicious", adversary, parties, dim, 1.0, bound="l2")
        check(report, set())
        norm_alone.append(work(report, parties))
    title = f"{adversary}, {parties} parties × {dim:,} inputs of {BITS} bits"
    proved, found, peer = min(honest), min(lied), min(plain)
    by_norm = min(norm_alone)
    times_honest = f"{number(found / proved)} times the honest round"
    note = f"all {liars} were found, and nobody honest was left out; {times_honest}"
    return [
        Row(f"{title}: work of all", "s", proved, MAX_SECONDS, peer=peer),
        Row(f"{title}: work in multiples of pss", "", proved / peer, MAX_TIMES_PSS),
        Row(f"{title}: work of all beside {liars} liars", "s", found, None, note=note),
        Row(f"{title}: work of all where bound = l2", "s", by_norm, MAX_SECONDS, peer=peer),
    ]


def _report(
    protocol: str,
    adversary: str,
    parties: int,
    dim: int,
    max_norm: float,
    *words: str,
    bits: int = BITS,
    bound: str = "entries",
) -> dict[str, Any]:
    fields = [f"adversary={adversary}", f"bits={bits}", "clip=1", "corrupt=0.1", "dropout=0.1"]
    if max_norm:
        fields.append(f"max_norm={max_norm}")
    if bound != "entries":
        fields.append(f"bound={bound}")
    return simulated.report(protocol, parties, dim, fields, *words)


def work(report: dict[str, Any], parties: int) -> float:
    """Seconds of work of all parties and the server together."""
    return float(parties * report["client_ms"]["median"] + report["server_ms"]) / 1e3


def who_lies(adversary: str, parties: int, liars: int) -> set[int]:
    """Say which parties the simulator makes liars, by rank.

    The seed alone says who lies. Here all lie in the same way, about a short vector, so that how they are
    found has nothing to do with how those of a mixed round are.
    """
    kind = ("--malicious", str(liars), "--misbehaviour", "bad-degree")
    report = _report("pss-malicious", adversary, parties, 25, MAX_NORM, *kind)
    lying = {one["party"] for one in report["excluded"]}
    if len(lying) != liars or {one["test"] for one in report["excluded"]} != {"degree"}:
        raise ArithmeticError(f"{liars} liars were to be found, not {sorted(lying)}")
    return lying


def check(report: dict[str, Any], lying: set[int]) -> None:
    """See that the sum is right and that those who lie, and nobody else, were found.

    Raises
    ------
    ArithmeticError
        It is not so.
    """
    named = {one["party"] for one in report.get("excluded", ())}
    if not report["exact"]:
        raise ArithmeticError(f"pss-malicious: {report['fault'] or 'a wrong sum'}")
    if named != lying:
        missed, honest = sorted(lying - named), sorted(named - lying)
        raise ArithmeticError(f"pss-malicious: liars {missed} were not found, honest {honest} were left out")


def most_bits(parties: int, dim: int, max_norm: float, bound: str = "entries") -> tuple[int, str]:
    """Bits that a job takes, at most 16, and why it takes no more."""
    refused = ""
    for bits in range(BITS, 1, -1):
        try:
            encoding = Quantised(bits=bits, clip=1.0, max_norm=max_norm)
            JobSpec(protocol=PssMalicious(bound=bound), parties=parties, dim=dim, encoding=encoding)
        except SpecError as error:
            refused = refused or str(error)
        else:
            return bits, refused
    raise ArithmeticError(refused)


def cost(
    parties: int, dim: int, max_norm: float, times: int, adversary: str = "active", bound: str = "entries"
) -> Cost:
    """Simulate rounds with the default fractions of corrupt and dropped parties, a tenth each."""
    bits, refused = most_bits(parties, dim, max_norm, bound)
    drop = ("--drop", "0.1")
    reports = [
        _report("pss-malicious", adversary, parties, dim, max_norm, *drop, bits=bits, bound=bound)
        for _ in range(times)
    ]
    for report in reports:
        check(report, set())
    return Cost(
        adversary=adversary,
        dim=dim,
        bits=bits,
        bound=bound,
        max_norm=max_norm,
        client_ms=min(report["client_ms"]["median"] for report in reports),
        server_ms=min(report["server_ms"] for report in reports),
        up_bytes=reports[0]["up_bytes_per_party"],
        down_bytes=reports[0]["down_bytes_per_party"],
        peak_bytes=min(report["peak_rss_bytes"] for report in reports),
        refused=refused,
    )


PROOF_HEADER = (
    "D",
    "proof",
    "client",
    "dealing alone",
    "hashing alone",
    "upload",
    "one verifier",
    "judging",
    "all verifiers and judging",
    "they send",
)


def proof_cells(proofs: list[ProofTime]) -> list[list[str]]:
    """Rows of a table: one for each length and each kind of proof."""
    made = []
    for dim, scheme in dict.fromkeys((one.dim, one.scheme) for one in proofs):
        of = {one.work: one for one in proofs if (one.dim, one.scheme) == (dim, scheme)}

        def ms(name: str, of: dict[str, ProofTime] = of) -> str:
            return f"{number(of[name].ms)} ms" if name in of else ""

        client, verify = of["client"], of["verify"]
        verifiers = PARTIES if scheme == OURS else 1
        judging = of["judge"].ms if "judge" in of else 0.0
        made.append(
            [
                f"{dim:,}",
                scheme,
                ms("client"),
                ms("deal"),
                ms("hash"),
                f"{number(client.bytes / 2**20)} MiB",
                ms("verify") if scheme == OURS else "",
                ms("judge"),
                f"{number(verifiers * verify.ms + judging)} ms",
                f"{number(verifiers * verify.bytes / 2**10)} KiB",
            ]
        )
    return made
