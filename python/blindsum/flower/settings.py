"""Settings out of Flower's configurations: the node's (``--node-config``) and the run's (``pyproject.toml``).

What protects a node (its identity, its policy, its folders) is read from the node's configuration alone. The
run's configuration comes from the server side, which the policy is to hold against.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from blindsum import checks
from blindsum.errors import ConfigError
from blindsum.flower.refusals import Refusal
from blindsum.flower.texts import MEAN, ONE, POLICY, PREFIX, run_key
from blindsum.framework_jobs import MANY, MIN_PARTIES, check_early, errors_of_settings, job_of, metrics_from
from blindsum.policy import Policy
from blindsum.spec import JobSpec
from blindsum.tables import Metric

PLAIN = "blindsum-policy-plain"
"""Lets updates go as they are where the server side leaves Blindsum out."""

ARRAYS = "blindsum-policy-arrays"
"""Lets replies to evaluate and query messages have arrays, bytes and many numbers."""

REPEATS = "blindsum-policy-repeats"
"""Lets the node give updates of one model to several cohorts (:mod:`blindsum.flower.trained`)."""

SERVERS = "blindsum-servers"
"""The servers of a job that computes on several."""

NODE_KEYS = (
    *("blindsum-identity", "blindsum-ca", "blindsum-crl", "blindsum-state", "blindsum-trust-run"),
    *("blindsum-give-up-after", SERVERS, PLAIN, ARRAYS, REPEATS),
)

KEPT = (
    *("allowed_protocols", "allowed_rules", "require_adversary", "min_corrupt", "min_corrupt_parties"),
    *("min_honest", "min_cohort", "max_weight", "max_dim", "max_message", "max_parties"),
    *("require_privacy", "max_epsilon", "max_delta", "privacy_unit"),
)
"""Rules of a policy that are about each job for itself."""

_ONE_JOB = {
    "min_cohort_change": (
        "sums of different jobs are not compared; leave it out, and name a folder by blindsum-state, with "
        "which the node gives updates of one model to one cohort alone"
    ),
    "max_rounds": "each has one round, and rounds of a run are not counted; leave it out",
    "job_hash": "each has another hash; leave it out, and set other rules",
}
"""Rules of a policy that are about one job of many rounds."""

_LISTS = ("allowed-protocols", "allowed-rules")
_IN_NODE = "; set it in --node-config of the SuperNode"
_ADVICE = "set it in [tool.flwr.app.config] of pyproject.toml, or by --run-config"
_IN_RUN = f"; {_ADVICE}"


@dataclass(frozen=True)
class NodeSettings:
    """What the owner of a node has configured.

    Attributes
    ----------
    identity, ca, revoked : str or None
        As for :func:`blindsum.join`.
    state : str or None
        A folder of the node, which outlives a run.
    trusts_run : bool
        Whether the node takes a certificate that the ServerApp of a run signs.
    servers : tuple of str
        The servers that the node trusts with a job that computes on several, the coordinator first.
    give_up_after : float
        Seconds for which the node tries to reach the coordinator.
    policy : Policy
        What the node agrees to.
    allows_plain : bool
        Whether updates may go as they are where the message has no record of Blindsum.
    allows_arrays : bool
        Whether replies to evaluate and query messages may have arrays, bytes and many numbers.
    allows_repeats : bool
        Whether updates of one model may go to several cohorts.
    """

    identity: str | None = None
    ca: str | None = None
    revoked: str | None = None
    state: str | None = None
    trusts_run: bool = False
    servers: tuple[str, ...] = ()
    give_up_after: float = 30.0
    policy: Policy = field(default_factory=Policy)
    allows_plain: bool = False
    allows_arrays: bool = False
    allows_repeats: bool = False

    @classmethod
    def read(cls, config: Mapping[str, object]) -> NodeSettings:
        """Read the node's configuration.

        Raises
        ------
        blindsum.ConfigError
            A key of Blindsum that does not exist, or a value that breaks a rule; ``field`` is the key.
        """
        rules = {item.name: item for item in dataclasses.fields(Policy)}
        known = {*NODE_KEYS, *(POLICY + name.replace("_", "-") for name in rules)}
        check_keys(config, known, "--node-config")
        policy: dict[str, object] = {}
        for name in rules:
            key = POLICY + name.replace("_", "-")
            if key in config:
                policy[name] = _rule(key, config[key])
        identity = _path(config, "blindsum-identity")
        ca = _path(config, "blindsum-ca")
        if identity is not None and ca is None:
            rule = "is missing, and blindsum-identity needs it: name the certificate of the job's CA"
            raise ConfigError("blindsum-ca", rule + _IN_NODE)
        trusts_run = _flag(config, "blindsum-trust-run")
        if trusts_run and identity is not None:
            rule = "cannot be true beside blindsum-identity: a node has one of the two; take one out"
            raise ConfigError("blindsum-trust-run", rule + _IN_NODE)
        rules_of_node = _policy(policy)
        if trusts_run and rules_of_node.require_adversary != "semi-honest":
            rule = (
                "must be 'semi-honest' beside blindsum-trust-run: who signs the certificates of a run can "
                "invent nodes, so they protect from a server side that follows the protocol, and no other"
            )
            raise Refusal("blindsum-policy-require-adversary", rule + _IN_NODE)
        if rules_of_node.max_epsilon is not None:
            if "blindsum-state" not in config:
                rule = (
                    "is missing, and blindsum-policy-max-epsilon needs it: name a folder of this node that "
                    "outlives its processes, for the ledger"
                )
                raise ConfigError("blindsum-state", rule + _IN_NODE)
            if _flag(config, PLAIN):
                rule = (
                    "cannot be true beside blindsum-policy-max-epsilon: an update that goes as it is has no "
                    "epsilon; leave one out"
                )
                raise ConfigError(PLAIN, rule + _IN_NODE)
        return cls(
            identity=identity,
            ca=ca,
            revoked=_path(config, "blindsum-crl"),
            state=_path(config, "blindsum-state"),
            servers=_urls(config),
            trusts_run=trusts_run,
            give_up_after=checks.seconds(
                "blindsum-give-up-after", config.get("blindsum-give-up-after", cls.give_up_after)
            ),
            policy=rules_of_node,
            allows_plain=_flag(config, PLAIN),
            allows_arrays=_flag(config, ARRAYS),
            allows_repeats=_flag(config, REPEATS),
        )


def _policy(rules: dict[str, object]) -> Policy:
    """The rules of a node; an error names the key of the configuration."""
    for name, why in _ONE_JOB.items():
        if rules.get(name):
            key = POLICY + name.replace("_", "-")
            raise Refusal(key, f"cannot be kept in Flower, where each round is a job of its own: {why}")
    try:
        return Policy(**rules)  # type: ignore[arg-type]
    except ConfigError as error:
        key = POLICY + error.field.removeprefix("policy.").replace("_", "-")
        raise ConfigError(key, error.rule + _IN_NODE) from None


def _rule(key: str, value: object) -> object:
    """A rule of the policy as Flower's configuration has it: lists are text, ``"none"`` is ``None``."""
    if value == "none":
        return None
    if key.removeprefix(POLICY) in _LISTS:
        if not isinstance(value, str):
            raise ConfigError(key, f"{value!r} must be text, names with commas between{_IN_NODE}")
        return [name.strip() for name in value.split(",")]
    return value


