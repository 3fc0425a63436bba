"""What a CA has signed: the file ``index.json`` of its folder.

The index is written before what it describes is handed out, so it knows at least what others have. It is
replaced all at once, and commands that change it take turns by a lock. ``revoked.json`` stays beside it:
earlier versions go by that file, and it is what remains if the index is lost.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blindsum import _native
from blindsum.errors import IdentityError
from blindsum.pki.files import FILE_MODE, not_written, read, replace

FORM = 1
"""The form of the file, a number that grows with it."""

LOCK_WAIT = 30.0
"""Seconds that a command waits for another one."""

UNKNOWN = "unknown"
"""The name or role of a certificate of which only the serial number is known."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """When and why a certificate was revoked.

    Attributes
    ----------
    when : int or None
        Unix seconds; ``None`` if an earlier version revoked it, which did not record that.
    why : str
        What was said; empty if nothing was.
    """

    when: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One certificate that a CA has signed.

    Attributes
    ----------
    name : str
        The name that it was signed for; ``"unknown"`` if only the serial number is known.
    role : str
        ``"party"``, ``"coordinator"``, ``"server"`` or ``"operator"``; ``"unknown"`` as above.
    serial : str
        The serial number in hexadecimal digits.
    fingerprint, key_fingerprint : str
        SHA-256 of the certificate and of its public key in hexadecimal digits; empty as above.
    not_before, not_after : int
        The first and the last second in which it is valid, Unix seconds; 0 as above.
    revoked : Revocation or None
        Whether it was revoked.
    """

    name: str
    role: str
    serial: str
    fingerprint: str = ""
    key_fingerprint: str = ""
    not_before: int = 0
    not_after: int = 0
    revoked: Revocation | None = None

    @property
    def is_known(self) -> bool:
        """Whether more than the serial number is known."""
        return bool(self.fingerprint)

    def state(self, now: float) -> str:
        """``"revoked"``, ``"expired"``, ``"valid"``, or ``"unknown"``."""
        if self.revoked is not None:
            return "revoked"
        if not self.is_known:
            return UNKNOWN
        return "expired" if self.not_after < now else "valid"


@dataclass(frozen=True, slots=True)
class Index:
    """The certificates that a CA has signed, in the order in which it did.

    Attributes
    ----------
    entries : tuple of Entry
        The certificates.
    list_number : int
        The number of the latest revocation list; 0 if there was none.
    unknown_until : int or None
        Where an earlier version without an index has signed with this CA: certificates that were signed
        before this second (Unix) may be missing. ``None`` if none are.
    """

    entries: tuple[Entry, ...] = ()
    list_number: int = 0
    unknown_until: int | None = None

    def with_entry(self, entry: Entry) -> Index:
        """The same index with one more certificate, or with more about one that it has."""
        old = next((one for one in self.entries if one.serial == entry.serial), None)
        if old is None:
            return dataclasses.replace(self, entries=(*self.entries, entry))
        merged = entry if entry.revoked is not None else dataclasses.replace(entry, revoked=old.revoked)
        entries = tuple(merged if one.serial == entry.serial else one for one in self.entries)
        return dataclasses.replace(self, entries=entries)

    def of_name(self, name: str) -> list[Entry]:
        """The certificates of a name."""
        return [entry for entry in self.entries if entry.name == name]

    def revoked_key(self, key_fingerprint: str) -> Entry | None:
        """The latest revoked certificate of a key, if there is one."""
        found = [one for one in self.entries if one.key_fingerprint == key_fingerprint and one.revoked]
        return found[-1] if found else None

    def of_serial(self, serial: str) -> Entry | None:
        """The certificate with a serial number."""
        return next((entry for entry in self.entries if entry.serial == serial), None)

    @property
    def revoked(self) -> list[str]:
        """The serial numbers of revoked certificates, sorted."""
        return sorted(entry.serial for entry in self.entries if entry.revoked is not None)


def entry_of(fields: dict[str, Any], name: str | None = None) -> Entry:
    """The entry of a certificate that was described by :func:`blindsum.pki.show`."""
    common_name = fields["subject"].removeprefix("CN=")
    return Entry(
        name=common_name if name is None else name,
        role=fields["role"],
        serial=fields["serial"],
        fingerprint=fields["fingerprint"],
        key_fingerprint=fields["key_fingerprint"],
        not_before=fields["not_before"],
        not_after=fields["not_after"],
    )


def load(folder: Path) -> Index:
    """The index of a CA's folder; what can be found out where there is none, as of an earlier version.

    Raises
    ------
    blindsum.IdentityError
        The index or ``revoked.json`` is damaged.
    """
    path = folder / "index.json"
    index = _parsed(path) if path.exists() else _found(folder)
    number, serials = _revoked(folder)
    for serial in serials:
        entry = index.of_serial(serial) or Entry(UNKNOWN, UNKNOWN, serial)
        if entry.revoked is None:
            index = index.with_entry(dataclasses.replace(entry, revoked=Revocation(None)))
    return dataclasses.replace(index, list_number=max(number, index.list_number))


