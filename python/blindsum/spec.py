"""The job specification: what is agreed before anything is sent."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from blindsum import _native
from blindsum.display import Shown
from blindsum.errors import SpecError
from blindsum.options import ENCODINGS, MECHANISMS, PROTOCOLS, STEPS, STOPS, JobArguments, JobFields
from blindsum.plan import Step
from blindsum.tables import UNSET, Metric, Parameters, Table, Tensor
from blindsum.texts import counted, is_whole

if TYPE_CHECKING:
    from blindsum.privacy_claim import PrivacyClaim

CHOICES: dict[str, Mapping[str, type[Table]]] = {
    "protocol": PROTOCOLS,
    "encoding": ENCODINGS,
    "step": STEPS,
    "stop": STOPS,
    "privacy": MECHANISMS,
}
"""The classes of what a job chooses, by the field that chooses it."""


@dataclass(frozen=True, init=False)
class JobSpec(JobFields, Shown):
    """What is agreed before anything is sent. Checked when it is made; its hash is in every key.

    It has a field for what every job has (:class:`blindsum.options.JobFields`), and ``protocol``,
    ``encoding``, ``step`` and ``stop`` with the options of what is chosen: a name, or a class such as
    :class:`blindsum.SecAggPlus`.
    Missing fields have their defaults. Whole numbers are of type ``int``, or integers of numpy, as for
    :func:`numpy.zeros`: ``dim=100_000``, not ``dim=1e5``.

    Raises
    ------
    blindsum.SpecError
        A field or an option breaks a rule, is unknown or belongs elsewhere; the error quotes it.

    Examples
    --------
    >>> from blindsum import Quantised, SecAggPlus
    >>> spec = JobSpec(protocol="plain", parties=10, dim=1000, encoding=Quantised(bits=16))
    >>> spec.word_bits
    20
    >>> JobSpec(protocol=SecAggPlus(neighbours=60), parties=100, dim=1000).chosen["neighbours"]
    60
    """

    _job: _native.Job = field(init=False, repr=False, compare=False)
    _checked: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __init__(self, **fields: Unpack[JobArguments]) -> None:
        given = {name: value for name, value in fields.items() if value is not UNSET}
        # A ModelVector has its lines there.
        given |= (
            {"layout": getattr(fields.get("layout"), "layout", given["layout"])} if "layout" in given else {}
        )
        said = {_text("fields", name): _plain(name, value) for name, value in given.items()}
        self._take(_native.Job.read(said))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> JobSpec:
        """Make a specification from a mapping, e.g. a parsed TOML or JSON file.

        Raises
        ------
        blindsum.SpecError
            An unknown field, a missing one, or a rule that is broken.
        """
        return cls(**fields)

    @classmethod
    def from_settings(cls, settings: Sequence[tuple[str, object]]) -> JobSpec:
        """Make a specification from flat settings, as a command line has them.

        Parameters
        ----------
        settings
            Names and values; numbers may be given as text. An option is set where it belongs:
            ``("neighbours", "20")`` is one of the protocol. Of two settings of one option the later counts.

        Raises
        ------
        blindsum.SpecError
            As for :meth:`from_dict`; or an option that neither the job nor its chosen tables have:
            the error says where it belongs.
        """
        plain = [(_text("settings", name), _plain(name, value)) for name, value in settings]
        return cls._of(_native.Job.read_flat(plain))

    @classmethod
    def _of(cls, job: _native.Job) -> JobSpec:
        """The specification of a job that has been checked."""
        spec = cls.__new__(cls)
        spec._take(job)
        return spec

    def __reduce__(self) -> tuple[Any, ...]:
        # What it says, in any version.
        return JobSpec.from_dict, (self._checked["said"],)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Versions before this one pickled all that follows from it, too.
        self._take(_native.Job.read(state["_checked"]["said"]))

    def to_dict(self) -> dict[str, Any]:
        """Every field and option as plain data, the inverse of :meth:`from_dict`."""
        spec: dict[str, Any] = copy.deepcopy(self._checked["spec"])
        return spec

    def to_json(self, *, said: bool = False) -> str:
        """Every field and option as a JSON object; ``said`` leaves out those with their defaults."""
        return json.dumps(self._checked["said" if said else "spec"])

    def replace(self, **changes: Any) -> JobSpec:
        """Give a copy with some fields changed; another protocol or encoding brings all of its options."""
        return JobSpec(**self._checked["said"] | changes)

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages of a round, in order."""
        return tuple(self._checked["stages"])

    @property
    def input_stage(self) -> str:
        """The stage in which a party sends its vector."""
        return self.stages[int(self._checked["input_stage"])]

    @property
    def key_setup_stages(self) -> tuple[str, ...]:
        """Names of the stages in which parties get the key of the job; empty where they need none."""
        return tuple(self._checked["key_setup_stages"])

    @property
    def plan(self) -> tuple[Step, ...]:
        """The plan of a round of ``parties``: two steps for each stage, in order."""
        return tuple(Step(**step) for step in self._checked["plan"])

    @property
    def key_setup_plan(self) -> tuple[Step, ...]:
        """Like :attr:`plan`, for the round in which parties get the job's key; empty where they need none."""
        return tuple(Step(**step) for step in self._checked["key_setup_plan"])

    @property
    def hides_sum(self) -> bool:
        """Whether only the parties learn sums, their weights, and the models that follow from them."""
        return bool(self._checked["hides_sum"])

    @property
    def tells_parties(self) -> bool:
        """Whether the parties learn results, and not the servers alone (``result="servers"`` of ``mpc3``)."""
        return bool(self._checked["tells_parties"])

    @property
    def root(self) -> str | None:
        """The name of the party whose vector the others are compared with (``rule="fltrust"`` of ``mpc3``).

        No round begins without it; it is no part of the mean.
        """
        root: str | None = self._checked["root"]
        return root

    @property
    def needs_servers(self) -> bool:
        """Whether two further servers compute with the coordinator."""
        return any(step.speaker == "servers" for step in self.plan)

    @property
    def decryptor(self) -> str:
        """The host of the server that makes keys and opens sums; ``""`` where no server does that alone."""
        return str(getattr(self.protocol, "decryptor", ""))

    @property
    def server_memory(self) -> int:
        """Bytes that each of three servers holds at most to compute (``mpc3``), vectors among them; else 0.

        Its process takes up to about twice as much. A server refuses a job that needs more than its limit
        ``computing_memory``.
        """
        return int(self._checked["server_memory"])

    @property
    def memory(self) -> Mapping[str, int]:
        """Bytes of memory that a process takes in this job, beside what every process of Blindsum takes.

        ``"simulation"``, ``"coordinator"`` and ``"party"``: estimates for a round of ``parties``, from above
        where vectors are large. The updates that a caller of :func:`simulate` holds are not in it.
        :func:`simulate`, :func:`join` and :class:`Coordinator` refuse a job that needs more than their
        process may take (:class:`MemoryLimitError`).
        """
        return {name: int(value) for name, value in self._checked["memory"].items()}

    @property
    def word_bits(self) -> int:
        """Bits of a word on the wire, so wide that no sum can wrap."""
        return int(self._checked["word_bits"])

    @property
    def packed_bytes(self) -> int:
        """Bytes of one party's vector on the wire."""
        return int(self._checked["packed_bytes"])

    @property
    def chosen(self) -> dict[str, int]:
        """The protocol's choice of numbers that the job leaves open, for a round of ``parties``.

        ``neighbours`` and ``threshold`` for ``secagg`` and ``secagg+``; for ``fssa`` and ``pss``
        ``threshold`` (shares that reconstruct a sum), ``packing`` (words in a polynomial), ``random``
        (its uniform elements), ``blocks`` (polynomials of a vector) and ``share_bytes`` (bytes of a share
        of one block); for ``flashe`` ``masks`` (that hide a word: 2 or 1); for rules of ``mpc3`` that
        leave vectors out ``bad`` (how many); for ``pss-malicious`` those of ``pss`` but the last, with
        ``rows``, ``answers`` (that a verdict takes), ``quorum`` (signatures that confirm) and bounds of
        proofs: ``squared_norm``, ``largest_projection``.
        """
        return {name: int(value) for name, value in self._checked["chosen"].items()}

    @property
    def quorum(self) -> int:
        """Smallest number of survivors whose sum may be opened."""
        return int(self._checked["min_parties"])

    @property
    def least_roster(self) -> int:
        """Smallest number of parties of a round: as many as must survive, or more in ``pss-malicious``."""
        return int(self._checked["least_roster"])

    @property
    def dropouts(self) -> int:
        """The planned dropouts: ``dropout`` of ``parties``, rounded down.

        The protocol chooses its parameters for so many. A round of all parties may lose :attr:`tolerated`,
        which are as many or more.
        """
        return int(self._checked["dropouts"])

    @property
    def tolerated(self) -> int:
        """How many parties but the :attr:`root` a round of all may lose, whoever they are, and have a sum.

        :attr:`quorum` must survive, and as many as the protocol needs shares or answers of. In a round in
        which each party has few ``neighbours`` more may be lost, as long as they are not near each other.
        """
        chosen = self.chosen
        needed = max(self.quorum, chosen.get("answers", 0), chosen.get("quorum", 0))
        # A secret is shared among a party and its neighbours, or among all.
        holders = chosen.get("neighbours", self.parties - 1) + 1
        return min(self.parties - needed, holders - chosen.get("threshold", 0))

    @property
    def max_weight(self) -> int:
        """Largest weight of an update."""
        return int(self._checked["max_weight"])

    @property
    def clip(self) -> float | None:
        """Bound of a coordinate or of the norm of a vector, by the encoding; ``None`` for integers."""
        clip = self._checked["clip"]
        return None if clip is None else float(clip)

    @property
    def norm_bound(self) -> float | None:
        """The L2 norm that longer updates are scaled down to; None where norms have no bound.

        With ``clipping = "l2"`` it is ``clip``. With ``max_norm`` it is less than that, by what rounding may
        add: no update is *sent* with a norm above ``max_norm``.
        """
        bound = self._checked["norm_bound"]
        return None if bound is None else float(bound)

    @property
    def max_error(self) -> float:
        """The most by which a coordinate of the mean of a round differs from that of the clipped updates.

        An update is clipped where its norm is scaled down to the bound that the job names, ``max_norm`` or
        ``clip`` of ``clipping = "l2"``, and then its coordinates to ``clip``. With ``max_norm`` the parties
        scale it down further, to :attr:`norm_bound`, and this bound counts that.

        It holds wherever a mean is given: :meth:`Round.result` at a party, ``blindsum join --out``, the
        files of ``--results``, :attr:`SimulationResult.mean`. It counts what the encoding rounds and, where
        means are float32, what that rounds. Updates of float64 are taken as such. Means and models are
        float64 where values have more than 24 bits: ``fixed64``, ``integers``, ``bits`` above 24.

        With ``model_update = "replace"`` the model is the mean, and the bound holds for it. With ``"add"``
        a round adds its mean to the model and rounds the sum: a model is off by ``max_error`` for every
        round, and by ``2**-24`` of its size (``2**-53`` where it is float64) for every addition.
        Another ``step`` than ``"fedavg"`` with learning rate 1 multiplies or divides the mean first.

        What the encoding does to another rule of three servers (``mpc3``) depends on the rule, and the
        servers round as well: :func:`blindsum.rules.error_bound`, or ``error_bound`` of a simulation.
        ``noise`` adds itself. For integers only the mean is rounded: their sum is exact.
        """
        return float(self._checked["max_error"])

    @property
    def hash(self) -> str:
        """Hash of the specification, 64 hexadecimal digits; part of every key and signature."""
        return str(self._checked["hash"])

    def privacy_after(self, releases: int | None = None) -> PrivacyClaim | None:
        """What the noise of the job guarantees after so many releases; ``None`` in a job without noise.

        A release is a round whose updates were sent, with or without a result. ``None`` means as many as the
        job may have, or one where it has no end.
        """
        from blindsum.checks import setting
        from blindsum.privacy_claim import PrivacyClaim

        if releases is None:
            once = self._job.privacy_after(1)
            releases = 1 if once is None or once["allowed"] is None else int(once["allowed"])
        claim = self._job.privacy_after(setting("releases", releases, 0, 2**32))
        return None if claim is None else PrivacyClaim(**claim)

    def _shown(self) -> dict[str, object]:
        said = dict(self._checked["said"])
        options = {name: said.pop(name) for name in CHOICES if name in said}
        chosen = ", ".join(f"{name} {value}" for name, value in self.chosen.items())
        return {
            **{name: _option_text(value) for name, value in options.items()},
            **said,
            "metrics": ", ".join(f"{one.name} ({one.low:g} to {one.high:g})" for one in self.metrics) or None,
            "layout": counted(len(self.layout), "tensor") if self.layout else None,
            "adversary": self.adversary,
            "chosen": chosen or None,
            "a sum needs": counted(self.quorum, "survivor"),
            "a sum survives the loss of": counted(self.parties - self.quorum, "party"),
            "planned dropouts": counted(self.dropouts, "party"),
            "bytes of a vector": self.packed_bytes,
            "guarantee": None if (claim := self.privacy_after()) is None else str(claim),
            "hash": self.hash,
        }

    def _take(self, job: _native.Job) -> None:
        """The fields, as the core filled them in."""
        checked = job.described()
        spec = dict(checked["spec"])
        for name, tables in CHOICES.items():
            options = dict(spec[name])
            if "tensors" in options:
                options["tensors"] = tuple(Tensor(**tensor) for tensor in options["tensors"])
            spec[name] = tables[options.pop("name")](**options)
        spec["metrics"] = tuple(Metric(**metric) for metric in spec["metrics"])
        spec["layout"], spec["parameters"] = tuple(spec["layout"]), Parameters(spec["parameters"])
        for name, value in [*spec.items(), ("_job", job), ("_checked", checked)]:
            object.__setattr__(self, name, value)


