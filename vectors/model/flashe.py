"""FLASHE: keys, tickets' saved state, encryption with one or two masks, sums and their checks, decryption."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from . import aes, words
from .derive import derive32, framed_hash, seal_for_storage

NO_ROUND = bytes(32)
PRIMES = 2**61 - 1, 2**61 - 31
TILE = 4096
FOR_LANES, FOR_TILES, FOR_PADS, FOR_CONTRIBUTORS = range(4)


def key_id(key: bytes) -> bytes:
    """A name of the key."""
    return derive32(key, NO_ROUND, "flashe key id")[:16]


def confirmation(key: bytes, context: bytes) -> bytes:
    """What shows that a party holds the key."""
    return derive32(key, context, "flashe confirm")


def saved_state(key: bytes, used_rounds: int) -> bytes:
    """What a party keeps: all rounds below ``used_rounds`` count as used."""
    body = bytes([1]) + key_id(key) + used_rounds.to_bytes(8, "big")
    state_key = derive32(key, NO_ROUND, "flashe state")
    return body + derive32(state_key, NO_ROUND, "flashe state tag", body)[:16]


def sealed_for_holders(key: bytes, salt: bytes, header: bytes, plaintext: bytes) -> bytes:
    """Data of the job that whoever holds the key can open."""
    return seal_for_storage(derive32(key, NO_ROUND, "flashe job data"), salt, header, plaintext)


def mask(round_key: bytes, i: int, j: int, bits: int, lane: int) -> int:
    """F(i, j, lane): a little-endian number out of one encrypted block."""
    size = 4 if bits <= 32 else 8
    number, offset = divmod(size * lane, 16)
    block = i.to_bytes(8, "big") + j.to_bytes(4, "big") + number.to_bytes(4, "big")
    stream = aes.encrypt_block(round_key, block)
    return int.from_bytes(stream[offset : offset + size], "little") % 2**bits


def encrypt(scheme: str, round_key: bytes, i: int, j: int, bits: int, vector: list[int]) -> list[int]:
    """The words of the ciphertext."""
    lanes = range(len(vector))
    masks = [mask(round_key, i, j, bits, lane) for lane in lanes]
    if scheme == "double":
        masks = [masks[lane] - mask(round_key, i, j + 1, bits, lane) for lane in lanes]
    return [(vector[lane] + masks[lane]) % 2**bits for lane in lanes]


def decrypt(
    scheme: str, round_key: bytes, i: int, survivors: list[int], bits: int, vector: list[int]
) -> list[int]:
    """Take off every survivor's masks, without looking for those that cancel."""
    for j in survivors:
        none = encrypt(scheme, round_key, i, j, bits, [0] * len(vector))
        vector = [(word - masks) % 2**bits for word, masks in zip(vector, none, strict=True)]
    return vector


def is_prime(number: int) -> bool:
    """Miller-Rabin to the first twelve prime bases, which decide below 2^64."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        powers = [pow(base, odd << k, number) for k in range(twos)]
        if powers[0] != 1 and number - 1 not in powers:
            return False
    return True


assert all(map(is_prime, PRIMES))
assert PRIMES[0] * PRIMES[1] > 2**64


def check_number(key: bytes, purpose: int, j: int, i: int, size: int) -> int:
    """Little-endian number of ``size`` bytes, the i-th of its stream."""
    block, offset = divmod(size * i, 16)
    counter = purpose.to_bytes(8, "big") + j.to_bytes(4, "big") + block.to_bytes(4, "big")
    return int.from_bytes(aes.encrypt_block(key, counter)[offset : offset + size], "little")


def coefficient(key: bytes, bits: int, lane: int) -> int:
    """What the word of a lane is multiplied by, over the integers."""
    t, i = divmod(lane, TILE)
    i, half = divmod(i, 2) if bits <= 32 else (i, 0)
    rho = check_number(key, FOR_LANES, 0, i, 8) % 2**60
    sigma = check_number(key, FOR_TILES, 0, t, 8) % 2**60
    return sigma * rho << 32 * half


def fingerprint(key: bytes, bits: int, vector: list[int]) -> int:
    """The sum of all words, each times its coefficient."""
    return sum(coefficient(key, bits, lane) * word for lane, word in enumerate(vector))


def pad(key: bytes, j: int) -> tuple[int, int]:
    """What hides the check of rank j, modulo each prime."""
    first, second = (check_number(key, FOR_PADS, j, k, 16) for k in (0, 1))
    return first % PRIMES[0], second % PRIMES[1]


def encoded(check: list[int]) -> bytes:
    """The numbers modulo each prime, 16 bytes."""
    return b"".join((number % p).to_bytes(8, "little") for number, p in zip(check, PRIMES, strict=True))


@dataclass(frozen=True)
class RoundKey:
    """A key of a job in one round, which is number ``i``."""

    scheme: str
    key: bytes
    context: bytes
    i: int
    bits: int

    @property
    def masks(self) -> bytes:
        """What masks come from."""
        return derive32(self.key, self.context, "flashe round")

    @property
    def checks(self) -> bytes:
        """What coefficients and pads come from."""
        return derive32(self.masks, self.context, "flashe check")

    def upload(self, j: int, vector: list[int]) -> tuple[list[int], list[int]]:
        """What rank j sends: words, and the check before it is reduced."""
        plain = fingerprint(self.checks, self.bits, vector)
        words = encrypt(self.scheme, self.masks, self.i, j, self.bits, vector)
        return words, [plain + number for number in pad(self.checks, j)]

    def opened(self, survivors: list[int], added: list[int], check: bytes) -> list[int]:
        """The sum of these parties' vectors; the check must be right."""
        total = decrypt(self.scheme, self.masks, self.i, survivors, self.bits, added)
        plain = fingerprint(self.checks, self.bits, total)
        pads = zip(*(pad(self.checks, j) for j in survivors), strict=True)
        assert encoded([plain + sum(numbers) for numbers in pads]) == check
        return total


