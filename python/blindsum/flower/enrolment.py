"""Certificates for one run, signed by the ServerApp: for trials, and where the ServerApp is trusted anyway.

A node makes its key in a folder of its own and sends a signing request. The ServerApp's CA lives as long
as the run. Who signs can invent nodes, so this protects against a server side that follows the protocol, and
against nobody else.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from blindsum import _native, pki
from blindsum.errors import IdentityError
from blindsum.flower.direct import Identity
from blindsum.flower.refusals import Refusal
from blindsum.flower.settings import NodeSettings
from blindsum.flower.texts import logger
from blindsum.pki import files
from blindsum.spec import JobSpec

LOUD = (
    "run %s: nodes get certificates that this ServerApp signs, for this run alone. That protects updates "
    "from a server side that follows the protocol. It does not protect them from one that deviates, which "
    "can invent nodes. Issue certificates (blindsum pki) and name them by blindsum-coordinator-identity here "
    "and blindsum-identity at each node"
)
"""What the log says once in a run."""

IN_NODE = "set it in --node-config of the SuperNode"


class RunAuthority:
    """The CA of a run, in a folder of the ServerApp's process that vanishes with it."""

    def __init__(self, run: int, url: str, *, is_simulated: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="blindsum-flower-ca-")
        self._place = Path(self._folder.name)
        pki.init(self._place)
        host = urlsplit(url).hostname if url else None
        pki.issue(self._place, "coordinator", hosts=[host] if host else ["127.0.0.1", "localhost"])
        self._certificates: dict[int, str] = {}
        if not is_simulated:
            logger.warning(LOUD, run)

    @property
    def identity(self) -> Identity:
        """What the coordinator shows."""
        return Identity(self._place / "coordinator", self._place)

    def lacks(self, node: int) -> bool:
        """Whether a node has no certificate yet."""
        return node not in self._certificates

    def sign(self, node: int, request: str) -> None:
        """Sign the request of a node.

        Raises
        ------
        blindsum.IdentityError
            It is no request, or asks for another name than that of the node.
        """
        name = node_name(node)
        file = self._place / f"{name}.csr"
        files.write_new(file, request)
        try:
            self._certificates[node] = pki.sign(self._place, file, name).read_text(encoding="utf-8")
        except IdentityError:
            # The node may send another one.
            file.unlink()
            raise

    def told(self, node: int) -> dict[str, str]:
        """What the node's train message says of its certificate."""
        ca = (self._place / "ca.pem").read_text(encoding="utf-8")
        return {"certificate": self._certificates[node], "ca": ca}

    def close(self) -> None:
        """Forget the CA."""
        self._folder.cleanup()


def node_name(node: int) -> str:
    """The name of a node in certificates of a run."""
    return f"node-{node}"


def request(node: int, run: int, settings: NodeSettings) -> str:
    """Make a key that stays at the node, and give the signing request for it.

    Raises
    ------
    blindsum.ConfigError
        The node's owner has not agreed to certificates of a run; ``field`` is the key to set.
    """
    folder = _folder(node, run, settings)
    name = node_name(node)
    if not (folder / f"{name}.csr").exists():
        pki.request(name, folder)
    return (folder / f"{name}.csr").read_text(encoding="utf-8")


def received(node: int, run: int, settings: NodeSettings, certificate: str, ca: str) -> Identity:
    """Store the certificate that the run's CA has signed for the node.

    Parameters
    ----------
    node, run, settings
        As for :func:`request`.
    certificate, ca
        What the ServerApp sent.

    Raises
    ------
    blindsum.ConfigError
        As for :func:`request`; or these are not a certificate of this node's key and one of a CA, and
        ``field`` is ``"certificate"``. Nothing is stored then.
    """
    folder = _folder(node, run, settings)
    name = node_name(node)
    own = pki.show(folder / f"{name}.key")["key_fingerprint"]
    try:
        fits = _native.pki_describe(certificate)["key_fingerprint"] == own
        _native.pki_describe(ca)
    except IdentityError:
        fits = False
    if not fits:
        raise Refusal(
            "certificate",
            "the ServerApp did not send a certificate of this node's key, with that of its CA: start "
            "the run again",
        )
    for file, text in ((f"{name}.pem", certificate), ("ca.pem", ca)):
        files.replace(folder / file, text)
    return Identity(folder / name, folder / "ca.pem")


def check_spec(spec: JobSpec) -> None:
    """Refuse a job that promises more than certificates of a run can keep.

    Raises
    ------
    blindsum.ConfigError
        It is to protect against an active adversary; ``field`` is ``"blindsum-adversary"``.
    """
    if spec.adversary == "active":
        raise Refusal(
            "blindsum-adversary",
            "'active' cannot be kept without certificates of a CA that is not the ServerApp's, which could "
            "invent nodes. Name the coordinator's by blindsum-coordinator-identity and "
            "blindsum-coordinator-ca, and each node's by blindsum-identity; or, where the ServerApp is "
            "trusted to follow the protocol, set blindsum-adversary = 'semi-honest'",
        )


def _folder(node: int, run: int, settings: NodeSettings) -> Path:
    """The node's folder for the keys of a run."""
    if settings.identity is not None:
        raise Refusal(
            "blindsum-coordinator-identity",
            "is missing in the run's configuration, while this node has an identity (blindsum-identity): "
            "a certificate of the run does not take its place. Name the coordinator's certificate of that CA",
        )
    if not settings.trusts_run:
        raise Refusal(
            "blindsum-trust-run",
            "must be true for a certificate that the ServerApp of the run signs, which is trusted to invent "
            f'no nodes: {IN_NODE}, with blindsum-policy-require-adversary="semi-honest"; better, name a '
            "certificate of a CA of your own by blindsum-identity and blindsum-ca",
        )
    if settings.state is None:
        raise Refusal("blindsum-state", f"is missing: name a folder for this node's keys; {IN_NODE}")
    folder = Path(settings.state) / f"run-{run}" / node_name(node)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
