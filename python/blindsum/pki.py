"""Certificates on disk: the job's CA, parties and coordinators, revocation.

A CA is a folder with ``ca.pem`` (give it to everybody), ``ca.key`` (keep it off line) and, once
somebody was revoked, ``crl.pem``. An identity is a pair of files ``NAME.pem`` and ``NAME.key``. Keys
are readable by their owner only, and no file is ever overwritten but the revocation list and, where that
is asked for, a certificate.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from blindsum import _native, checks
from blindsum.errors import ConfigError, IdentityError

AnyPath: TypeAlias = "str | os.PathLike[str]"

CA_DAYS = 3650
IDENTITY_DAYS = 365
REVOCATION_DAYS = 90
MOST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Identity:
    """The two files of a party or coordinator.

    Attributes
    ----------
    certificate : pathlib.Path
        The certificate, PEM.
    key : pathlib.Path
        The private key, PEM.
    """

    certificate: Path
    key: Path

    @classmethod
    def find(cls, place: AnyPath | Identity) -> Identity:
        """Find an identity by the path of its files without their ending, or by its folder.

        Parameters
        ----------
        place
            ``pki/hospital-a`` for ``pki/hospital-a.pem`` and ``pki/hospital-a.key``; or a folder
            that holds exactly one such pair, not counting a CA's. An identity is given back.

        Raises
        ------
        blindsum.IdentityError
            Nothing there, or more than one.
        """
        if isinstance(place, Identity):
            checks.path("identity", place.certificate)
            checks.path("identity", place.key)
            return place
        path = Path(checks.path("identity", place))
        if not path.is_dir():
            found = cls(_with_ending(path, ".pem"), _with_ending(path, ".key"))
            missing = [file for file in (found.certificate, found.key) if not file.is_file()]
            if missing:
                raise IdentityError(
                    f"identity {path}: no file {missing[0]}; give the path of NAME.pem and NAME.key"
                    " without the ending"
                )
            return found
        keys = sorted(key for key in path.glob("*.key") if key.name != "ca.key")
        pairs = [cls(key.with_suffix(".pem"), key) for key in keys]
        pairs = [pair for pair in pairs if pair.certificate.is_file()]
        if len(pairs) != 1:
            names = ", ".join(pair.key.stem for pair in pairs) or "none"
            raise IdentityError(
                f"identity {path}: the folder must hold one pair NAME.pem, NAME.key; found: {names}"
            )
        return pairs[0]


def pem_files(identity: AnyPath | Identity, ca: AnyPath, revoked: AnyPath | None) -> _native.Pem:
    """Find the files of an identity, a CA and a revocation list.

    Raises
    ------
    blindsum.IdentityError
        There is no such identity.
    blindsum.ConfigError
        An empty path.
    """
    found = Identity.find(identity)
    authority = _authority_file(ca)
    lists = None if revoked is None else checks.path("revoked", revoked)
    return (str(found.certificate), str(found.key), str(authority), lists)


def authority_texts(ca: AnyPath, revoked: AnyPath | None) -> tuple[str, str | None]:
    """The certificate of a CA and its revocation list, as text.

    Raises
    ------
    blindsum.IdentityError
        A file that cannot be read.
    blindsum.ConfigError
        An empty path.
    """
    lists = None if revoked is None else _read(Path(checks.path("revoked", revoked)), "revocation list")
    return _read(_authority_file(ca), "CA certificate"), lists


def _authority_file(ca: AnyPath) -> Path:
    path = Path(checks.path("ca", ca))
    return path / "ca.pem" if path.is_dir() else path


def init(folder: AnyPath, name: str = "Blindsum CA", algorithm: str = "ed25519", days: int = CA_DAYS) -> Path:
    """Make a CA.

    Parameters
    ----------
    folder
        Where; made if it does not exist.
    name
        Its common name.
    algorithm
        ``"ed25519"`` or ``"p256"``.
    days
        How long the certificate is valid from now on. It begins ten minutes ago, for clocks that are behind.

    Returns
    -------
    pathlib.Path
        The certificate, ``folder/ca.pem``.

    Raises
    ------
    blindsum.IdentityError
        The folder holds a CA already.
    """
    folder = Path(checks.folder("folder", folder))
    checks.setting("days", days, 1, MOST_DAYS)
    checks.line("name", name)
    checks.line("algorithm", algorithm)
    _refuse_existing(folder / "ca.pem", folder / "ca.key")
    certificate, key = _native.pki_create_authority(name, algorithm, days)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(folder, error) from error
    return _write_pair(folder / "ca", certificate, key).certificate


def issue(
    ca: AnyPath,
    name: str,
    *,
    hosts: Sequence[str] | None = None,
    computes: bool = False,
    out: AnyPath | None = None,
    algorithm: str = "ed25519",
    days: int = IDENTITY_DAYS,
) -> Identity:
    """Make a key and its certificate in one place, for demonstrations and tests.

    Parameters
    ----------
    ca
        The CA's folder.
    name
        The party's name: labels of ``[a-z0-9-]`` joined by dots.
    hosts
        Host names and addresses of a coordinator or server; ``None`` makes a party.
    computes
        Whether it is a server that computes with a coordinator, :class:`blindsum.Server`, and no coordinator.
    out
        Folder of the files; ``None`` takes the CA's.
    algorithm
        ``"ed25519"`` or ``"p256"``.
    days
        How long the certificate is valid from now on. It begins ten minutes ago, for clocks that are
        behind, but not before the CA's own begins.

    Raises
    ------
    blindsum.IdentityError
        No such CA, a bad name, or the files exist.
    """
    checks.setting("days", days, 1, MOST_DAYS)
    checks.line("algorithm", algorithm)
    prefix = _folder(out, checks.path("ca", ca)) / checks.name(name)
    _refuse_existing(_with_ending(prefix, ".pem"), _with_ending(prefix, ".key"))
    certificate, key = _native.pki_issue(
        _authority(ca), name, _hosts(hosts, computes), computes, algorithm, days
    )
    return _write_pair(prefix, certificate, key)


def request(name: str, out: AnyPath = ".", algorithm: str = "ed25519") -> Path:
    """Make a key that stays here and a signing request for the CA, ``NAME.key`` and ``NAME.csr``.

    Returns
    -------
    pathlib.Path
        The request.

    Raises
    ------
    blindsum.IdentityError
        A bad name, or the files exist.
    """
    checks.line("algorithm", algorithm)
    prefix = _folder(out, out) / checks.name(name)
    target, key_file = _with_ending(prefix, ".csr"), _with_ending(prefix, ".key")
    _refuse_existing(target, key_file)
    text, key = _native.pki_request(name, algorithm)
    _write(key_file, key, 0o600)
    _write(target, text, 0o644)
    return target


def sign(
    ca: AnyPath,
    request_file: AnyPath,
    name: str | None = None,
    *,
    hosts: Sequence[str] | None = None,
    computes: bool = False,
    out: AnyPath | None = None,
    days: int = IDENTITY_DAYS,
    replace: bool = False,
) -> Path:
    """Turn a signing request into a certificate ``NAME.pem``; the private key is not needed.

    Parameters
    ----------
    ca
        The CA's folder.
    request_file
        The request.
    name
        The name that it must ask for; ``None`` takes the file's name without its ending.
    hosts
        Host names and addresses of a coordinator or server; ``None`` makes a party.
    computes
        Whether it is a server that computes with a coordinator, :class:`blindsum.Server`, and no coordinator.
    out
        Folder of the certificate; ``None`` takes the request's.
    days
        How long the certificate is valid from now on. It begins ten minutes ago, for clocks that are
        behind, but not before the CA's own begins.
    replace
        Whether the certificate takes the place of an older one, all at once: the same request signed again
        is a renewal, with the same key.

    Raises
    ------
    blindsum.IdentityError
        The request is malformed or asks for another name, or the certificate exists.
    """
    checks.setting("days", days, 1, MOST_DAYS)
    path = Path(checks.path("request", request_file))
    name = checks.name(path.name.removesuffix(".csr") if name is None else name)
    target = _with_ending(_folder(out, path.parent) / name, ".pem")
    for what, file in (("the request", path), ("the certificate of the CA", _authority_file(ca))):
        if replace and checks.same_file(target, file):
            raise IdentityError(
                f"{target} is {what}, which the certificate would replace; give another folder (out) or name"
            )
    if not replace:
        _refuse_existing(target, advice="move it away first, or renew it with --replace (replace=True)")
    text = _read(path, "signing request")
    _need(text, "CERTIFICATE REQUEST", f"signing request {path}", "`blindsum pki request NAME` makes one")
    certificate = _native.pki_sign(_authority(ca), text, name, _hosts(hosts, computes), computes, days)
    if replace:
        _replace(target, certificate)
    else:
        _write(target, certificate, 0o644)
    return target


def revoke(ca: AnyPath, certificates: Sequence[AnyPath], days: int = REVOCATION_DAYS) -> Path:
    """Add certificates to the CA's revocation list and write it anew, ``CA/crl.pem``.

    Parameters
    ----------
    ca
        The CA's folder.
    certificates
        Certificate files; an empty sequence renews the list.
    days
        How long the list is valid from now on: the next one must be there by then. It begins ten minutes ago,
        but not before the CA's certificate begins.

    Returns
    -------
    pathlib.Path
        The list. Coordinators and parties must be given it.

    Raises
    ------
    blindsum.IdentityError
        No such CA, or a certificate that it has not signed.
    """
    checks.setting("days", days, 1, MOST_DAYS)
    folder = Path(checks.path("ca", ca))
    record = folder / "revoked.json"
    state: dict[str, Any] = {"number": 0, "serials": []}
    if record.exists():
        state = json.loads(_read(record, "record of revocations"))
    added = [_serial(folder, Path(checks.path("certificate", path))) for path in certificates]
    serials = sorted({*state["serials"], *added})
    number = state["number"] + 1
    text = _native.pki_revoke(_authority(folder), serials, number, days)
    target = folder / "crl.pem"
    # Replaced, not rewritten: a reader sees the old list or the new one.
    _replace(record, json.dumps({"number": number, "serials": serials}))
    _replace(target, text)
    return target


def _serial(ca: Path, certificate: Path) -> str:
    text = _read_certificate(certificate)
    if not _native.pki_has_signed(_authority(ca), text):
        raise IdentityError(
            f"certificate {certificate}: not signed by CA {ca}, which can only revoke what it has signed"
        )
    return str(_native.pki_describe(text)["serial"])


def show(file: AnyPath) -> dict[str, Any]:
    """Say what is in a file of a certificate, a signing request, a key or a revocation list.

    Nothing of it is verified, but that a request is signed by its own key. Of a private key only what is
    public is shown. ``key_fingerprint`` is the SHA-256 of the public key, the same for a key, its request and
    its certificate: it can be compared on the telephone before a request is signed.

    Returns
    -------
    dict
        ``kind`` (``"signing request"``, ``"certificate"``, ``"revocation list"`` or ``"private key"``) and
        what the file says, by name; times are Unix seconds. Of a file with several sections the first of the
        first kind in this order is shown.

    Raises
    ------
    blindsum.IdentityError
        The file cannot be read or has none of them, or the key is encrypted.
    """
    path = Path(checks.path("file", file))
    text = _read(path, "file")
    try:
        labels = _native.pem_labels(text)
        for label, kind, describe in _SHOWN:
            if any(found.endswith(label) for found in labels):
                return {"kind": kind, **describe(text)}
    except IdentityError as error:
        raise IdentityError(f"{path}: {error}") from error
    raise IdentityError(
        f"{path}: has none of the sections CERTIFICATE, CERTIFICATE REQUEST, X509 CRL and PRIVATE KEY; give "
        "a file .pem, .csr, .key or crl.pem"
    )


_SHOWN = (
    (" REQUEST", "signing request", _native.pki_describe_request),
    ("CERTIFICATE", "certificate", _native.pki_describe),
    ("X509 CRL", "revocation list", _native.pki_describe_list),
    ("PRIVATE KEY", "private key", _native.pki_describe_key),
)
"""How the label of a section ends, what it is, and what describes it."""


def _authority(folder: AnyPath) -> tuple[str, str]:
    folder = Path(checks.path("ca", folder))
    if not (folder / "ca.key").is_file():
        raise IdentityError(f"CA {folder}: no file ca.key; `blindsum pki init {folder}` makes a CA")
    return _read(folder / "ca.pem", "CA certificate"), _read(folder / "ca.key", "CA key")


def _hosts(hosts: Sequence[str] | None, computes: bool) -> list[str] | None:
    if hosts is None and not computes:
        return None
    if hosts is not None and (isinstance(hosts, str) or not all(isinstance(one, str) for one in hosts)):
        raise ConfigError("hosts", f"{hosts!r} must be a list of texts, e.g. ['agg.example']")
    if not hosts:
        who = "server" if computes else "coordinator"
        raise IdentityError(f"a {who} needs at least one host name or address")
    return list(hosts)


def _folder(out: AnyPath | None, otherwise: AnyPath) -> Path:
    """The folder for what is written."""
    return Path(otherwise if out is None else checks.path("out", out))


def _with_ending(path: Path, ending: str) -> Path:
    # Not with_suffix: names may contain dots.
    return Path(f"{path}{ending}")


def _refuse_existing(*paths: Path, advice: str = "move it away first") -> None:
    for path in paths:
        if path.exists():
            raise IdentityError(f"{path} exists and is not overwritten; {advice}")


def _write_pair(prefix: Path, certificate: str, key: str) -> Identity:
    pair = Identity(_with_ending(prefix, ".pem"), _with_ending(prefix, ".key"))
    _write(pair.key, key, 0o600)
    _write(pair.certificate, certificate, 0o644)
    return pair


def _write(path: Path, text: str, mode: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise _not_written(path, error) from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def _replace(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> IdentityError:
    return IdentityError(
        f"{path}: cannot be written: {error.strerror}; give a folder that this user may write to"
    )


def _read(path: Path, what: str) -> str:
    try:
        return _native.pem_text(path.read_bytes())
    except OSError as error:
        raise IdentityError(f"{what} {path}: cannot be read: {error}") from error
    except IdentityError as error:
        raise IdentityError(f"{what} {path}: {error}") from error


def _read_certificate(path: Path) -> str:
    text = _read(path, "certificate")
    _need(text, "CERTIFICATE", f"certificate {path}", "give a file NAME.pem of a party, coordinator or CA")
    return text


def _need(text: str, section: str, what: str, advice: str) -> None:
    if f"{section}-----" not in text:
        raise IdentityError(f"{what}: has no section {section}; {advice}")
