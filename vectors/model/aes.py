"""AES-256, its counter mode and AES-256-GCM, byte by byte (FIPS 197, SP 800-38A, SP 800-38D)."""

from __future__ import annotations

from functools import cache

ROUNDS = 14


def times_two(byte: int) -> int:
    """Multiply by x in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    return (byte << 1) ^ (0x11B if byte & 0x80 else 0)


def multiply(a: int, b: int) -> int:
    """Multiply in GF(2^8)."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a, b = times_two(a), b >> 1
    return product


def make_sbox() -> list[int]:
    """Invert in GF(2^8), then the affine map of FIPS 197 section 5.1.1."""
    box = [0x63]
    for byte in range(1, 256):
        inverse = next(x for x in range(1, 256) if multiply(byte, x) == 1)
        spread = 0
        for turn in range(5):
            spread ^= (inverse << turn | inverse >> (8 - turn)) & 0xFF
        box.append(spread ^ 0x63)
    return box


SBOX = make_sbox()
DOUBLE = [times_two(byte) for byte in range(256)]


@cache
def round_keys(key: bytes) -> list[bytes]:
    """Expand a key of 32 bytes to 15 round keys."""
    words = [key[i : i + 4] for i in range(0, 32, 4)]
    constant = 1
    for i in range(8, 4 * (ROUNDS + 1)):
        word = words[-1]
        if i % 8 == 0:
            word = bytes(SBOX[byte] for byte in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant = times_two(constant)
        elif i % 8 == 4:
            word = bytes(SBOX[byte] for byte in word)
        words.append(xor(words[-8], word))
    return [b"".join(words[i : i + 4]) for i in range(0, len(words), 4)]


def xor(a: bytes, b: bytes) -> bytes:
    """Exclusive or of strings of the same length."""
    assert len(a) == len(b)
    return (int.from_bytes(a) ^ int.from_bytes(b)).to_bytes(len(a))


def mix(column: list[int]) -> list[int]:
    """MixColumns of one column."""
    a, b, c, d = column
    every = a ^ b ^ c ^ d
    return [
        a ^ every ^ DOUBLE[a ^ b],
        b ^ every ^ DOUBLE[b ^ c],
        c ^ every ^ DOUBLE[c ^ d],
        d ^ every ^ DOUBLE[d ^ a],
    ]


# By row of a byte and byte: the column that it adds, before the last round and in it.
MIXED, LAST = (
    [
        [int.from_bytes(mixed([0] * row + [SBOX[byte]] + [0] * (3 - row))) for byte in range(256)]
        for row in range(4)
    ]
    for mixed in (mix, bytes)
)


def encrypt_block(key: bytes, block: bytes) -> bytes:
    """Encrypt 16 bytes under a key of 32."""
    keys = round_keys(key)
    state = xor(block, keys[0])
    for number in range(1, ROUNDS + 1):
        # Byte r + 4c is row r of column c; row r moves r columns to the left.
        a, b, c, d = MIXED if number < ROUNDS else LAST
        columns = [
            a[state[at]] ^ b[state[(at + 5) % 16]] ^ c[state[(at + 10) % 16]] ^ d[state[(at + 15) % 16]]
            for at in range(0, 16, 4)
        ]
        state = xor(b"".join(column.to_bytes(4) for column in columns), keys[number])
    return state


def counter_stream(key: bytes, first_byte: int, length: int) -> bytes:
    """Bytes ``first_byte..`` of the keystream whose 128-bit big-endian counter starts at 0."""
    first, last = first_byte // 16, (first_byte + length + 15) // 16
    blocks = (encrypt_block(key, i.to_bytes(16, "big")) for i in range(first, last))
    skipped = first_byte - 16 * first
    return b"".join(blocks)[skipped : skipped + length]


def ghash_multiply(x: int, y: int) -> int:
    """Multiply in GF(2^128) as GCM writes it: the highest bit is the coefficient of X^0."""
    product = 0
    for i in reversed(range(128)):
        product ^= y if x >> i & 1 else 0
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return product


def ghash(key: bytes, header: bytes, ciphertext: bytes) -> int:
    """GHASH over header and ciphertext, each padded to whole blocks, and their lengths in bits."""
    subkey = int.from_bytes(encrypt_block(key, bytes(16)), "big")
    padded = b"".join(part + bytes(-len(part) % 16) for part in (header, ciphertext))
    padded += (8 * len(header)).to_bytes(8, "big") + (8 * len(ciphertext)).to_bytes(8, "big")
    digest = 0
    for i in range(0, len(padded), 16):
        digest = ghash_multiply(digest ^ int.from_bytes(padded[i : i + 16], "big"), subkey)
    return digest


@cache
def gcm_blocks(key: bytes, nonce: bytes, first: int, length: int) -> bytes:
    """Keystream of GCM from the counter ``first`` on; the tag uses 1, the message 2 and further."""
    count = (length + 15) // 16
    blocks = (encrypt_block(key, nonce + (first + i).to_bytes(4, "big")) for i in range(count))
    return b"".join(blocks)[:length]


def gcm_seal(key: bytes, nonce: bytes, header: bytes, plaintext: bytes) -> bytes:
    """Ciphertext and the tag of 16 bytes."""
    ciphertext = xor(plaintext, gcm_blocks(key, nonce, 2, len(plaintext)))
    tag = ghash(key, header, ciphertext).to_bytes(16, "big")
    return ciphertext + xor(tag, gcm_blocks(key, nonce, 1, 16))


def gcm_open(key: bytes, nonce: bytes, header: bytes, sealed: bytes) -> bytes | None:
    """Give the plaintext, None if the tag is wrong."""
    ciphertext = sealed[:-16]
    plaintext = xor(ciphertext, gcm_blocks(key, nonce, 2, len(ciphertext)))
    return plaintext if gcm_seal(key, nonce, header, plaintext) == sealed else None
