"""Private keys under a passphrase."""

from __future__ import annotations

from pathlib import Path

from blindsum import _native, checks
from blindsum.errors import ConfigError, IdentityError
from blindsum.pki.files import read, replace
from blindsum.pki.identity import AnyPath

MIN_PASSPHRASE = 8
"""Characters of a new passphrase at least."""


def is_encrypted(key_file: AnyPath) -> bool:
    """Whether the private key in a file is encrypted with a passphrase.

    Raises
    ------
    blindsum.IdentityError
        The file cannot be read.
    """
    path = Path(checks.path("key_file", key_file))
    keys = [label for label in _native.pem_labels(read(path, "key")) if label.endswith("PRIVATE KEY")]
    return keys[:1] == ["ENCRYPTED PRIVATE KEY"]


def passphrase_from(file: AnyPath) -> str:
    """The passphrase in a file: its first line.

    Raises
    ------
    blindsum.IdentityError
        The file cannot be read, or its first line is empty.
    """
    path = Path(checks.path("file", file))
    first, *_ = read(path, "passphrase").splitlines() or [""]
    if not first:
        raise IdentityError(f"passphrase {path}: has an empty first line; write the passphrase there")
    return first


def change_passphrase(key_file: AnyPath, old: str | None, new: str | None) -> Path:
    """Encrypt a private key in its file, give it another passphrase, or take the passphrase off.

    The file is replaced all at once.

    Parameters
    ----------
    key_file
        The key.
    old
        Its passphrase; ``None`` if it has none.
    new
        The new passphrase, of at least 8 characters; ``None`` decrypts the key.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    blindsum.IdentityError
        The passphrase is wrong, there is none to take off, or the file holds no private key.
    """
    path = Path(checks.path("key_file", key_file))
    plain = plain_key(path, old)
    if new is None and not is_encrypted(path):
        raise IdentityError(
            f"key {path}: is not encrypted, there is no passphrase to remove; leave it as it is"
        )
    replace(path, plain if new is None else encrypted(plain, new))
    return path


def plain_key(path: Path, passphrase: str | None) -> str:
    """The private key in a file, decrypted.

    Raises
    ------
    blindsum.IdentityError
        The file holds none, or the passphrase is missing or wrong.
    """
    text = read(path, "key")
    if passphrase is None and is_encrypted(path):
        raise IdentityError(
            f"key {path}: is encrypted, and no passphrase is given for it; give one by --ca-passphrase-file "
            "or BLINDSUM_CA_PASSPHRASE for the key of a CA, by --key-passphrase-file or "
            "BLINDSUM_KEY_PASSPHRASE for another one (in Python ca_passphrase or passphrase), or at a "
            "terminal"
        )
    try:
        return _native.pki_decrypt(text, passphrase or "")
    except IdentityError as error:
        raise IdentityError(f"key {path}: {error}") from error


def encrypted(key: str, passphrase: str | None) -> str:
    """A private key under a passphrase; as it is where there is none.

    Raises
    ------
    blindsum.ConfigError
        A passphrase of fewer than 8 characters.
    """
    if passphrase is None:
        return key
    check_new(passphrase)
    return _native.pki_encrypt(key, passphrase)


def check_new(passphrase: str | None) -> None:
    """Refuse a new passphrase that is too short.

    Raises
    ------
    blindsum.ConfigError
        It has fewer than 8 characters, or more than one line.
    """
    if passphrase is None:
        return
    if not isinstance(passphrase, str) or len(passphrase) < MIN_PASSPHRASE:
        raise ConfigError(
            "passphrase", f"must be a text of at least {MIN_PASSPHRASE} characters; choose a longer one"
        )
    if len(passphrase.splitlines()) > 1:
        raise ConfigError("passphrase", "must be one line, as a passphrase file has it; leave line ends out")
