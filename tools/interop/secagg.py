"""A party's machine of one round of `plain`, `secagg` or `secagg+`: docs/wire-derivations.md.

A machine says its answers and hears the coordinator's messages. It raises Fault where a check fails, and then
must not be asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import derive
import shamir
from derive import AgreementKey, BadKey, PrivateKey, PublicKey, u32
from encoding import BadWords, pack, packed_size, unpack
from job import Job


class Fault(Exception):
    """The coordinator, or the member of rank `accused`, said something wrong."""

    def __init__(self, reason: str, accused: int | None = None, evidence: bytes = b"") -> None:
        super().__init__(reason)
        self.accused, self.evidence = accused, evidence


@dataclass(frozen=True)
class Member:
    """A member of a round."""

    name: str
    certificate: bytes
    nonce: bytes
    key: PublicKey


@dataclass
class Round:
    """What a round is bound to, as one party sees it."""

    job: Job
    width: int
    words: int
    members: Sequence[Member]
    rank: int
    numbers: tuple[int, int, int]
    context: bytes
    identity: PrivateKey
    vector: Callable[[], list[int]]  # the party's words, asked for once
    accept: Callable[[list[int]], None] = field(default=lambda survivors: None)  # its policy's last word
    random: Callable[[int], bytes] = field(default=lambda count: b"")

    @property
    def size(self) -> int:
        return len(self.members)


@dataclass(frozen=True)
class Result:
    survivors: list[int]
    total: list[int]


class Reader:
    """Reads a message; whatever is missing or left over is a fault."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if len(self.data) - self.at < count:
            raise Fault("a message is cut short")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def opaque(self) -> bytes:
        return self.take(self.number())

    def end(self) -> None:
        if self.at != len(self.data):
            raise Fault("bytes are left over behind a message")

    @property
    def more(self) -> bool:
        return self.at < len(self.data)


def opaque(data: bytes) -> bytes:
    return u32(len(data)) + data


