"""What is in a file of certificates, and what of it ends soon."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blindsum import _native, checks
from blindsum.errors import ConfigError, IdentityError
from blindsum.pki import index
from blindsum.pki.files import read
from blindsum.pki.identity import AnyPath
from blindsum.pki.passphrases import plain_key

DAY = 86_400


def show(file: AnyPath, passphrase: str | None = None) -> dict[str, Any]:
    """Say what is in a file of a certificate, a signing request, a key or a revocation list.

    Nothing of it is verified, but that a request is signed by its own key. Of a private key only what is
    public is shown. ``key_fingerprint`` is the SHA-256 of the public key, the same for a key, its request and
    its certificate: it can be compared on the telephone before a request is signed.

    Parameters
    ----------
    file
        The file.
    passphrase
        What the key is encrypted with. Without it an encrypted key shows only that it is encrypted.

    Returns
    -------
    dict
        ``kind`` (``"signing request"``, ``"certificate"``, ``"revocation list"`` or ``"private key"``) and
        what the file says, by name; times are Unix seconds. Of a file with several sections the first of the
        first kind in this order is shown; ``others`` has the further ones of this kind, if there are any.

    Raises
    ------
    blindsum.IdentityError
        The file cannot be read or has none of them, or the passphrase is wrong.
    """
    path = Path(checks.path("file", file))
    text = read(path, "file")
    with _named(path):
        labels = _native.pem_labels(text)
    for ending, kind, describe in _SHOWN:
        found = [label for label in labels if label.endswith(ending)]
        if found and kind == "private key":
            return {"kind": kind, **_key(path, found[0], passphrase)}
        if found:
            with _named(path):
                first, *others = [describe(section) for section in _sections(text, found[0])]
            return {"kind": kind, **first} | ({"others": others} if others else {})
    raise IdentityError(
        f"{path}: has none of the sections CERTIFICATE, CERTIFICATE REQUEST, X509 CRL and PRIVATE KEY; give "
        "a file .pem, .csr, .key or crl.pem"
    )


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in an error about its content."""
    try:
        yield
    except IdentityError as error:
        raise IdentityError(f"{path}: {error}") from error


_SHOWN: tuple[tuple[str, str, Callable[[str], dict[str, Any]]], ...] = (
    (" REQUEST", "signing request", _native.pki_describe_request),
    ("CERTIFICATE", "certificate", _native.pki_describe),
    ("X509 CRL", "revocation list", _native.pki_describe_list),
    ("PRIVATE KEY", "private key", _native.pki_describe_key),
)
"""How the label of a section ends, what it is, and what describes it."""


def _key(path: Path, label: str, passphrase: str | None) -> dict[str, Any]:
    encrypted = label.startswith("ENCRYPTED")
    if encrypted and passphrase is None:
        return {"encrypted": True}
    key = plain_key(path, passphrase)
    with _named(path):
        return {"encrypted": encrypted, **_native.pki_describe_key(key)}


def _sections(text: str, label: str) -> list[str]:
    """The sections with a label, each as a text of its own."""
    pattern = rf"-----BEGIN {re.escape(label)}-----.*?-----END {re.escape(label)}-----"
    return [f"{section}\n" for section in re.findall(pattern, text, re.DOTALL)]


@dataclass(frozen=True, slots=True)
class Ending:
    """Something that ends at a time.

    Attributes
    ----------
    what : str
        ``"CA"``, ``"certificate"`` or ``"revocation list"``.
    name : str
        Of a certificate the name in it or its hosts, of the others the CA's distinguished name.
    role : str
        Of a certificate whom it is for; empty of a revocation list.
    serial : str
        Of a certificate its serial number; empty of a revocation list.
    ends : int
        The last second in which it is valid, Unix seconds; 0 if it does not say.
    place : str
        The folder or file in which it was found.
    """

    what: str
    name: str
    role: str
    serial: str
    ends: int
    place: str


def expiring(places: Sequence[AnyPath], within: float) -> list[Ending]:
    """What ends soon, or has ended and was not renewed, the first to end first.

    Parameters
    ----------
    places
        Folders of CAs, and files of certificates and revocation lists. Of a CA its own certificate counts,
        its list, and each certificate that it has signed; those that are revoked or have a newer one of the
        same name and role do not count.
    within
        Seconds from now.

    Raises
    ------
    blindsum.IdentityError
        A place that is no CA's folder and no such file.
    blindsum.ConfigError
        A time that is no number from 0 on.
    """
    if checks.finite("within", within) < 0:
        raise ConfigError("within", f"{within} seconds must be at least 0; give a time from now on")
    until = time.time() + within
    found = [ending for place in places for ending in _endings(Path(checks.path("place", place)))]
    return sorted((one for one in found if one.ends <= until), key=lambda one: one.ends)


def _endings(place: Path) -> Iterator[Ending]:
    if not place.is_dir():
        yield from _of_file(place, show(place))
        return
    known = index.load(place)
    yield from _of_file(place / "ca.pem", show(place / "ca.pem"))
    if (place / "crl.pem").exists():
        yield from _of_file(place / "crl.pem", show(place / "crl.pem"))
    for entry in _current(known):
        yield Ending("certificate", entry.name, entry.role, entry.serial, entry.not_after, str(place))


def _current(known: index.Index) -> list[index.Entry]:
    """The certificate of each name and role that ends last, of those that are not revoked."""
    last: dict[tuple[str, str], index.Entry] = {}
    for entry in known.entries:
        if entry.revoked is None and entry.is_known:
            older = last.get((entry.name, entry.role))
            if older is None or older.not_after <= entry.not_after:
                last[entry.name, entry.role] = entry
    return list(last.values())


def _of_file(path: Path, fields: dict[str, Any]) -> Iterator[Ending]:
    for one in [fields, *fields.get("others", [])]:
        if fields["kind"] == "revocation list":
            yield Ending("revocation list", one["issuer"], "", "", one["next_update"], str(path))
        elif fields["kind"] == "certificate":
            what, name = ("CA", one["subject"]) if one["is_ca"] else ("certificate", ", ".join(one["names"]))
            yield Ending(what, name, one["role"], one["serial"], one["not_after"], str(path))
        else:
            raise IdentityError(
                f"{path}: is a {fields['kind']}, which does not end; give the folder of a CA, a"
                " certificate or a"
                " revocation list"
            )
