"""FLASHE with sparse vectors: permutation, masks and their encoded form, mask counts, ciphertexts, sums."""

from __future__ import annotations

from hashlib import sha256

from . import aes, flashe, words
from .derive import derive32

Sparse = dict[int, int]  # words by coordinate


def permutation(round_key: bytes, context: bytes, lanes: int) -> list[int]:
    """Coordinate at each place: Fisher-Yates, numbers that would favour a place drawn again."""
    key = derive32(round_key, context, "flashe permutation")
    places, drawn = list(range(lanes)), 0
    for last in range(lanes - 1, 0, -1):
        while True:
            block, half = divmod(drawn, 2)
            stream = aes.encrypt_block(key, block.to_bytes(16, "big"))
            number = int.from_bytes(stream[8 * half : 8 * half + 8], "little")
            drawn += 1
            place, rest = divmod(number * (last + 1), 2**64)
            if rest >= 2**64 % (last + 1):
                break
        places[last], places[place] = places[place], places[last]
    return places


def varint(number: int) -> bytes:
    """Base 128, the lowest digit first, all but the last marked."""
    digits = [number % 128]
    while number := number // 128:
        digits.append(number % 128)
    return bytes([digit + 128 for digit in digits[:-1]] + digits[-1:])


def mask_bytes(lanes: int, coordinates: list[int]) -> bytes:
    """Kind and bitmap, or kind and distances if that is shorter."""
    bitmap = sum(1 << d for d in coordinates).to_bytes(-(-lanes // 8), "little")
    before = [-1, *coordinates]
    distances = b"".join(varint(d - last - 1) for d, last in zip(coordinates, before, strict=False))
    return b"\x01" + distances if len(distances) < len(bitmap) else b"\x00" + bitmap


def masks_of(scheme: str, round_key: bytes, i: int, j: int, bits: int, d: int) -> int:
    """What the party of rank j adds to its word at coordinate d."""
    own = flashe.mask(round_key, i, j, bits, d)
    return own - flashe.mask(round_key, i, j + 1, bits, d) if scheme == "double" else own


def fingerprint(key: bytes, bits: int, vector: Sparse, contributors: Sparse) -> int:
    """The sum of words and contributors at all coordinates, times coefficients."""
    tau = flashe.check_number(key, flashe.FOR_CONTRIBUTORS, 0, 0, 8) % 2**60
    return sum(
        flashe.coefficient(key, bits, d) * (word + tau * contributors[d]) for d, word in vector.items()
    )


def mask_counts(parties: dict[int, Sparse], lanes: int) -> dict[str, dict[str, int]]:
    """Masks that all parties together compute to encrypt, and each to decrypt."""
    sent = sum(map(len, parties.values()))
    runs = sum(
        d in vector and d not in parties.get(j - 1, {}) for j, vector in parties.items() for d in range(lanes)
    )
    return {
        "double": {"encrypt": 2 * sent, "decrypt": 2 * runs},
        "single": {"encrypt": sent, "decrypt": sent},
    }


def played(
    scheme: str, bits: int, lanes: int, every: int, survivors: list[int], minimum: int
) -> dict[str, object]:
    """One round, with the coordinates that a hash chooses."""
    label = f"flashe/sparse/{scheme}/{bits}/{lanes}"
    key, context = (sha256(f"{label}/{part}".encode()).digest() for part in ("key", "context"))
    i = 2**33 + bits
    round_key = derive32(key, context, "flashe round")
    check_key = derive32(round_key, context, "flashe check")
    places = permutation(round_key, context, lanes)
    uploads, parties = [], {}
    total: Sparse = {}
    added: Sparse = {}
    contributors: Sparse = {}
    checks = [0, 0]
    for j in survivors:
        chosen = words.numbers(f"{label}/{j}/chosen", lanes)
        numbers = words.numbers(f"{label}/{j}/words", lanes)
        natural = [d for d in range(lanes) if chosen[d] % every == 0]
        vector = {
            place: numbers[d] % (2**bits // len(survivors)) for place, d in enumerate(places) if d in natural
        }
        sent = {
            d: (word + masks_of(scheme, round_key, i, j, bits, d)) % 2**bits for d, word in vector.items()
        }
        plain = fingerprint(check_key, bits, vector, dict.fromkeys(vector, 1))
        check = [plain + number for number in flashe.pad(check_key, j)]
        for d, word in vector.items():
            total[d] = total.get(d, 0) + word
            added[d] = (added.get(d, 0) + sent[d]) % 2**bits
            contributors[d] = contributors.get(d, 0) + 1
        checks = [one + other for one, other in zip(checks, check, strict=True)]
        parties[j] = vector
        ciphertext = words.pack(bits, list(sent.values())) + flashe.encoded(check)
        uploads.append(
            {
                "rank": j,
                "coordinates": natural,
                "mask": mask_bytes(lanes, list(vector)).hex(),
                "words": list(vector.values()),
                "ciphertext": ciphertext.hex(),
            }
        )
    union = sorted(total)
    for d in union:
        masks = sum(masks_of(scheme, round_key, i, j, bits, d) for j in survivors if d in parties[j])
        assert (added[d] - masks) % 2**bits == total[d]
    pads = [sum(column) for column in zip(*(flashe.pad(check_key, j) for j in survivors), strict=True)]
    expected = fingerprint(check_key, bits, total, contributors)
    assert flashe.encoded([expected + number for number in pads]) == flashe.encoded(checks)
    kept = [d for d in union if contributors[d] >= minimum]
    return {
        "scheme": scheme,
        "bits": bits,
        "lanes": lanes,
        "parties": max(survivors) + 1,
        "minimum": minimum,
        "round": i,
        "key": key.hex(),
        "context": context.hex(),
        "permutation": places,
        "uploads": uploads,
        "mask_counts": mask_counts(parties, lanes),
        "sum": (words.pack(bits, [added[d] for d in union]) + flashe.encoded(checks)).hex(),
        "kept": kept,
        "decrypted": [total[d] for d in kept],
        "contributors": [contributors[d] for d in kept],
    }


def vectors() -> dict[str, object]:
    """Few and many coordinates, narrow and wide words, both encoded forms of masks."""
    return {
        "rounds": [
            played("double", 20, 50, 2, [0, 1, 2], 1),
            played("single", 20, 50, 2, [0, 1, 3], 2),
            played("double", 32, 300, 20, [0, 1, 2, 4], 0),
            played("single", 47, 40, 3, [1, 2], 2),
            played("double", 64, 9, 1, [5], 1),
        ]
    }
