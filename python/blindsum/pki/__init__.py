"""Certificates on disk: the job's CA, what it has signed, revocation, and one CA after another.

A CA is a folder with ``ca.pem`` (give it to everybody), ``ca.key`` (keep it off line), ``index.json`` (what
it has signed) and, once somebody was revoked, ``crl.pem``. An identity is a pair of files ``NAME.pem`` and
``NAME.key``. Files are readable by their owner only, folders too, and no file is ever overwritten but the
index, the revocation list and, where that is asked for, a certificate.
"""

from __future__ import annotations

from blindsum.pki.authority import CA_DAYS, IDENTITY_DAYS, MAX_DAYS, init, issue, request, sign
from blindsum.pki.contents import Ending, expiring, show
from blindsum.pki.identity import AnyPath, Identity, authority_texts, pem_files
from blindsum.pki.index import Entry, Index, Revocation
from blindsum.pki.passphrases import change_passphrase, is_encrypted, passphrase_from
from blindsum.pki.records import REVOCATION_DAYS, certificates, find, learn, revoke
from blindsum.pki.rolling import Rolled, bundle, roll, unrenewed

__all__ = [
    "CA_DAYS",
    "IDENTITY_DAYS",
    "MAX_DAYS",
    "REVOCATION_DAYS",
    "AnyPath",
    "Ending",
    "Entry",
    "Identity",
    "Index",
    "Revocation",
    "Rolled",
    "authority_texts",
    "bundle",
    "certificates",
    "change_passphrase",
    "expiring",
    "find",
    "init",
    "is_encrypted",
    "issue",
    "learn",
    "passphrase_from",
    "pem_files",
    "request",
    "revoke",
    "roll",
    "show",
    "sign",
    "unrenewed",
]
