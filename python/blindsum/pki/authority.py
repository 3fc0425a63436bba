"""What a CA does: it is made, and it signs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from blindsum import _native, checks
from blindsum.errors import ConfigError, IdentityError
from blindsum.pki import index
from blindsum.pki.files import make_folder, need, read, refuse_existing, with_ending, write_new
from blindsum.pki.files import replace as replace_file
from blindsum.pki.identity import AnyPath, Identity, authority_file
from blindsum.pki.passphrases import check_new, encrypted, plain_key

CA_DAYS = 3650
IDENTITY_DAYS = 365
MAX_DAYS = 36_500


def init(
    folder: AnyPath,
    name: str = "Blindsum CA",
    algorithm: str = "ed25519",
    days: int = CA_DAYS,
    *,
    passphrase: str | None = None,
) -> Path:
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
    passphrase
        What its key is encrypted with, at least 8 characters; ``None`` leaves the key as it is.

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
    checks.setting("days", days, 1, MAX_DAYS)
    checks.line("name", name)
    checks.line("algorithm", algorithm)
    check_new(passphrase)
    refuse_existing(folder / "ca.pem", folder / "ca.key", folder / "index.json")
    certificate, key = _native.pki_create_authority(name, algorithm, days)
    make_folder(folder)
    with index.locked(folder):
        path = _write_pair(folder / "ca", certificate, encrypted(key, passphrase)).certificate
        index.save(folder, index.Index())
    return path


def issue(
    ca: AnyPath,
    name: str,
    *,
    hosts: Sequence[str] | None = None,
    computes: bool = False,
    operator: bool = False,
    out: AnyPath | None = None,
    algorithm: str = "ed25519",
    days: int = IDENTITY_DAYS,
    passphrase: str | None = None,
    ca_passphrase: str | None = None,
) -> Identity:
    """Make a key and its certificate in one place, for demonstrations and tests.

    Parameters
    ----------
    ca
        The CA's folder.
    name
        The name: labels of ``[a-z0-9-]`` joined by dots.
    hosts
        Host names and addresses of a coordinator or server; ``None`` makes a party.
    computes
        Whether it is a server that computes with a coordinator, :class:`blindsum.Server`, and no coordinator.
    operator
        Whether it is an operator, who administers a coordinator and is in no round. It has no hosts.
    out
        Folder of the files; ``None`` takes the CA's.
    algorithm
        ``"ed25519"`` or ``"p256"``.
    days
        How long the certificate is valid from now on. It begins ten minutes ago, for clocks that are
        behind, but not before the CA's own begins.
    passphrase
        What the key is encrypted with, at least 8 characters; ``None`` leaves it as it is.
    ca_passphrase
        What the CA's key is encrypted with, if it is.

    Raises
    ------
    blindsum.IdentityError
        No such CA, a bad name, or the files exist.
    """
    checks.setting("days", days, 1, MAX_DAYS)
    checks.line("algorithm", algorithm)
    check_new(passphrase)
    folder = Path(checks.path("ca", ca))
    prefix = _folder(out, folder) / checks.name(name)
    targets = (with_ending(prefix, ".pem"), with_ending(prefix, ".key"))
    refuse_existing(*targets)
    role, at = _role(hosts, computes, operator)
    authority = load(folder, ca_passphrase)
    with index.locked(folder):
        known = index.load(folder)
        refuse_existing(*targets)
        certificate, key = _native.pki_issue(authority, name, role, at, algorithm, days)
        key = encrypted(key, passphrase)
        index.save(folder, known.with_entry(index.entry_of(_native.pki_describe(certificate), name)))
        return _write_pair(prefix, certificate, key)


def request(
    name: str, out: AnyPath = ".", algorithm: str = "ed25519", *, passphrase: str | None = None
) -> Path:
    """Make a key that stays here and a signing request for the CA, ``NAME.key`` and ``NAME.csr``.

    Parameters
    ----------
    name
        The name: labels of ``[a-z0-9-]`` joined by dots.
    out
        Folder of the files.
    algorithm
        ``"ed25519"`` or ``"p256"``.
    passphrase
        What the key is encrypted with, at least 8 characters; ``None`` leaves it as it is.

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
    check_new(passphrase)
    prefix = _folder(out, out) / checks.name(name)
    target, key_file = with_ending(prefix, ".csr"), with_ending(prefix, ".key")
    refuse_existing(target, key_file)
    text, key = _native.pki_request(name, algorithm)
    write_new(key_file, encrypted(key, passphrase))
    write_new(target, text)
    return target