def played(
    scheme: str, bits: int, lanes: int, parties: int, survivors: list[int], i: int
) -> dict[str, object]:
    """One round: what everybody sends, the sum and what it decrypts to."""
    label = f"flashe/{scheme}/{bits}"
    key, context = (sha256(f"{label}/{part}".encode()).digest() for part in ("key", "context"))
    round_key = RoundKey(scheme, key, context, i, bits)
    uploads, vectors, ciphertexts, checks = [], [], [], []
    for j in survivors:
        largest = 2**bits // len(survivors)
        vector = [number % largest for number in words.numbers(f"{label}/{j}", lanes)]
        vector[-1] = largest - 1
        ciphertext, check = round_key.upload(j, vector)
        sent = words.pack(bits, ciphertext) + encoded(check)
        uploads.append({"rank": j, "words": vector, "ciphertext": sent.hex()})
        vectors.append(vector)
        ciphertexts.append(ciphertext)
        checks.append(check)
    added, added_check = words.add(bits, ciphertexts), [sum(numbers) for numbers in zip(*checks, strict=True)]
    total = round_key.opened(survivors, added, encoded(added_check))
    assert total == [sum(column) for column in zip(*vectors, strict=True)]
    return {
        "scheme": scheme,
        "bits": bits,
        "lanes": lanes,
        "parties": parties,
        "round": i,
        "key": key.hex(),
        "context": context.hex(),
        "key_id": key_id(key).hex(),
        "confirmation": confirmation(key, context).hex(),
        "state": saved_state(key, i + 1).hex(),
        "job_data": sealed_for_holders(key, context, b"header", label.encode()).hex(),
        "uploads": uploads,
        "sum": (words.pack(bits, added) + encoded(added_check)).hex(),
        "decrypted": total,
    }


def long(scheme: str, bits: int, lanes: int, j: int, i: int) -> dict[str, object]:
    """One ciphertext of several tiles: the word of lane d is d * d mod 2^bits; its hash stands for it."""
    label = f"flashe/long/{scheme}/{bits}"
    key, context = (sha256(f"{label}/{part}".encode()).digest() for part in ("key", "context"))
    vector = [lane * lane % 2**bits for lane in range(lanes)]
    ciphertext, check = RoundKey(scheme, key, context, i, bits).upload(j, vector)
    return {
        "scheme": scheme,
        "bits": bits,
        "lanes": lanes,
        "rank": j,
        "round": i,
        "key": key.hex(),
        "context": context.hex(),
        "packed_hash": framed_hash("packed words", words.pack(bits, ciphertext)).hex(),
        "check": encoded(check).hex(),
    }


def vectors() -> dict[str, object]:
    """Everything that goes into ``flashe.json``."""
    return {
        "rounds": [
            played("double", 20, 21, 3, [0, 1, 2], 0),
            played("double", 8, 9, 6, [0, 1, 3, 5], 1),
            played("double", 32, 7, 4, [1, 2], 2**32 + 5),
            played("double", 33, 7, 4, [3], 2**64 - 2),
            played("double", 64, 5, 2**32 - 2, [0, 2**16 - 1, 2**16, 2**32 - 3], 77),
            played("single", 20, 21, 3, [0, 1, 2], 0),
            played("single", 31, 6, 5, [1, 4], 3),
            played("single", 47, 6, 5, [0, 2, 3], 2**40),
        ],
        "long": [
            long("double", 22, 2 * TILE + 3, 4, 11),
            long("single", 40, TILE + 1, 0, 2**33),
        ],
    }