def _urls(config: Mapping[str, object]) -> tuple[str, ...]:
    value = config.get(SERVERS, "")
    found = tuple(one.strip() for one in value.split(",")) if isinstance(value, str) and value else ()
    if not isinstance(value, str) or not all(map(_is_url, found)):
        rule = "must be the servers of the job, the coordinator first: https://HOST:PORT with commas between"
        raise ConfigError(SERVERS, rule + _IN_NODE)
    places = [urlsplit(url).netloc.lower() for url in found]
    for place, url in zip(places, found, strict=True):
        if places.count(place) > 1:
            rule = (
                f"has {url} twice, and servers that are to know nothing of each other's shares must be "
                "different ones: name each server of the job once, the coordinator first"
            )
            raise ConfigError(SERVERS, rule + _IN_NODE)
    return found


def _is_url(text: str) -> bool:
    """Whether a text is an address over TLS with a host."""
    try:
        found = urlsplit(text)
        return found.scheme == "https" and bool(found.hostname)
    except ValueError:
        return False


def _path(config: Mapping[str, object], key: str) -> str | None:
    return checks.path(key, config[key]) if key in config else None


def _flag(config: Mapping[str, object], key: str) -> bool:
    value = config.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(key, f"{value!r} must be true or false, without quotes{_IN_NODE}")
    return value


def looks_like_ours(key: str) -> bool:
    """Whether a key is one of Blindsum, or was meant to be: with capitals, underscores, dots."""
    return re.match(r"[\W_]*blind[\W_]?sum", key, re.IGNORECASE) is not None


def check_keys(config: Mapping[str, object], known: set[str], where: str) -> None:
    """Refuse keys of Blindsum that do not exist: a mistyped rule would not protect."""
    for key in config:
        if looks_like_ours(key) and key not in known:
            raise ConfigError(key, f"is no key of {where}; there are {', '.join(sorted(known))}")


