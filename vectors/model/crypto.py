"""Hashes, derivations, key agreement, sealing and signatures, one by one."""

from __future__ import annotations

from hashlib import sha256

from . import curve25519, derive, p256
from .identity import Identity


def pick(label: str, length: int = 32) -> bytes:
    """Bytes that follow from a label."""
    content = b"".join(sha256(f"{label}/{i}".encode()).digest() for i in range(length // 32 + 1))
    return content[:length]


CONTEXT = pick("context")


def hashed(label: str, *parts: bytes) -> dict[str, object]:
    """A framed hash."""
    digest = derive.framed_hash(label, *parts)
    return {"label": label, "parts": [part.hex() for part in parts], "hash": digest.hex()}


def derived(secret: bytes, context: bytes, label: str, *parts: bytes) -> dict[str, object]:
    """A derived key."""
    return {
        "secret": secret.hex(),
        "context": context.hex(),
        "label": label,
        "parts": [part.hex() for part in parts],
        "key": derive.derive32(secret, context, label, *parts).hex(),
    }


def agreed(suite: str, one: bytes, other: bytes) -> dict[str, object]:
    """What two parties agree on, and a key of it."""
    keys = [derive.public_key(suite, secret) for secret in (one, other)]
    shared = derive.agree(suite, one, keys[1])
    assert shared == derive.agree(suite, other, keys[0])
    return {
        "suite": suite,
        "secrets": [one.hex(), other.hex()],
        "public_keys": [key.hex() for key in keys],
        "shared": shared.hex(),
    }


def refused_keys() -> list[dict[str, str]]:
    """Public keys that must not be used."""
    p = curve25519.P
    # The points of low order on curve and twist: u = 0, 1, -1 and two of order 8.
    eighth = [
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    ]
    low = [u.to_bytes(32, "little") for u in (0, 1, p - 1, *eighth)]
    assert all(curve25519.x25519(pick("any"), u) == bytes(32) for u in low)
    not_canonical = [p, p + 1, p + 9, 2**255 - 1, 2**255 + 9]
    x25519 = low + [u.to_bytes(32, "little") for u in not_canonical]
    x25519 += [b"", pick("short", 31), pick("long", 33)]
    point = p256.compress(p256.public_point(pick("refused")))
    nowhere = next(x for x in range(9) if p256.decompress(b"\x02" + x.to_bytes(32, "big")) is None)
    beyond = next(x for x in range(9) if p256.decompress(b"\x02" + x.to_bytes(32, "big")))
    p256_keys = [
        b"\x02" + nowhere.to_bytes(32, "big"),
        b"\x02" + (p256.P + beyond).to_bytes(32, "big"),
        b"\x04" + point[1:],
        b"\x00" * 33,
        point[1:],
        p256.uncompressed(p256.public_point(pick("refused"))),
    ]
    return [{"suite": "x25519", "key": key.hex()} for key in x25519] + [
        {"suite": "p256", "key": key.hex()} for key in p256_keys
    ]


def sealed(suite: str, sender: int, receiver: int, purpose: str, length: int) -> dict[str, object]:
    """A message between two parties."""
    own, other = pick("sender"), pick("receiver")
    other_public = derive.public_key(suite, other)
    shared = derive.agree(suite, own, other_public)
    key = derive.message_key(shared, CONTEXT, sender, receiver, purpose)
    header, plaintext = pick("header", length % 50), pick("plaintext", length)
    return {
        "suite": suite,
        "secrets": [own.hex(), other.hex()],
        "context": CONTEXT.hex(),
        "from": sender,
        "to": receiver,
        "purpose": purpose,
        "header": header.hex(),
        "plaintext": plaintext.hex(),
        "sealed": derive.seal(key, header, plaintext).hex(),
    }


def stored(length: int) -> dict[str, str]:
    """A sealed snapshot."""
    key, salt = pick("storage key"), pick(f"salt {length}")
    header, plaintext = pick("header", 21), pick("snapshot", length)
    return {
        "key": key.hex(),
        "salt": salt.hex(),
        "header": header.hex(),
        "plaintext": plaintext.hex(),
        "sealed": derive.seal_for_storage(key, salt, header, plaintext).hex(),
    }


def signed(algorithm: str, label: str, message: bytes) -> dict[str, object]:
    """A signature, and others that must not verify."""
    identity = Identity(algorithm, pick(f"{algorithm} identity"))
    signature = identity.sign(label, message)
    assert identity.verify(label, message, signature)
    second = int.from_bytes(signature[32:], "little" if algorithm == "ed25519" else "big")
    # The same equation has another solution: s + order for Ed25519, order - s for ECDSA.
    if algorithm == "ed25519":
        twin = (second + curve25519.ORDER).to_bytes(32, "little")
    else:
        twin = (p256.ORDER - second).to_bytes(32, "big")
    refused = [
        signature[:32] + twin,
        signature[:-1],
        signature + b"\0",
        bytes([signature[0] ^ 1]) + signature[1:],
        identity.sign(label + "x", message),
        identity.sign(label, message + b"x"),
    ]
    assert not any(identity.verify(label, message, wrong) for wrong in refused)
    return {
        "algorithm": algorithm,
        "private_key": identity.to_pem(),
        "public_key": identity.public().hex(),
        "label": label,
        "message": message.hex(),
        "signature": signature.hex(),
        "refused": [wrong.hex() for wrong in refused],
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``crypto.json``."""
    rank = derive.rank_bytes
    secrets = [pick(f"secret {i}") for i in range(4)]
    return {
        "hashes": [
            hashed(""),
            hashed("h", b""),
            hashed("h", b"", b""),
            hashed("blindsum round", pick("job"), (7).to_bytes(8, "big"), pick("r"), pick("m")),
            hashed("blindsum self mask", CONTEXT, rank(3), secrets[0]),
            hashed("blindsum graph", CONTEXT),
            hashed("long", pick("message", 200)),
            hashed("l" * 255, pick("part", 100)),
        ],
        "derivations": [
            derived(secrets[0], CONTEXT, ""),
            derived(secrets[0], CONTEXT, "self mask", rank(3)),
            derived(secrets[1], CONTEXT, "pair mask", rank(3), rank(260)),
            derived(secrets[2], CONTEXT, "share", rank(260), rank(3), b"shares"),
            derived(bytes(32), bytes(32), "l" * 255, b"", pick("part", 300)),
        ],
        "agreements": [
            agreed(suite, *pair)
            for suite in derive.SUITES
            for pair in [(secrets[0], secrets[1]), (secrets[3], secrets[2])]
        ],
        "refused_keys": refused_keys(),
        "sealed": [
            sealed("x25519", 0, 1, "shares", 80),
            sealed("x25519", 1, 0, "shares", 80),
            sealed("p256", 70000, 3, "shares", 33),
            sealed("x25519", 5, 5, "", 0),
        ],
        "stored": [stored(0), stored(100)],
        "signatures": [
            signed(algorithm, label, pick("signed", length))
            for algorithm in ("ed25519", "p256")
            for label, length in [("blindsum advertise keys", 100), ("blindsum survivors", 33)]
        ],
    }
