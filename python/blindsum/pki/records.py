"""What a CA has signed: listed, found, and revoked."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Sequence
from pathlib import Path

from blindsum import _native, checks
from blindsum.errors import IdentityError
from blindsum.pki import index
from blindsum.pki.authority import MAX_DAYS, load
from blindsum.pki.files import read, replace
from blindsum.pki.identity import AnyPath
from blindsum.pki.index import Entry, Index, Revocation

REVOCATION_DAYS = 90


def certificates(ca: AnyPath) -> Index:
    """What a CA has signed, in the order in which it did. Its key is not needed.

    Parameters
    ----------
    ca
        The CA's folder.

    Returns
    -------
    blindsum.pki.Index
        ``entries`` has one entry for each certificate. Where an earlier version without an index has signed
        with this CA, ``unknown_until`` says until when certificates may be missing; :func:`learn` adds
        them.

    Raises
    ------
    blindsum.IdentityError
        No such CA, or its index is damaged.
    """
    return index.load(_folder(ca))


def learn(
    ca: AnyPath, files: Sequence[AnyPath] = (), *, rebuild: bool = False, complete: bool = False
) -> Index:
    """Add certificates to the index of a CA that were signed by a version without one.

    Parameters
    ----------
    ca
        The CA's folder.
    files
        Certificates that this CA has signed.
    rebuild
        Whether to make the index anew, of the certificates in the folder, these files and ``revoked.json``.
        The old index stays as ``index.json.damaged``. Certificates of which no file is there are lost to
        it.
    complete
        Whether the index has all certificates then: from then on it says of none that it may be missing.

    Returns
    -------
    blindsum.pki.Index
        The index as it is then.

    Raises
    ------
    blindsum.IdentityError
        No such CA, a certificate that it has not signed, or an index that is damaged and not rebuilt.
    """
    folder = _folder(ca)
    paths = [Path(checks.path("certificate", file)) for file in files]
    with index.locked(folder):
        entries = [index.signed_entry(folder, path) for path in paths]
        if rebuild:
            index.set_aside(folder)
        known = index.load(folder)
        for entry in entries:
            known = known.with_entry(entry)
        if complete:
            known = dataclasses.replace(known, unknown_until=None)
        index.save(folder, known)
        return known


def find(ca: AnyPath, what: AnyPath) -> list[Entry]:
    """The certificates that a file, a name or a serial number means, in the index of a CA.

    A file of this path counts first, then a name, then a serial number. A name means its certificates that
    have neither expired nor been revoked.

    Raises
    ------
    blindsum.IdentityError
        None, or a file that holds no certificate of this CA.
    """
    folder = _folder(ca)
    return _meant(folder, index.load(folder), what)


def revoke(
    ca: AnyPath,
    certificates: Sequence[AnyPath],
    days: int = REVOCATION_DAYS,
    *,
    why: str = "",
    ca_passphrase: str | None = None,
) -> Path:
    """Add certificates to the CA's revocation list and write it anew, ``CA/crl.pem``.

    Parameters
    ----------
    ca
        The CA's folder.
    certificates
        Files of certificates, names, or serial numbers, as :func:`find` takes them. A name means all its
        certificates that are valid. An empty sequence renews the list.
    days
        How long the list is valid from now on: the next one must be there by then. It begins ten minutes ago,
        but not before the CA's certificate begins.
    why
        Why, for the index. It is not in the list.
    ca_passphrase
        What the CA's key is encrypted with, if it is.

    Returns
    -------
    pathlib.Path
        The list. Coordinators and parties must be given it.

    Raises
    ------
    blindsum.IdentityError
        No such CA, or a certificate that it has not signed or does not know.
    """
    checks.setting("days", days, 1, MAX_DAYS)
    if why:
        checks.line("why", why)
    folder = _folder(ca)
    authority = load(folder, ca_passphrase)
    target = folder / "crl.pem"
    with index.locked(folder):
        known = index.load(folder)
        meant = [entry for what in certificates for entry in _meant(folder, known, what)]
        for entry in meant:
            if entry.revoked is None:
                revoked = Revocation(int(time.time()), why)
                known = known.with_entry(dataclasses.replace(entry, revoked=revoked))
        known = dataclasses.replace(known, list_number=known.list_number + 1)
        text = _native.pki_revoke(authority, known.revoked, known.list_number, days)
        # The index first: a list that nobody knows of would lose its entries with the next one.
        index.save(folder, known)
        replace(target, text)
    return target


def _meant(folder: Path, known: Index, what: AnyPath) -> list[Entry]:
    path = Path(checks.path("certificate", what))
    if path.is_file():
        entry = index.signed_entry(folder, path)
        return [known.of_serial(entry.serial) or entry]
    text = str(what)
    named = known.of_name(text)
    if named:
        now = time.time()
        valid = [entry for entry in named if entry.state(now) == "valid"]
        if not valid:
            raise IdentityError(
                f"CA {folder}: {text} has no valid certificate, all {len(named)} have expired or are revoked;"
                f" `blindsum pki list {folder}` shows them"
            )
        return valid
    serial = re.sub(r"[\s:]", "", text).lower()
    numbered = known.of_serial(serial)
    if numbered is not None:
        return [numbered]
    if known.unknown_until is not None and re.fullmatch(r"([0-9a-f]{2}){8,20}", serial):
        return [Entry(index.UNKNOWN, index.UNKNOWN, serial)]
    advice = f"`blindsum pki list {folder}` shows all names and serial numbers"
    if known.unknown_until is not None:
        advice += (
            "; a certificate of an earlier version that is not there is revoked by its file or serial number"
        )
    raise IdentityError(
        f"CA {folder}: {text} is no file, and no name or serial number of a certificate that it has"
        f" signed; {advice}"
    )


def _folder(ca: AnyPath) -> Path:
    folder = Path(checks.path("ca", ca))
    if not (folder / "ca.pem").is_file():
        raise IdentityError(
            f"CA {folder}: no file ca.pem; give the folder of a CA, or make one: blindsum pki init {folder}"
        )
    return folder


def authority_name(ca: Path) -> str:
    """The distinguished name of a CA."""
    return str(_native.pki_describe(read(ca / "ca.pem", "CA certificate"))["subject"])
