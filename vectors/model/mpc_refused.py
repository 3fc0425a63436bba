"""What three servers cannot compute: options outside of their ranges, and sums for which there is no room."""

from __future__ import annotations

from .encoding import double

ROOM = "bits of the largest sum"


def bits_of(parties: int) -> int:
    """Bits that a sum of so many numbers has more than each of them."""
    return (parties - 1).bit_length()


def refusal(what: str, name: str, value: int, rule: str, **options: object) -> dict[str, object]:
    """An operation with its options, and the rule that refuses it."""
    texts = {key: str(option) if isinstance(option, int) else option for key, option in options.items()}
    return {"what": what, **texts, "name": name, "value": str(value), "rule": rule}


def refused_rules() -> list[dict[str, object]]:
    """Rules for n vectors of one number, 0."""
    one, zero = [double(1.0)], [double(0.0)]
    clip, f, keep = "1 <= clip < 2^I", "n >= f + 3", "1 <= keep <= n"
    bits, room = "2 <= bits <= 62", "bits <= 62"
    norm, positive = "norm of the trusted vector", "it is above 0 and finite"
    fixed = 28
    return [
        refusal("clipped_mean", "clip", 0, clip, n=3, exponent=15, clip=0),
        refusal("clipped_mean", "clip", 2**15, clip, n=3, exponent=15, clip=2**15),
        refusal("clipped_mean", ROOM, 30 + fixed + bits_of(17), room, n=17, exponent=30, clip=2**30 - 1),
        refusal("fltrust", norm, 0, positive, n=3, exponent=15, root=zero),
        refusal("fltrust", ROOM, fixed + 30 + bits_of(17), room, n=17, exponent=30, root=one),
        refusal("krum", "f", 2, f, n=4, exponent=15, bad=2, keep=1),
        refusal("krum", "f", 0, f, n=2, exponent=15, bad=0, keep=1),
        refusal("krum", "keep", 0, keep, n=4, exponent=15, bad=1, keep=0),
        refusal("krum", "keep", 5, keep, n=4, exponent=15, bad=1, keep=5),
        refusal("krum", ROOM, 2 * 30 + 2 + bits_of(3), room, n=3, exponent=30, bad=0, keep=1),
        refusal("krum", ROOM, 2 * 29 + 2 + bits_of(5), room, n=5, exponent=29, bad=0, keep=1),
        refusal("unlike", ROOM, fixed + 30 + bits_of(17), room, n=17, exponent=30),
        refusal("median", "bits", 1, bits, n=3, bits=1),
        refusal("median", "bits", 63, bits, n=3, bits=63),
        refusal("trimmed_mean", "trim", 2, "2 * trim < n", n=4, bits=16, trim=2),
        refusal("trimmed_mean", "bits", 63, bits, n=3, bits=63, trim=1),
        refusal("trimmed_mean", ROOM, 61 + bits_of(3), room, n=3, bits=62, trim=0),
    ]


def refused() -> list[dict[str, object]]:
    """All of them: rules, and what rules are made of."""
    exponent, root, inverse = "15 <= exponent <= 30", "15 <= I <= 30", "30 <= bits <= 61"
    f, size = "1 <= f <= 61", "1 <= size <= 256"
    return [
        *[refusal("bounds", "exponent", value, exponent, exponent=value) for value in (0, 14, 31)],
        *[refusal("truncate", "f", value, f, f=value) for value in (0, 62)],
        *[refusal("multiply_truncate", "f", value, f, f=value) for value in (0, 62)],
        *[refusal("inverse_root", "I", value, root, exponent=value) for value in (14, 31)],
        *[refusal("inverse", "bits", value, inverse, bits=value) for value in (29, 62)],
        *[refusal("ranks", "size", value, size, size=value) for value in (0, 257)],
        *refused_rules(),
    ]