def sign(
    ca: AnyPath,
    request_file: AnyPath,
    name: str | None = None,
    *,
    hosts: Sequence[str] | None = None,
    computes: bool = False,
    operator: bool = False,
    out: AnyPath | None = None,
    days: int = IDENTITY_DAYS,
    replace: bool = False,
    expect_fingerprint: str | None = None,
    revoked_key: bool = False,
    ca_passphrase: str | None = None,
) -> Path:
    """Turn a signing request into a certificate ``NAME.pem``; the private key is not needed.

    Parameters
    ----------
    ca
        The CA's folder.
    request_file
        The request. It must ask for ``name`` alone: as its only subjectAltName, or, without any, as its
        only common name.
    name
        The name that it must ask for; ``None`` takes the file's name without its ending.
    hosts
        Host names and addresses of a coordinator or server; ``None`` makes a party.
    computes
        Whether it is a server that computes with a coordinator, :class:`blindsum.Server`, and no coordinator.
    operator
        Whether it is an operator, who administers a coordinator and is in no round. It has no hosts.
    out
        Folder of the certificate; ``None`` takes the request's.
    days
        How long the certificate is valid from now on. It begins ten minutes ago, for clocks that are
        behind, but not before the CA's own begins.
    replace
        Whether the certificate takes the place of an older one, all at once: the same request signed again
        is a renewal, with the same key.
    expect_fingerprint
        The ``key_fingerprint`` that its sender told by another way, 64 hexadecimal digits; colons and
        blanks between them do not count. A request with another key is not signed. ``None`` compares
        nothing.
    revoked_key
        Whether to sign a key of which a certificate was revoked: somebody else may have it.
    ca_passphrase
        What the CA's key is encrypted with, if it is.

    Raises
    ------
    blindsum.IdentityError
        The request is malformed, asks for another name, has another key or the key of a revoked certificate,
        or the certificate exists.
    """
    checks.setting("days", days, 1, MAX_DAYS)
    folder = Path(checks.path("ca", ca))
    path = Path(checks.path("request", request_file))
    name = checks.name(path.name.removesuffix(".csr") if name is None else name)
    expected = None if expect_fingerprint is None else _fingerprint(expect_fingerprint)
    target = with_ending(_folder(out, path.parent) / name, ".pem")
    for what, file in (("the request", path), ("the certificate of the CA", authority_file(folder))):
        if replace and checks.same_file(target, file):
            raise IdentityError(
                f"{target} is {what}, which the certificate would replace; give another folder (out) or name"
            )
    advice = "move it away first, or renew it with --replace (replace=True)"
    if not replace:
        refuse_existing(target, advice=advice)
    text = read(path, "signing request")
    need(text, "CERTIFICATE REQUEST", f"signing request {path}", "`blindsum pki request NAME` makes one")
    found = _described(path, text)["key_fingerprint"]
    if expected not in (None, found):
        raise IdentityError(
            f"signing request {path}: its key has the fingerprint {found}, expected {expected}; do"
            " not sign it, and"
            " ask its sender which request is the right one"
        )
    role, at = _role(hosts, computes, operator)
    if not revoked_key:
        check_not_revoked(path, found, index.load(folder))
    authority = load(folder, ca_passphrase)
    with index.locked(folder):
        known = index.load(folder)
        if not revoked_key:
            check_not_revoked(path, found, known)
        if not replace:
            refuse_existing(target, advice=advice)
        certificate = _native.pki_sign(authority, text, name, role, at, days)
        index.save(folder, known.with_entry(index.entry_of(_native.pki_describe(certificate), name)))
        (replace_file if replace else write_new)(target, certificate)
    return target


def check_not_revoked(request_file: Path, key_fingerprint: str, known: index.Index) -> None:
    """Refuse a request whose key was on a revoked certificate.

    Raises
    ------
    blindsum.IdentityError
        It was.
    """
    entry = known.revoked_key(key_fingerprint)
    if entry is None or entry.revoked is None:
        return
    told = None if entry.revoked.when is None else time.gmtime(entry.revoked.when)
    when = "at an unknown time" if told is None else time.strftime("on %Y-%m-%d", told)
    why = f", reason: {entry.revoked.why}" if entry.revoked.why else ", no reason was given"
    raise IdentityError(
        f"signing request {request_file}: its key was on a certificate of {entry.name} that was revoked "
        f"{when}{why}; ask for a request with a new key (blindsum pki request NAME), or, if nobody else can "
        "have this key, sign with --revoked-key (revoked_key=True)"
    )


def load(folder: Path, passphrase: str | None) -> tuple[str, str]:
    """The certificate and the decrypted key of a CA.

    Raises
    ------
    blindsum.IdentityError
        There is no CA in the folder, or the passphrase of its key is missing or wrong.
    """
    if not (folder / "ca.key").is_file():
        raise IdentityError(f"CA {folder}: no file ca.key; `blindsum pki init {folder}` makes a CA")
    return read(folder / "ca.pem", "CA certificate"), plain_key(folder / "ca.key", passphrase)


def _described(path: Path, text: str) -> dict[str, str]:
    try:
        return _native.pki_describe_request(text)
    except IdentityError as error:
        raise IdentityError(f"{path}: {error}") from error


def _fingerprint(value: str) -> str:
    digits = re.sub(r"[\s:]", "", value).lower() if isinstance(value, str) else ""
    if not re.fullmatch(r"[0-9a-f]{64}", digits):
        raise ConfigError(
            "expect_fingerprint",
            f"{value!r} must be 64 hexadecimal digits, the whole key_fingerprint that `blindsum pki"
            " show` prints",
        )
    return digits


def _role(hosts: Sequence[str] | None, computes: bool, operator: bool) -> tuple[str, list[str]]:
    """Whom a certificate is for, and its hosts."""
    if operator and (computes or hosts is not None):
        raise ConfigError(
            "operator",
            "an operator has no hosts and is no server; leave out hosts and computes, or operator",
        )
    if hosts is None and not computes:
        return ("operator" if operator else "party"), []
    if hosts is not None and (isinstance(hosts, str) or not all(isinstance(one, str) for one in hosts)):
        raise ConfigError("hosts", f"{hosts!r} must be a list of texts, e.g. ['agg.example']")
    who = "server" if computes else "coordinator"
    if not hosts:
        raise IdentityError(f"a {who} needs at least one host name or address")
    return who, list(hosts)


def _folder(out: AnyPath | None, otherwise: AnyPath) -> Path:
    """The folder for what is written."""
    return Path(otherwise if out is None else checks.path("out", out))


def _write_pair(prefix: Path, certificate: str, key: str) -> Identity:
    pair = Identity(with_ending(prefix, ".pem"), with_ending(prefix, ".key"))
    write_new(pair.key, key)
    write_new(pair.certificate, certificate)
    return pair
