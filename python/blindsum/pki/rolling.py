"""One CA takes the place of another, while jobs run."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from blindsum import checks
from blindsum.errors import IdentityError
from blindsum.pki import contents, index
from blindsum.pki.authority import CA_DAYS, MAX_DAYS, init, load
from blindsum.pki.files import read, refuse_existing, replace
from blindsum.pki.identity import AnyPath
from blindsum.pki.records import REVOCATION_DAYS, authority_name, revoke


@dataclass(frozen=True, slots=True)
class Rolled:
    """A new CA, and what everybody trusts until the old one is gone.

    Attributes
    ----------
    authority : pathlib.Path
        The certificate of the new CA.
    bundle : pathlib.Path
        The certificates of both, the old one first.
    lists : pathlib.Path
        The revocation lists of both.
    """

    authority: Path
    bundle: Path
    lists: Path


def roll(
    ca: AnyPath,
    new: AnyPath,
    name: str | None = None,
    algorithm: str = "ed25519",
    days: int = CA_DAYS,
    *,
    passphrase: str | None = None,
    ca_passphrase: str | None = None,
) -> Rolled:
    """Make the CA that takes the place of another one, and the files for the time in which both are trusted.

    Parameters
    ----------
    ca
        The folder of the old CA. Its revocation list is written anew.
    new
        The folder of the new one, which gets ``both.pem`` and ``both-crl.pem`` beside the CA's own files.
    name
        The common name of the new CA, which must be another than that of the old one: revocation lists are
        told apart by it. ``None`` counts on: ``Blindsum CA``, ``Blindsum CA 2``.
    algorithm
        ``"ed25519"`` or ``"p256"``.
    days
        How long the new CA's certificate is valid.
    passphrase
        What the new CA's key is encrypted with; ``None`` leaves it as it is.
    ca_passphrase
        What the old CA's key is encrypted with, if it is.

    Raises
    ------
    blindsum.IdentityError
        No such CA, the same name, or a CA in the new folder.
    """
    old, folder = Path(checks.path("ca", ca)), Path(checks.folder("new", new))
    checks.setting("days", days, 1, MAX_DAYS)
    load(old, ca_passphrase)
    before = authority_name(old)
    common_name = _next(before.removeprefix("CN=")) if name is None else checks.line("name", name)
    if f"CN={common_name}" == before:
        raise IdentityError(
            f"CA {old}: is called {common_name!r} too, and revocation lists are told apart by that"
            " name; give the new"
            " CA another one"
        )
    rolled = Rolled(folder / "ca.pem", folder / "both.pem", folder / "both-crl.pem")
    refuse_existing(rolled.authority, rolled.bundle, rolled.lists)
    init(folder, common_name, algorithm, days, passphrase=passphrase)
    old_list = revoke(old, [], REVOCATION_DAYS, ca_passphrase=ca_passphrase)
    new_list = revoke(folder, [], REVOCATION_DAYS, ca_passphrase=passphrase)
    bundle([old / "ca.pem", rolled.authority], rolled.bundle)
    bundle([old_list, new_list], rolled.lists)
    return rolled


def bundle(files: Sequence[AnyPath], out: AnyPath) -> Path:
    """Put the certificates of several CAs into one file, or their revocation lists.

    Parameters
    ----------
    files
        Certificates of CAs, or revocation lists; the first CA stays first.
    out
        The file that is written, in the place of an older one.

    Returns
    -------
    pathlib.Path
        ``out``.

    Raises
    ------
    blindsum.IdentityError
        A file with neither, or with the other kind; a certificate that is no CA's; two lists of one CA, or
        two CAs of one name.
    """
    target = Path(checks.path("out", out))
    paths = [Path(checks.path("file", file)) for file in files]
    kinds: set[str] = set()
    owners: set[str] = set()
    texts: list[str] = []
    for path in paths:
        fields = contents.show(path)
        kinds.add(fields["kind"])
        if kinds not in ({"certificate"}, {"revocation list"}):
            raise IdentityError(
                f"{path}: is a {fields['kind']}; give certificates of CAs alone, or revocation lists alone"
            )
        for one in [fields, *fields.get("others", [])]:
            if fields["kind"] == "certificate" and not one["is_ca"]:
                raise IdentityError(f"{path}: is no certificate of a CA; give the file ca.pem of each CA")
            owner = one["subject" if fields["kind"] == "certificate" else "issuer"]
            if owner in owners:
                raise IdentityError(
                    f"{path}: is the second {fields['kind']} of {owner}; give one of each CA, the newest"
                )
            owners.add(owner)
        texts.append(read(path, fields["kind"]).strip() + "\n")
    if not texts:
        raise IdentityError(f"{target}: nothing to put there; give the files of two CAs")
    replace(target, "".join(texts))
    return target


def unrenewed(ca: AnyPath, new: AnyPath) -> list[index.Entry]:
    """The valid certificates of an old CA that have none of the same name and role of the new one yet.

    Raises
    ------
    blindsum.IdentityError
        No such CA, or its index is damaged.
    """
    now = time.time()
    old = index.load(Path(checks.path("ca", ca)))
    renewed = {
        (entry.name, entry.role)
        for entry in index.load(Path(checks.path("new", new))).entries
        if entry.state(now) == "valid"
    }
    valid = [entry for entry in old.entries if entry.state(now) == "valid"]
    return [entry for entry in valid if (entry.name, entry.role) not in renewed]


def _next(name: str) -> str:
    counted = re.fullmatch(r"(.*) (\d+)", name)
    return f"{counted[1]} {int(counted[2]) + 1}" if counted else f"{name} 2"
