"""The certificate and key of a party, coordinator, server or operator, as files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from blindsum import _native, checks
from blindsum.errors import IdentityError
from blindsum.pki.files import read, with_ending

AnyPath: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True, slots=True)
class Identity:
    """The two files of a party, coordinator, server or operator.

    Attributes
    ----------
    certificate : pathlib.Path
        The certificate, PEM.
    key : pathlib.Path
        The private key, PEM.
    passphrase : str, optional
        What the key is encrypted with. A key that is not encrypted needs none.
    """

    certificate: Path
    key: Path
    passphrase: str | None = field(default=None, repr=False)

    @classmethod
    def find(cls, place: AnyPath | Identity, passphrase: str | None = None) -> Identity:
        """Find an identity by the path of its files without their ending, or by its folder.

        Parameters
        ----------
        place
            ``pki/hospital-a`` for ``pki/hospital-a.pem`` and ``pki/hospital-a.key``; or a folder
            that holds exactly one such pair, not counting a CA's. An identity is given back.
        passphrase
            What the key is encrypted with.

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
            found = cls(with_ending(path, ".pem"), with_ending(path, ".key"), passphrase)
            missing = [file for file in (found.certificate, found.key) if not file.is_file()]
            if missing:
                raise IdentityError(
                    f"identity {path}: no file {missing[0]}; give the path of NAME.pem and NAME.key"
                    " without the ending"
                )
            return found
        keys = sorted(key for key in path.glob("*.key") if key.name != "ca.key")
        pairs = [cls(key.with_suffix(".pem"), key, passphrase) for key in keys]
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
    authority = authority_file(ca)
    lists = None if revoked is None else checks.path("revoked", revoked)
    return (str(found.certificate), str(found.key), str(authority), lists, found.passphrase)


def authority_texts(ca: AnyPath, revoked: AnyPath | None) -> tuple[str, str | None]:
    """The certificate of a CA and its revocation list, as text.

    Raises
    ------
    blindsum.IdentityError
        A file that cannot be read.
    blindsum.ConfigError
        An empty path.
    """
    lists = None if revoked is None else read(Path(checks.path("revoked", revoked)), "revocation list")
    return read(authority_file(ca), "CA certificate"), lists


def authority_file(ca: AnyPath) -> Path:
    """The certificate of a CA, by its file or its folder.

    Raises
    ------
    blindsum.ConfigError
        An empty path.
    """
    path = Path(checks.path("ca", ca))
    return path / "ca.pem" if path.is_dir() else path