def save(folder: Path, index: Index) -> None:
    """Write the index, and before it the file that earlier versions go by.

    Raises
    ------
    blindsum.IdentityError
        They cannot be written.
    """
    if index.list_number or (folder / "revoked.json").exists():
        record = {"number": index.list_number, "serials": index.revoked}
        replace(folder / "revoked.json", json.dumps(record))
    said = {
        "form": FORM,
        "list_number": index.list_number,
        "unknown_until": index.unknown_until,
        "certificates": [dataclasses.asdict(entry) for entry in index.entries],
    }
    replace(folder / "index.json", json.dumps(said, indent=1) + "\n")


def set_aside(folder: Path) -> None:
    """Move an index away, to ``index.json.damaged``: it is made anew when it is loaded next.

    Raises
    ------
    blindsum.IdentityError
        It cannot be moved.
    """
    path = folder / "index.json"
    kept = path.with_name("index.json.damaged")
    try:
        if path.exists():
            path.replace(kept)
    except OSError as error:
        raise not_written(kept, error) from error


def signed_entry(folder: Path, certificate: Path) -> Entry:
    """The entry of a certificate's file.

    Raises
    ------
    blindsum.IdentityError
        It is no certificate, or this CA has not signed it.
    """
    text = read(certificate, "certificate")
    if "CERTIFICATE-----" not in text:
        raise IdentityError(
            f"certificate {certificate}: has no section CERTIFICATE; give a file NAME.pem of a party,"
            " coordinator, server or operator"
        )
    if not _native.pki_has_signed(read(folder / "ca.pem", "CA certificate"), text):
        raise IdentityError(
            f"certificate {certificate}: not signed by CA {folder}, which can only revoke what it has signed"
        )
    return entry_of(_native.pki_describe(text))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other commands from changing the index meanwhile.

    Raises
    ------
    blindsum.IdentityError
        Another command does not end, or the lock cannot be made.
    """
    path = folder / "index.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
    except OSError as error:
        raise not_written(path, error) from error
    try:
        _wait_for(handle, path)
        yield
    finally:
        os.close(handle)


def _wait_for(handle: int, path: Path) -> None:
    until = time.monotonic() + LOCK_WAIT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise IdentityError(
                    f"{path}: another command has used this CA for {LOCK_WAIT:.0f} s; wait until it has ended"
                ) from error
            time.sleep(0.02)
        else:
            return


def _found(folder: Path) -> Index:
    """What the folder of a CA without an index tells."""
    authority = read(folder / "ca.pem", "CA certificate")
    entries = []
    for path in folder.glob("*.pem"):
        # What else lies there is nobody's certificate. That some may be missing is said in any case.
        with suppress(IdentityError):
            text = read(path, "certificate")
            if _native.pki_has_signed(authority, text):
                entries.append(entry_of(_native.pki_describe(text)))
    entries.sort(key=lambda entry: (entry.not_before, entry.name))
    return Index(tuple(entries), unknown_until=int(time.time()))


def _revoked(folder: Path) -> tuple[int, list[str]]:
    """The number of the latest list and the serial numbers on it."""
    path, latest = folder / "revoked.json", folder / "crl.pem"
    if not path.exists():
        # It was lost. The list itself is what others go by.
        if not latest.exists():
            return 0, []
        said = _native.pki_describe_list(read(latest, "revocation list"))
        return int(said["number"] or "0", 16), said["serials"]
    try:
        state = json.loads(read(path, "record of revocations"))
        number, serials = state["number"], state["serials"]
        if type(number) is not int or not all(type(serial) is str for serial in serials):
            raise TypeError("number must be a number and serials texts")
    except (ValueError, TypeError, KeyError) as error:
        raise IdentityError(
            f"record of revocations {path}: is damaged ({error}); put a copy of it back, or move it"
            " away: crl.pem is read in its place"
        ) from error
    return number, list(serials)


def _parsed(path: Path) -> Index:
    text = read(path, "index")
    try:
        said = json.loads(text)
        if said["form"] != FORM:
            raise IdentityError(
                f"index {path}: has form {said['form']}, must be {FORM}; use the version of blindsum"
                " that wrote it"
            )
        entries = tuple(_entry(fields) for fields in said["certificates"])
        index = Index(entries, said["list_number"], said["unknown_until"])
        _check(index)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise IdentityError(
            f"index {path}: is damaged ({type(error).__name__}: {error}); put a copy of it back, or"
            " make it anew:"
            f" blindsum pki index {path.parent} --rebuild"
        ) from error
    return index


def _entry(fields: dict[str, Any]) -> Entry:
    revoked = fields["revoked"]
    return Entry(**fields | {"revoked": None if revoked is None else Revocation(**revoked)})


def _check(index: Index) -> None:
    """Refuse fields of other types, and a serial number that is there twice."""
    whole = [index.list_number, 0 if index.unknown_until is None else index.unknown_until]
    for entry in index.entries:
        texts = (entry.name, entry.role, entry.serial, entry.fingerprint, entry.key_fingerprint)
        if not all(type(text) is str for text in texts):
            raise TypeError("names, roles, serial numbers and fingerprints must be texts")
        whole += [entry.not_before, entry.not_after]
        if entry.revoked is not None:
            whole.append(0 if entry.revoked.when is None else entry.revoked.when)
    if not all(type(number) is int for number in whole):
        raise TypeError("times and numbers must be whole numbers")
    serials = [entry.serial for entry in index.entries]
    if len(set(serials)) != len(serials):
        raise ValueError("a serial number is there twice")