def party_set(ranks: Sequence[int], size: int) -> bytes:
    return sum(1 << rank for rank in ranks).to_bytes((size + 7) // 8, "little")


def read_set(data: bytes, size: int) -> list[int]:
    bits = int.from_bytes(data, "little")
    if bits >> size:
        raise Fault("a set names parties outside the roster")
    return [rank for rank in range(size) if bits >> rank & 1]


class Machine:
    """What both kinds of machine share: frames, and the same answer to the same message."""

    stages: tuple[str, ...] = ()

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.answers: dict[int, bytes] = {}
        self.heard: dict[int, bytes] = {}
        self.result: Result | None = None
        self.broken = False

    @property
    def input_stage(self) -> int:
        raise NotImplementedError

    def frame(self, stage: int, body: bytes) -> bytes:
        return bytes([derive.MESSAGE_VERSION, stage]) + self.round.context + body

    def start(self) -> bytes:
        """The answer of stage 0."""
        if 0 not in self.answers:
            self.answers[0] = self.frame(0, self.answer(0))
        return self.answers[0]

    def hear(self, stage: int, message: bytes) -> bytes | None:
        """The answer to the message that ends a stage; None where nothing is left to say."""
        if self.broken:
            raise Fault("this round is over for the party")
        try:
            return self._hear(stage, message)
        except BaseException:
            self.broken = True
            raise

    def _hear(self, stage: int, message: bytes) -> bytes | None:
        if stage in self.heard:
            if self.heard[stage] != message:
                raise Fault(f"a second, different end of stage {stage}")
            return self.answers.get(stage + 1)
        if stage != len(self.answers) - 1:
            raise Fault(f"the end of stage {stage} is not awaited")
        reader = Reader(message)
        if reader.take(2) != bytes([derive.MESSAGE_VERSION, stage]):
            raise Fault("a message of another version or stage")
        if reader.take(32) != self.round.context:
            raise Fault("a message of another round")
        self.check(stage, reader)
        self.heard[stage] = message
        if self.result is None:
            self.answers[stage + 1] = self.frame(stage + 1, self.answer(stage + 1))
        return self.answers.get(stage + 1)

    def check(self, stage: int, reader: Reader) -> None:
        raise NotImplementedError

    def answer(self, stage: int) -> bytes:
        raise NotImplementedError

    def read_result(self, reader: Reader) -> Result:
        size = self.round.size
        survivors = read_set(reader.take((size + 7) // 8), size)
        data = reader.take(packed_size(self.round.words, self.round.width))
        reader.end()
        try:
            return Result(survivors, unpack(data, self.round.words, self.round.width))
        except BadWords as error:
            raise Fault(str(error)) from error

    def check_survivors(self, survivors: Sequence[int]) -> None:
        if self.round.rank not in survivors:
            raise Fault("this party is said not to have survived")
        if len(survivors) < self.round.job.min_parties:
            raise Fault(f"{len(survivors)} survivors, fewer than {self.round.job.min_parties}")


class Plain(Machine):
    stages = ("input",)
    input_stage = 0

    def answer(self, stage: int) -> bytes:
        return pack(self.round.vector(), self.round.width)

    def check(self, stage: int, reader: Reader) -> None:
        result = self.read_result(reader)
        self.check_survivors(result.survivors)
        self.result = result


@dataclass(frozen=True)
class Keys:
    seal: bytes
    mask: bytes
    signature: bytes


class SecAgg(Machine):
    """`secagg` and `secagg+`."""

    input_stage = 2

    def __init__(self, round_: Round) -> None:
        super().__init__(round_)
        middle = ("consistency",) if round_.job.active else ()
        self.stages = ("advertise-keys", "share-keys", "masked-input", *middle, "unmask")
        self.threshold = round_.numbers[1]
        lists, self.witnesses = derive.graph(round_.context, round_.size, round_.numbers[0])
        self.neighbours = lists[round_.rank]
        self.holders = sorted([*self.neighbours, round_.rank])
        self.keys: dict[int, Keys] = {}
        self.own_shares = (b"", b"")
        self.shares: dict[int, tuple[bytes, bytes]] = {}  # of others: of the mask secret, of the seed
        self.survivors: list[int] = []

    def answer(self, stage: int) -> bytes:
        name = self.stages[stage]
        if name == "advertise-keys":
            return self._advertise()
        if name == "share-keys":
            return self._share()
        if name == "masked-input":
            return self._masked()
        if name == "consistency":
            label = "blindsum survivors"
            return opaque(derive.sign(self.round.identity, label, self._survivors_said()))
        return self._reveal()

    def check(self, stage: int, reader: Reader) -> None:
        name = self.stages[stage]
        if name == "advertise-keys":
            self._check_keys(reader)
        elif name == "share-keys":
            self._check_shares(reader)
        elif name == "masked-input":
            self._check_survivors(reader)
        elif name == "consistency":
            self._check_signatures(reader)
        else:
            result = self.read_result(reader)
            if result.survivors != self.survivors:
                raise Fault("the result names other survivors than were unmasked")
            self.result = result

    # Stage 0

    def _agreement_key(self) -> AgreementKey:
        while True:
            try:
                return AgreementKey(self.round.job["suite"], self.round.random(32))
            except BadKey:
                continue

    def _advertise(self) -> bytes:
        self.seal = self._agreement_key()
        self.mask = self._agreement_key()
        signature = b""
        if self.round.job.active:
            said = self.round.context + u32(self.round.rank) + self.seal.public + self.mask.public
            signature = derive.sign(self.round.identity, "blindsum advertise keys", said)
        self.keys[self.round.rank] = Keys(self.seal.public, self.mask.public, signature)
        return opaque(self.seal.public) + opaque(self.mask.public) + opaque(signature)

    def _entries(self, reader: Reader, what: str) -> list[tuple[int, Reader]]:
        """The list that is the whole rest of a message: each party with the reader behind its rank."""
        inner = Reader(reader.opaque())
        reader.end()
        entries: list[tuple[int, Reader]] = []
        last = -1
        while inner.more:
            party = inner.number()
            if party <= last:
                raise Fault(f"{what} do not ascend by party")
            if party >= self.round.size:
                raise Fault(f"{what} of a party outside the roster")
            last = party
            # The caller reads the fields of each entry before the next one is asked for.
            start = inner.at
            for _ in range(3 if what == "keys" else 1):
                inner.opaque()
            entries.append((party, Reader(inner.data[start : inner.at])))
        return entries

    def _check_keys(self, reader: Reader) -> None:
        own = self.keys[self.round.rank]
        seen: set[bytes] = set()
        for party, entry in self._entries(reader, "keys"):
            keys = Keys(entry.opaque(), entry.opaque(), entry.opaque())
            if party not in self.holders:
                raise Fault(f"keys of party {party}, which is no holder")
            if party == self.round.rank:
                if keys != own:
                    raise Fault("the party's own keys are not as it sent them")
            else:
                self._check_key(party, keys)
            for key in (keys.seal, keys.mask):
                if key in seen:
                    raise Fault("a key comes twice", party)
                seen.add(key)
            self.keys[party] = keys
        if own.seal not in seen:
            raise Fault("the party's own keys are missing")
        if len(seen) // 2 < self.threshold:
            raise Fault(f"keys of {len(seen) // 2} holders, fewer than {self.threshold}")

    def _check_key(self, party: int, keys: Keys) -> None:
        evidence = keys.seal + keys.mask + keys.signature
        for key in (keys.seal, keys.mask):
            try:
                derive.check_agreement_key(self.round.job["suite"], key)
            except BadKey as error:
                raise Fault(f"a key of party {party} cannot be used: {error}", party, evidence) from error
        if not self.round.job.active:
            if keys.signature:
                raise Fault("a signature where nothing is signed", party, evidence)
            return
        said = self.round.context + u32(party) + keys.seal + keys.mask
        signer = self.round.members[party].key
        if not derive.verify(signer, "blindsum advertise keys", said, keys.signature):
            raise Fault(f"the keys of party {party} are not signed by it", party, evidence)

    # Stage 1

    def _share(self) -> bytes:
        me, context = self.round.rank, self.round.context
        self.seed = self.round.random(32)
        mask_rows = shamir.coefficients(self.threshold, self.round.random)
        seed_rows = shamir.coefficients(self.threshold, self.round.random)

        def shares(rank: int) -> tuple[bytes, bytes]:
            return shamir.share(self.mask.secret, mask_rows, rank), shamir.share(self.seed, seed_rows, rank)

        self.own_shares = shares(me)
        listed = b""
        for party in self.neighbours:
            if party not in self.keys:
                continue
            key = derive.seal_key(self.seal.shared(self.keys[party].seal), context, me, party, "shares")
            header = derive.seal_header(context, me, party)
            listed += u32(party) + opaque(derive.seal(key, header, b"".join(shares(party))))
        return derive.h("blindsum self mask", context, u32(me), self.seed) + opaque(listed)

    def _check_shares(self, reader: Reader) -> None:
        me, context = self.round.rank, self.round.context
        for party, entry in self._entries(reader, "shares"):
            if party == me or party not in self.keys:
                raise Fault(f"shares of party {party}, whose keys did not come")
            sealed = entry.opaque()
            key = derive.seal_key(self.seal.shared(self.keys[party].seal), context, party, me, "shares")
            plain = derive.open_sealed(key, derive.seal_header(context, party, me), sealed)
            if plain is None or len(plain) != 2 * shamir.SHARE:
                raise Fault(f"the shares of party {party} do not open", party, sealed)
            of_mask, of_seed = plain[: shamir.SHARE], plain[shamir.SHARE :]
            if not shamir.valid(of_mask) or not shamir.valid(of_seed):
                raise Fault(f"the shares of party {party} are beyond the field", party, sealed)
            self.shares[party] = of_mask, of_seed
        if len(self.shares) + 1 < self.threshold:
            raise Fault(f"shares of {len(self.shares) + 1} holders, fewer than {self.threshold}")

    # Stage 2

    def _masked(self) -> bytes:
        me, context, width = self.round.rank, self.round.context, self.round.width
        words = self.round.vector()
        if len(words) != self.round.words:
            raise ValueError(f"{len(words)} words, the job has {self.round.words}")

        def add(key: bytes, sign: int) -> None:
            for at, word in enumerate(derive.mask(key, len(words), width)):
                words[at] += sign * word

        add(derive.kdf(self.seed, context, "self mask", u32(me)), 1)
        for party in self.shares:
            low, high = sorted((me, party))
            shared = self.mask.shared(self.keys[party].mask)
            add(derive.kdf(shared, context, "pair mask", u32(low), u32(high)), 1 if me == low else -1)
        return pack([word & (1 << width) - 1 for word in words], width)

    def _check_survivors(self, reader: Reader) -> None:
        size = self.round.size
        survivors = read_set(reader.take((size + 7) // 8), size)
        reader.end()
        self.check_survivors(survivors)
        holders = [party for party in survivors if party in self.holders]
        if len(holders) < self.threshold:
            raise Fault(f"{len(holders)} holders survive, fewer than {self.threshold}")
        for party in holders:
            if party != self.round.rank and party not in self.shares:
                raise Fault(f"party {party} is said to have survived, but had not shared")
        self.round.accept(survivors)
        self.survivors = survivors

    def _survivors_said(self) -> bytes:
        return self.round.context + party_set(self.survivors, self.round.size)

    # Stage 3, active

    def _check_signatures(self, reader: Reader) -> None:
        right = 0
        for party, entry in self._entries(reader, "signatures"):
            if party not in self.witnesses or party not in self.survivors:
                raise Fault(f"a signature of party {party}, which is no witness that survived")
            signer = self.round.members[party].key
            right += derive.verify(signer, "blindsum survivors", self._survivors_said(), entry.opaque())
        if right < self.threshold:
            raise Fault(f"{right} witnesses confirm the survivors, fewer than {self.threshold}")

    # The last stage

    def _reveal(self) -> bytes:
        listed = b""
        for party in sorted([*self.shares, self.round.rank]):
            of_mask, of_seed = self.shares.get(party, self.own_shares)
            listed += u32(party) + (of_seed if party in self.survivors else of_mask)
        return opaque(listed)


def machine(round_: Round) -> Machine:
    return Plain(round_) if round_.job.protocol == "plain" else SecAgg(round_)
