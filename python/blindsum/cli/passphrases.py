"""Passphrases of private keys: from a file, a variable of the environment, or a terminal."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path

from blindsum.cli.files import named

KEY_VARIABLE = "BLINDSUM_KEY_PASSPHRASE"
CA_VARIABLE = "BLINDSUM_CA_PASSPHRASE"
NEW_VARIABLE = "BLINDSUM_NEW_PASSPHRASE"


def add_key(parser: argparse.ArgumentParser) -> None:
    """The argument of commands that read a private key."""
    parser.add_argument(
        "--key-passphrase-file",
        type=named,
        metavar="FILE",
        help=f"its first line is the passphrase of the key; or set {KEY_VARIABLE}, or type it in",
    )


def add_new_key(parser: argparse.ArgumentParser) -> None:
    """The arguments of commands that make a private key."""
    parser.add_argument("--encrypt", action="store_true", help="encrypt the key with a passphrase")
    parser.add_argument(
        "--key-passphrase-file",
        type=named,
        metavar="FILE",
        help=f"with --encrypt: its first line is the passphrase; or set {KEY_VARIABLE}, or type it in",
    )


def add_ca(parser: argparse.ArgumentParser) -> None:
    """The argument of commands that sign with the CA's key."""
    parser.add_argument(
        "--ca-passphrase-file",
        type=named,
        metavar="FILE",
        help=f"its first line is the passphrase of the CA's key; or set {CA_VARIABLE}, or type it in",
    )


def of_key(options: argparse.Namespace, key: Path) -> str | None:
    """The passphrase of a party's or coordinator's key; ``None`` where none is given or typed."""
    return _given(options.key_passphrase_file, KEY_VARIABLE) or _typed(key)


def of_ca(options: argparse.Namespace) -> str | None:
    """The passphrase of a CA's key; ``None`` where none is given and none can be asked for."""
    return _given(options.ca_passphrase_file, CA_VARIABLE) or _typed(Path(options.folder) / "ca.key")


def of_new_key(options: argparse.Namespace) -> str | None:
    """The passphrase of a key that is made; ``None`` where it is not to be encrypted.

    Raises
    ------
    blindsum.ConfigError
        A file of a passphrase without ``--encrypt``, or none is given and none can be asked for.
    """
    from blindsum.errors import ConfigError

    if not options.encrypt:
        if options.key_passphrase_file is not None:
            raise ConfigError("--key-passphrase-file", "is for keys that are encrypted; add --encrypt")
        return None
    return chosen(options.key_passphrase_file, "--key-passphrase-file", KEY_VARIABLE)


def chosen(file: str | None, option: str, variable: str) -> str:
    """A new passphrase.

    Raises
    ------
    blindsum.ConfigError
        None is given, and none can be asked for.
    """
    from blindsum.errors import ConfigError

    given = _given(file, variable)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise ConfigError(option, f"no passphrase is given; give this file, or set {variable}")
    first = getpass.getpass("new passphrase: ")
    if first != getpass.getpass("the same again: "):
        raise ConfigError("passphrase", "the two that were typed are not the same; try again")
    return first


def _given(file: str | None, variable: str) -> str | None:
    from blindsum.errors import ConfigError
    from blindsum.pki import passphrase_from

    if file is not None:
        return passphrase_from(file)
    text = os.environ.get(variable)
    if text == "":
        raise ConfigError(variable, "is set and empty; set it to the passphrase, or unset it")
    return text


def _typed(key: Path) -> str | None:
    from blindsum.pki import is_encrypted

    if not sys.stdin.isatty() or not key.is_file() or not is_encrypted(key):
        return None
    return getpass.getpass(f"passphrase of {key}: ")