def _option_text(value: Any) -> str:
    """A protocol or an encoding as a file has it: its name, or its table."""
    if isinstance(value, str):
        return value
    options = ", ".join(f"{name} = {json.dumps(one)}" for name, one in value.items() if name != "name")
    return f"{value['name']} ({options})" if options else str(value["name"])


def protocols() -> tuple[str, ...]:
    """Names of the protocols that this build has."""
    return tuple(_native.protocols())


DEEPEST = 16
"""Tables and lists within each other that are looked at; a job has three."""


def _plain(name: str, value: object, depth: int = 0) -> object:
    """A value as plain data; numbers must be finite."""
    if depth > DEEPEST:
        raise SpecError(
            name.partition(".")[0], f"is nested more than {DEEPEST} tables and lists deep; a job has three"
        )
    if isinstance(value, Table):
        value = value.to_dict()
    if isinstance(value, Tensor | Metric):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {_text(name, key): _plain(f"{name}.{key}", item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(f"{name}.{place}", item, depth + 1) for place, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(name, f"must be a finite number, not {value}")
    # Farther ones would become floats on their way.
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise SpecError(
            name, f"must be a whole number from -2^63 to 2^63 - 1, not {value}; give a float or a text"
        )
    if callable(getattr(value, "filled", None)):
        raise SpecError(name, "must be a number, not masked: fill it, e.g. x.filled(0)")
    if isinstance(value, str) and not is_whole(value):
        raise SpecError(
            name, f"must be a text, and {value!r} has half a character: give its bytes in hexadecimal"
        )
    return value if value is None or isinstance(value, bool | int | float | str) else _scalar(name, value)


def _text(place: str, name: object) -> str:
    """A name of a field or an option."""
    if not isinstance(name, str):
        raise SpecError(place, f"has a name that is no text: {name!r}; write it in quotes")
    if not is_whole(name):
        raise SpecError(place, f"has a name with half a character: {name!r}; give it as UTF-8 has it")
    return name


def _scalar(name: str, value: Any) -> Any:
    """Numpy scalars as Python ones: narrow floats as their shortest decimals, ``np.float32(0.1)`` as 0.1."""
    rule = f"must be a number or a text, not {value!r}, a {type(value).__name__}"
    if not callable(getattr(value, "item", None)):
        raise SpecError(name, rule)
    try:
        whole = value.item()
    except (TypeError, ValueError) as error:
        raise SpecError(name, f"{rule} ({error})") from error
    element = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if not isinstance(whole, bool | int | float | str):
        raise SpecError(name, f"{rule}; float(x) makes a plain number")
    if not isinstance(whole, float) or element not in ("float16", "float32"):
        return whole
    import numpy as np

    return float(str(np.dtype(element).type(whole)))