@dataclass(frozen=True)
class RunSettings:
    """What a run says of its job; keys of ``pyproject.toml`` are these names with ``blindsum-`` before them.

    Attributes
    ----------
    protocol, adversary, corrupt, dropout, min_parties, join_deadline, stage_deadline
        As in :class:`blindsum.JobSpec`; ``min_parties`` of 0 chooses.
    clip : float
        Bound on the change of a coordinate in one round of training.
    bits : int
        Bits of a value.
    max_weight : int
        Largest number of examples of a node.
    metrics : str
        Metrics that are summed: names with commas between, each with its range, as in
        ``"train_loss:0:10,accuracy:0:1"``. Without a range it is from ``-metric_bound`` to ``metric_bound``.
    metric_bound : float
        See ``metrics``.
    transport : str
        ``"direct"``, ``"messages"``, ``"simulation"``, or ``"auto"``: simulation where Flower simulates, else
        direct.
    weighted_by : str
        The key of the metric that is the weight of a reply; nodes take no other.
    reply : str
        ``"one"``: the strategy gets one reply; ``"mean"``: every node replies with the mean.
    listen : str
        ``HOST:PORT`` at which the coordinator listens in the ServerApp's process.
    url : str
        ``https://HOST:PORT`` at which nodes reach it; empty takes the port of ``listen`` on this machine.
    coordinator_identity, coordinator_ca, coordinator_crl : str
        The coordinator's certificate and key, the CA, the revocation list, on the ServerApp's machine.
        Without the first one nodes get certificates for this run alone.
    coordinator : str
        ``https://HOST:PORT`` of a coordinator that stands, with a job whose rounds a host begins. All that
        the job says is left out here then. Empty starts a coordinator in the ServerApp's process.
    admin, standing_job, operator_identity : str
        Its admin address, the name of the job, and an operator's certificate and key, with which the
        ServerApp begins the rounds.
    """

    protocol: str = "secagg+"
    adversary: str = "active"
    corrupt: float = 0.1
    dropout: float = 0.1
    min_parties: int = 0
    join_deadline: float = 60.0
    stage_deadline: float = 30.0
    clip: float = 1.0
    bits: int = 20
    max_weight: int = 100_000
    metrics: str = ""
    metric_bound: float = 100.0
    transport: str = "auto"
    weighted_by: str = "num-examples"
    reply: str = ONE
    listen: str = "127.0.0.1:0"
    url: str = ""
    coordinator_identity: str = ""
    coordinator_ca: str = ""
    coordinator_crl: str = ""
    coordinator: str = ""
    admin: str = ""
    standing_job: str = ""
    operator_identity: str = ""

    @classmethod
    def read(cls, config: Mapping[str, object], given: Mapping[str, object]) -> RunSettings:
        """Read the run's configuration, and what the ServerApp gives instead.

        Raises
        ------
        blindsum.ConfigError
            A key that does not exist, or a value of another type; ``field`` is the key.
        """
        names = {PREFIX + item.name.replace("_", "-"): item.name for item in dataclasses.fields(cls)}
        check_keys(config, set(names), "the run configuration")
        for name in given:
            if name not in names.values():
                rule = f"is no argument of SecureGrid; there are {', '.join(sorted(names.values()))}"
                raise ConfigError(name, rule)
        defaults = cls()
        found: dict[str, Any] = {}
        for key, name in names.items():
            if name in given:
                found[name] = _typed(name, given[name], getattr(defaults, name))
            elif key in config:
                found[name] = _typed(key, config[key], getattr(defaults, name))
        settings = cls(**found)
        settings._check()
        settings._check_standing(found)
        return settings

    def _check(self) -> None:
        for name, allowed in (
            ("transport", ("auto", "direct", "messages", "simulation")),
            ("reply", (ONE, MEAN)),
        ):
            value = getattr(self, name)
            if value not in allowed:
                rule = f"{value!r} must be one of {', '.join(allowed)}{_IN_RUN}"
                raise ConfigError(PREFIX + name, rule)
        if self.transport == "messages" and self.reply == MEAN:
            rule = (
                "'mean' does not go with blindsum-transport = 'messages', where nodes learn the mean with "
                "the next round: leave it out"
            )
            raise ConfigError("blindsum-reply", rule + _IN_RUN)
        if self.coordinator_identity and not self.coordinator_ca:
            rule = (
                "is missing, and blindsum-coordinator-identity needs it: name the certificate of the job's CA"
            )
            raise ConfigError("blindsum-coordinator-ca", rule + _IN_RUN)

    def _check_standing(self, given: Mapping[str, object]) -> None:
        """What a coordinator that stands needs, and what its job says instead of the run."""
        if not self.coordinator:
            for name in ("admin", "standing_job", "operator_identity"):
                if getattr(self, name):
                    rule = (
                        "belongs to a permanent coordinator, and the run names none: name it by "
                        "blindsum-coordinator, or leave this key out"
                    )
                    raise ConfigError(run_key(name), rule + _IN_RUN)
            return
        for name in ("admin", "standing_job", "operator_identity", "coordinator_ca"):
            if not getattr(self, name):
                rule = "is missing, and blindsum-coordinator needs it: docs/flower.md explains it"
                raise ConfigError(run_key(name), rule + _IN_RUN)
        for name in ("coordinator", "admin"):
            if not _is_url(url := getattr(self, name)):
                raise ConfigError(run_key(name), f"{url!r} must be https://HOST:PORT{_IN_RUN}")
        own = {"transport", "weighted_by", "reply", "coordinator", "admin", "standing_job"}
        further = sorted(set(given) - own - {"operator_identity", "coordinator_ca"})
        if further:
            rule = "is in the standing job's specification: leave it out beside blindsum-coordinator"
            raise ConfigError(run_key(further[0]), rule)
        if self.transport not in ("auto", "direct"):
            rule = f"{self.transport!r} needs no coordinator: leave blindsum-coordinator out"
            raise ConfigError("blindsum-transport", rule)

    def check_early(self) -> None:
        """Refuse settings that break a rule with any number of nodes, before it is known how many there are.

        Raises
        ------
        blindsum.ConfigError
            Such a setting.
        """
        check_early(self, lambda settings: settings.spec("flower", 1, MANY), run_key, _ADVICE)

    def spec(self, job: str, dim: int, parties: int) -> JobSpec:
        """The job of one round.

        Parameters
        ----------
        job
            Its name.
        dim
            Coordinates of an update.
        parties
            The nodes of the round.

        Raises
        ------
        blindsum.ConfigError
            The nodes are too few, or a setting breaks a rule.
        """
        with errors_of_settings(self.declared, run_key, _ADVICE):
            return self.job(job, dim, parties)

    def job(self, job: str, dim: int, parties: int) -> JobSpec:
        """The same for who has no run's configuration: errors name fields of the job.

        Raises
        ------
        blindsum.SpecError
            As for :meth:`spec`.
        """
        return job_of(self, job=job, dim=dim, parties=parties, rounds=1, metrics=self.declared)

    @property
    def declared(self) -> tuple[Metric, ...]:
        """The metrics that are summed."""
        return metrics_from(self.metrics, "blindsum-metrics", _ADVICE, self.metric_bound)


