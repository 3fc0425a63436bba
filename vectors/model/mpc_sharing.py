"""Replicated sharing among three servers: three components of which server i has number i and number i + 1.

A value is the sum of its components modulo 2^64 or 2^128. A product is the sum of three parts, one of each
server.
"""

from __future__ import annotations

from .derive import framed_hash
from .words import numbers

EXTREMES = [0, 1, -1, 2**63 - 1, -(2**63), 1 << 32]


def texts(values: list[int]) -> list[str]:
    """Whole numbers as they stand in the file."""
    return [str(value) for value in values]


def shared(label: str, ring: int, values: list[int]) -> list[list[int]]:
    """Three components: two that depend on the label, and what is missing to the values."""
    wide = [numbers(f"{label}, component {j}", 2 * len(values)) for j in (0, 1)]
    first, second = ([(a << 64 | b) % 2**ring for a, b in zip(w[::2], w[1::2])] for w in wide)
    third = [(value - a - b) % 2**ring for value, a, b in zip(values, first, second)]
    return [first, second, third]


def held(components: list[list[int]], server: int) -> tuple[list[int], list[int]]:
    """What a server has: its own component and the next one."""
    return components[server], components[(server + 1) % 3]


def opened(ring: int, components: list[list[int]]) -> list[int]:
    """The values modulo 2^ring."""
    return [sum(column) % 2**ring for column in zip(*components)]


def part(ring: int, x: list[list[int]], y: list[list[int]], server: int) -> int:
    """A server's part of a dot product: products of factors that it has, each pair once."""
    (x_own, x_next), (y_own, y_next) = held(x, server), held(y, server)
    mixed = zip(x_own, x_next, y_own, y_next)
    return sum(a * c + a * d + b * c for a, b, c, d in mixed) % 2**ring


def hash_of(component: list[int]) -> str:
    """What says of a component that it is the right one; components of results count modulo 2^64."""
    return framed_hash(
        "mpc/component", b"".join((value % 2**64).to_bytes(8, "little") for value in component)
    ).hex()


def sharing(ring: int, values: list[int]) -> dict[str, object]:
    """A vector, its components and their hashes."""
    components = shared(f"sharing of {len(values)} in {ring}", ring, values)
    assert opened(ring, components) == [value % 2**ring for value in values]
    return {
        "ring": str(ring),
        "values": texts(opened(ring, components)),
        "components": [texts(component) for component in components],
        "hashes": [hash_of(component) for component in components],
    }


def dot(ring: int, length: int) -> dict[str, object]:
    """A dot product in its three parts."""
    x, y = ([n - 2**63 for n in numbers(f"{name} of {length}", length)] for name in "xy")
    x[0], y[-1] = -(2**63), 2**63 - 1
    of_x, of_y = shared(f"x {length} {ring}", ring, x), shared(f"y {length} {ring}", ring, y)
    parts = [part(ring, of_x, of_y, server) for server in range(3)]
    value = sum(a * b for a, b in zip(x, y))
    assert (sum(parts) - value) % 2**ring == 0
    return {
        "ring": str(ring),
        "x": [texts(component) for component in of_x],
        "y": [texts(component) for component in of_y],
        "parts": texts(parts),
        "value": str(value % 2**ring),
    }
