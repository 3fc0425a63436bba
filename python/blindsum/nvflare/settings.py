"""What the owner of a machine has written for it: ``local/blindsum.json`` of a site, or of the server.

What protects a site (its identity, its policy) is read from this file alone. A job of NVFlare comes from the
server side, which the policy is to hold against.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blindsum import checks
from blindsum.errors import ConfigError
from blindsum.policy import Policy

FILE = "blindsum.json"
"""The name of the file in the folder ``local`` of a site or of the server."""

KEYS = (
    *("identity", "ca", "crl", "state", "give_up_after", "policy", "plain", "arrays", "unbound"),
    *("url", "job", "coordinator_identity", "listen", "coordinator_url"),
)
"""The keys that the file may have."""

SITE = "{site}"
"""Stands for the name of the site in paths: the simulator gives all sites one file."""


@dataclass(frozen=True)
class SiteSettings:
    """What a site or the server has configured.

    Attributes
    ----------
    identity, ca, crl : str or None
        As for :func:`blindsum.join`; ``crl`` is the revocation list.
    state : str or None
        A folder of the site, which outlives a job of NVFlare.
    give_up_after : float
        Seconds for which the site tries to reach the coordinator.
    policy : Policy
        What the site agrees to.
    plain : bool
        Whether updates may go as they are where nothing says how to add them up.
    arrays : bool
        Whether results of other tasks than training may have arrays.
    unbound : bool
        Whether the site takes part in rounds of a coordinator that stands whose host does not say what they
        are about.
    url, job : str
        A coordinator that stands, and the name of its job: they count more than what the server says.
    coordinator_identity : str or None
        The coordinator's certificate, at the server.
    listen, coordinator_url : str
        Where the coordinator listens, and where sites reach it.
    """

    identity: str | None = None
    ca: str | None = None
    crl: str | None = None
    state: str | None = None
    give_up_after: float = 30.0
    policy: Policy = field(default_factory=Policy)
    plain: bool = False
    arrays: bool = False
    unbound: bool = False
    url: str = ""
    job: str = ""
    coordinator_identity: str | None = None
    listen: str = "127.0.0.1:0"
    coordinator_url: str = ""

    @classmethod
    def read(cls, folder: Path, site: str) -> SiteSettings:
        """Read the file in a folder ``local``; where there is none, everything has its default.

        Parameters
        ----------
        folder
            The folder.
        site
            The name of the site, which replaces ``{site}`` in paths.

        Raises
        ------
        blindsum.ConfigError
            The file is no JSON object, has a key that does not exist, or a value that breaks a rule;
            ``field`` is the key.
        """
        path = folder / FILE
        try:
            text = path.read_text(encoding="utf-8")
            found = json.loads(text, object_pairs_hook=_once)
        except FileNotFoundError:
            return cls()
        except (ValueError, RecursionError) as error:
            raise ConfigError(str(path), f"is no JSON ({error}): write an object with its keys") from None
        if not isinstance(found, dict):
            raise ConfigError(str(path), "must be a JSON object: write { … } with its keys")
        return cls.of(found, folder, site)

    @classmethod
    def of(cls, found: Mapping[str, Any], folder: Path, site: str) -> SiteSettings:
        """The settings of a parsed file; relative paths begin in its folder.

        Raises
        ------
        blindsum.ConfigError
            As for :meth:`read`.
        """
        try:
            return cls._of(found, folder, site)
        except ConfigError as error:
            raise ConfigError(error.field, f"{error.rule}; set it in {folder / FILE}") from None

    @classmethod
    def _of(cls, found: Mapping[str, Any], folder: Path, site: str) -> SiteSettings:
        for key in found:
            if key not in KEYS:
                raise ConfigError(key, f"is no key of a site; there are {', '.join(sorted(KEYS))}")

        def path_of(key: str) -> str | None:
            if key not in found:
                return None
            return str(folder / checks.path(key, found[key]).replace(SITE, site))

        def flag(key: str) -> bool:
            if not isinstance(found.get(key, False), bool):
                raise ConfigError(key, f"{found[key]!r} must be true or false, without quotes")
            return bool(found.get(key, False))

        if ("identity" in found or "coordinator_identity" in found) and "ca" not in found:
            rule = "is missing, and an identity needs it: name the certificate of the job's CA"
            raise ConfigError("ca", rule)
        if ("url" in found) != ("job" in found):
            there, missing = ("url", "job") if "url" in found else ("job", "url")
            rule = f"is missing, and {there} needs it: a permanent coordinator has a URL and a job"
            raise ConfigError(missing, rule)
        if found.get("unbound") is True and "url" not in found:
            rule = "is true without url and job: it applies to a permanent coordinator that this site names"
            raise ConfigError("unbound", f"{rule}; name it, or leave unbound out")
        for key in ("url", "coordinator_url"):
            if key in found and not checks.line(key, found[key]).startswith("https://"):
                raise ConfigError(key, f"{found[key]!r} must be https://HOST:PORT")
        policy = _policy(found.get("policy", {}))
        if policy.min_cohort_change and "state" not in found:
            rule = "is missing, and policy.min_cohort_change needs it: name a folder that outlives a job"
            raise ConfigError("state", rule)
        if policy.max_epsilon is not None and "state" not in found:
            rule = "is missing, and policy.max_epsilon needs it: name a folder for the ledger, of all jobs"
            raise ConfigError("state", rule)
        if policy.max_epsilon is not None and flag("plain"):
            rule = (
                "cannot be true beside policy.max_epsilon: what goes as it is has no epsilon; leave one out"
            )
            raise ConfigError("plain", rule)
        return cls(
            identity=path_of("identity"),
            ca=path_of("ca"),
            crl=path_of("crl"),
            state=path_of("state"),
            give_up_after=checks.seconds("give_up_after", found.get("give_up_after", cls.give_up_after)),
            policy=policy,
            plain=flag("plain"),
            arrays=flag("arrays"),
            unbound=flag("unbound"),
            url=checks.line("url", found.get("url", "")),
            job=checks.line("job", found.get("job", "")),
            coordinator_identity=path_of("coordinator_identity"),
            listen=checks.line("listen", found.get("listen", cls.listen)),
            coordinator_url=checks.line("coordinator_url", found.get("coordinator_url", "")),
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are there once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice; leave one out")
    return found


def _policy(rules: object) -> Policy:
    """The rules of a site; an error names the rule."""
    if not isinstance(rules, dict):
        raise ConfigError("policy", f'{rules!r} must be an object of rules, as {{"min_honest": 5}}')
    known = Policy.__dataclass_fields__
    for name in rules:
        if name not in known:
            rule = f"is no rule of a policy; there are {', '.join(sorted(known))}"
            raise ConfigError(f"policy.{name}", rule)
    return Policy(**rules)


def of_site(fl_ctx: Any) -> SiteSettings:
    """The settings of the machine that a context of NVFlare is of.

    Raises
    ------
    blindsum.ConfigError
        As for :meth:`SiteSettings.read`.
    """
    folder = fl_ctx.get_engine().get_workspace().get_site_config_dir()
    # The simulator changes its working directory.
    return SiteSettings.read(Path(folder).absolute(), str(fl_ctx.get_identity_name()))