def check_nodes(nodes: int, protocol: str) -> None:
    """Refuse rounds of too few nodes, with what to change.

    Raises
    ------
    blindsum.ConfigError
        Fewer than three, where a protocol is to protect them; ``field`` is ``"min_train_nodes"``.
    """
    if protocol != "plain" and nodes < MIN_PARTIES:
        raise ConfigError(
            "min_train_nodes",
            f"the strategy samples {nodes} nodes, and must sample {MIN_PARTIES} at least: in a sum of two "
            "each node learns the other's update. Set min_train_nodes and min_available_nodes to 4 in the "
            "strategy (a round of 4 can lose one), or raise fraction_train; a simulation has 2 SuperNodes by "
            "default: set its num-supernodes to 4 or more",
        )


def check_job(spec: JobSpec, transport: str) -> None:
    """Refuse jobs that cannot work inside a strategy.

    Raises
    ------
    blindsum.ConfigError
        The server cannot have the sum, or further servers are needed; ``field`` is ``"blindsum-protocol"``.
    """
    if spec.hides_sum:
        rule = (
            f"{spec.protocol} hides sums from the server, and a strategy of Flower runs there and needs "
            "them: nodes would have to give each sum away. Choose secagg+, fssa or pss"
        )
        raise ConfigError("blindsum-protocol", rule + _IN_RUN)
    if transport not in ("simulation", "standing") and (spec.needs_servers or spec.decryptor):
        rule = (
            f"{spec.protocol} computes on further servers, which run permanently, and the ServerApp "
            "starts only a coordinator. Choose secagg+, fssa or pss, or name a permanent "
            "coordinator, blindsum-coordinator"
        )
        raise ConfigError("blindsum-protocol", rule + _IN_RUN)
    if transport == "messages" and str(spec.protocol).startswith("paillier"):
        rule = (
            f"{spec.protocol} needs its key service, which a coordinator over Flower's messages has not: "
            "choose secagg+, fssa or pss, or blindsum-transport = 'direct'"
        )
        raise ConfigError("blindsum-protocol", rule + _IN_RUN)


def _typed(key: str, value: object, default: object) -> Any:
    """A value of the default's type; whole numbers may stand for numbers."""
    if isinstance(default, str):
        right = isinstance(value, str)
    elif isinstance(default, int):
        right = checks.whole_number(value) is not None
    else:
        right = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not right:
        kind = {str: "text", int: "a whole number", float: "a number"}[type(default)]
        raise ConfigError(key, f"{value!r} must be {kind}{_IN_RUN}")
    return type(default)(value)  # type: ignore[call-arg]
