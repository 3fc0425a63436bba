"""A server of mpc3 that draws a key for the round: servers compute, or results are for parties alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import curve25519, wire
from .derive import agree, framed_hash, public_key
from .mpc3_party import Reader, demand
from .mpc3_server import Server

KEY = 32
P = 2**255 - 19


def take_key(reader: Reader) -> bytes:
    """A public key that is good for an agreement."""
    key = reader.take(KEY)
    demand(int.from_bytes(key, "little") < P, "a key that is not reduced")
    demand(curve25519.x25519(bytes([1]) * KEY, key) != bytes(KEY), "a key of low order")
    return key


@dataclass
class Keyed(Server):
    """One of the three, with its secret key of the round.

    Attributes
    ----------
    keys
        Of servers 0, 1 and 2, once the lists were heard.
    begun
        The hash of the survivors, once all three have said the same; whoever fails a gate later is in it.
    """

    secret: bytes = b""
    keys: dict[int, bytes] = field(default_factory=dict)
    begun: bytes = b""

    def listing(self) -> bytes:
        """Whose uploads it holds, and its key."""
        self.keys[self.number] = public_key("x25519", self.secret)
        return super().listing() + self.keys[self.number]

    def survivors_hash(self) -> bytes:
        """What all three must have alike, the keys among it."""
        headers = b"".join(self.held[rank].header for rank in self.survivors)
        bitmap = wire.bitmap(self.round.parties, set(self.survivors))
        keys = b"".join(key for _, key in sorted(self.keys.items()))
        return framed_hash("blindsum mpc3 survivors", self.round.context, bitmap, headers, keys)

    def hear(self, number: int, from_next: bytes, from_before: bytes) -> None:
        """Both letters of a round."""
        if number:
            super().hear(number, from_next, from_before)
            self.begun = self.begun or self.survivors_hash()
            return
        readers = [Reader(body) for body in (from_next, from_before)]
        lists = [self.read_list(reader) for reader in readers]
        for server, reader in zip((self.following, self.before), readers, strict=True):
            self.keys[server] = take_key(reader)
            demand(reader.take(4) == bytes(4), "a letter of another round")
            reader.end()
        self.compare(lists)

    def shared(self) -> dict[int, bytes]:
        """Secrets by number: number j is known to servers j and j - 1."""
        return {
            self.number: agree("x25519", self.secret, self.keys[self.before]),
            self.following: agree("x25519", self.secret, self.keys[self.following]),
        }
