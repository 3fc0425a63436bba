"""A server of mpc3 that computes: its key of the round, and the keys that two servers have in common.

Where the rule is a mean with noise also what it says. What it says in other rules is in no model: their
results are.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import aes
from . import mpc3_numbers as numbers
from .derive import derive32, framed_hash
from .mpc3_keyed import Keyed
from .mpc3_noise import Gaussian, drawn
from .mpc3_party import Reader, demand
from .words import add

ZERO, ZERO_WORD, COIN = 0, 6, 7
"""Uses of streams."""


def stream(key: bytes, use: int, step: int, length: int) -> bytes:
    """The first bytes of a stream of a key that two servers have."""
    nonce = use << 64 | step
    return aes.counter_stream(key, 16 * (nonce << 32), length)


def low(component: list[int]) -> bytes:
    """Values modulo 2^64 as they are shown."""
    return b"".join((value % 2**64).to_bytes(8, "little") for value in component)


@dataclass
class Computing(Keyed):
    """One of the three.

    Attributes
    ----------
    seen
        The hash of what was opened, which ends letters of servers that verify.
    fixed
        The same when a part of the challenge was said: what is opened in those letters changes no challenge.
    """

    seen: bytes = b""
    fixed: bytes = b""

    @property
    def elements(self) -> int:
        """Bits of the ring."""
        return 128 if self.round.job.is_active() else 64

    @property
    def mark(self) -> bytes:
        """What ends what a letter says, from the third round on."""
        return self.seen if self.round.job.is_active() else b""

    def hear(self, number: int, from_next: bytes, from_before: bytes) -> None:
        """Both letters of a round."""
        if number <= 1:
            super().hear(number, from_next, from_before)
        if number == 1:
            self.derive()
        elif number > 1:
            rests = []
            for body in (from_next, from_before):
                reader = Reader(body)
                rests.append(reader.take(len(body) - len(self.mark) - 4))
                demand(reader.take(len(self.mark)) == self.mark, "another hash of what was opened")
                demand(int.from_bytes(reader.take(4), "big") == number, "a letter of another round")
            self.go_on(number - 2, *rests)

    def context(self, bits: int) -> bytes:
        """What keys are bound to."""
        return framed_hash("mpc3/context", self.round.context, self.begun, bits.to_bytes(4, "big"))

    def derive(self) -> None:
        """The keys of both components that it holds, and of their noise."""
        shared = self.shared()
        self.seen, noise = self.context(self.elements), self.context(0)
        self.pair_keys = {j: derive32(it, self.seen, "mpc3/K", bytes([j])) for j, it in shared.items()}
        self.noise_keys = {j: derive32(it, noise, "mpc3/noise", bytes([j])) for j, it in shared.items()}

    # --- The mean with noise ---

    def steps(self) -> list[str]:
        """What it says from the third round on: no product is there to be verified."""
        verified = ["blinds", "same", "coin", "same", "zero", "same"] if self.round.job.is_active() else []
        return [*verified, "reveal"]

    def letters(self, number: int) -> tuple[bytes, bytes]:
        """What it says in a round of letters: to the next server, and to the server before."""
        if number < 2:
            return super().letters(number)
        step = self.steps()[number - 2]
        to_next, to_before = getattr(self, step)()
        return tuple(self.letter(number, said + self.mark) for said in (to_next, to_before))

    def go_on(self, place: int, from_next: bytes, from_before: bytes) -> None:
        """What it makes of what it hears."""
        step = self.steps()[place]
        getattr(self, f"hear_{step}")(from_next, from_before)

    def streams(self, use: int, length: int) -> tuple[int, int]:
        """The first stream of a use as numbers, of the key of the own component and of the next one."""
        own, following = (
            int.from_bytes(stream(self.pair_keys[j], use, 0, length), "little")
            for j in (self.number, self.following)
        )
        return own, following

    def blinds(self) -> tuple[bytes, bytes]:
        """Products of random factors with nothing: parts of zero."""
        own, following = self.streams(ZERO, 16)
        word, other = self.streams(ZERO_WORD, 8)
        self.element, self.bits = [(own - following) % 2**128], [word ^ other]
        return b"", self.element[0].to_bytes(16, "little") + self.bits[0].to_bytes(8, "little")

    def hear_blinds(self, from_next: bytes, _: bytes) -> None:
        """The next components."""
        self.element.append(int.from_bytes(from_next[:16], "little"))
        self.bits.append(int.from_bytes(from_next[16:], "little"))

    def same(self) -> tuple[bytes, bytes]:
        """Both others are told what was opened."""
        return self.seen, self.seen

    def hear_same(self, from_next: bytes, from_before: bytes) -> None:
        """They have opened the same."""
        demand(from_next == from_before == self.seen, "another hash of what was opened")

    def coin(self) -> tuple[bytes, bytes]:
        """A part of the challenge for each of the others, which fixes what was opened before."""
        self.fixed = self.seen
        self.parts = {j: stream(self.pair_keys[j], COIN, 0, 32) for j in (self.number, self.following)}
        return self.parts[self.number], self.parts[self.following]

    def hear_coin(self, from_next: bytes, from_before: bytes) -> None:
        """The challenge; then nothing is opened, of numbers and of words."""
        demand(from_next == from_before, "another part of the challenge")
        self.parts[self.before] = from_next
        three = [part for _, part in sorted(self.parts.items())]
        self.challenge = framed_hash("mpc/challenge", self.fixed, *three)
        for _ in range(2):
            self.seen = framed_hash("mpc/seen", self.seen, b"")

    def zero_hash(self, element: int, word: int) -> bytes:
        """Of one component of what must be 0."""
        said = (element % 2**128).to_bytes(16, "little"), word.to_bytes(8, "little")
        return framed_hash("mpc/zero", self.challenge, *said)

    def zero(self) -> tuple[bytes, bytes]:
        """A hash of the next component, which the server before lacks."""
        return b"", self.zero_hash(self.element[1], self.bits[1])

    def hear_zero(self, from_next: bytes, _: bytes) -> None:
        """That of the component that this server lacks."""
        right = self.zero_hash(-sum(self.element), self.bits[0] ^ self.bits[1])
        demand(from_next == right, "something that is not 0")

    def gaussian(self) -> Gaussian:
        """The noise of the job."""
        return numbers.gaussian(self.round.job)

    def add_noise(self) -> None:
        """To both components."""
        gaussian = self.gaussian()
        for j in (self.number, self.following):
            noise = drawn(self.noise_keys[j], gaussian, self.round.lanes)
            self.sums[j] = add(64, [self.sums[j], numbers.words(noise)])

    def reveal(self) -> tuple[bytes, bytes]:
        """The own component with its noise, and a hash of the next one."""
        self.add_noise()
        return self.shown()

    def shown(self) -> tuple[bytes, bytes]:
        """As it stands."""
        own, following = (low(self.sums[j]) for j in (self.number, self.following))
        return own, framed_hash("mpc/component", following)

    def hear_reveal(self, from_next: bytes, from_before: bytes) -> None:
        """The component that it lacks makes the result whole."""
        demand(from_next == framed_hash("mpc/component", from_before), "a component that does not fit")
        lacking = [int.from_bytes(from_before[i : i + 8], "little") for i in range(0, len(from_before), 8)]
        shown = add(64, [*self.sums.values(), lacking])
        self.total = numbers.result(shown, None, float(len(self.survivors)))
