"""A party of `pss-malicious`, honest and on paper, and those that lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from . import derive, wire
from .identity import Identity
from .job import Job
from .pss_malicious_proof import FIELD, P, Statement, largest_norm
from .ramp_parameters import proved_shape
from .ramp_sharing import Rows
from .secagg_party import SIGN_SURVIVORS, draw_secret
from .tape import Tape

SIGN_KEYS = "blindsum validity keys"
SIGN_ROOT = "blindsum validity root"
SIGN_CHALLENGE = "blindsum validity challenge"
SIGN_RESPONSE = "blindsum validity response"
PURPOSE = "share"
HASH, TAG = 32, 16
ZEROS = bytes(HASH)
ACCUSED, JUDGED = b"\0", b"\1"


@dataclass(frozen=True)
class Round:
    """What everybody knows before the first message."""

    job: Job
    parties: int
    context: bytes

    @cached_property
    def statement(self) -> Statement:
        """What is proved."""
        job = self.job
        k, packed = proved_shape(job, self.parties)
        most = largest_norm(job.bits, job.clip, job.max_norm, job.dim) if job.max_norm else None
        return Statement(job.bits, job.lanes(), most, self.parties, k, packed)

    @property
    def quorum(self) -> int:
        """Signatures that confirm something."""
        return (self.parties + self.job.corrupt_parties()) // 2 + 1

    def bitmap(self, parties: set[int]) -> bytes:
        """A set of parties."""
        return wire.bitmap(self.parties, parties)

    def nonce_commitment(self, nonce: bytes) -> bytes:
        """What the coordinator says of its nonce before anybody shares."""
        return derive.framed_hash("blindsum validity nonce", self.context, nonce)

    def challenge(self, nonce: bytes, roots: dict[int, bytes]) -> bytes:
        """What the factors of all tests follow from; roots of those who shared."""
        joined = b"".join(root for _, root in sorted(roots.items()))
        label = "blindsum validity challenge"
        return derive.framed_hash(label, self.context, nonce, self.bitmap(set(roots)), joined)

    def leaf(self, prover: int, verifier: int, sealed: bytes, column: bytes) -> bytes:
        """A leaf of a prover's tree, of the hash of a sealed column and the commitment to a column."""
        ranks = derive.rank_bytes(prover), derive.rank_bytes(verifier)
        return derive.framed_hash("blindsum validity leaf", self.context, *ranks, sealed, column)


def column_hash(salt: bytes, column: bytes) -> bytes:
    """Commitment to a column."""
    return derive.framed_hash("blindsum validity column", salt, column)


def sealed_hash(sealed: bytes) -> bytes:
    """Hash of a sealed column."""
    return derive.framed_hash("blindsum validity sealed", sealed)


def node(left: bytes, right: bytes) -> bytes:
    """A node of a tree."""
    return derive.framed_hash("blindsum merkle node", left, right)


def levels(leaves: list[bytes]) -> list[list[bytes]]:
    """All levels of the tree over these leaves, the root last."""
    size = 1
    while size < len(leaves):
        size *= 2
    found = [leaves + [ZEROS] * (size - len(leaves))]
    while len(found[-1]) > 1:
        last = found[-1]
        found.append([node(last[i], last[i + 1]) for i in range(0, len(last), 2)])
    return found


def path(tree: list[list[bytes]], at: int) -> list[bytes]:
    """The sibling of a leaf and of all above it."""
    return [level[(at >> height) ^ 1] for height, level in enumerate(tree[:-1])]


def root_of(leaf: bytes, at: int, siblings: list[bytes]) -> bytes:
    """Where a path leads."""
    for sibling in siblings:
        leaf = node(sibling, leaf) if at & 1 else node(leaf, sibling)
        at >>= 1
    return leaf


@dataclass(frozen=True)
class Response:
    """What a party says about all who shared."""

    unusable: set[int]
    answers: dict[int, list[int]]
    signature: bytes = b""

    def said(self, round_: Round) -> bytes:
        """What is signed of it."""
        answers = b"".join(FIELD.pack(answer) for _, answer in sorted(self.answers.items()))
        return round_.bitmap(self.unusable) + answers

    def body(self, round_: Round) -> bytes:
        """Its bytes."""
        return self.said(round_) + self.signature


@dataclass
class Party:
    """One party's side of one round; the methods are its answers, in order.

    Attributes
    ----------
    sent
        What it has sealed for each of the others.
    dealt
        Elements of the column that each party was committed to.
    held
        Elements of the columns that it can use, by prover.
    """

    round: Round
    me: int
    identity: Identity
    tape: Tape
    words: list[int]
    sent: dict[int, bytes] = field(default_factory=dict)
    held: dict[int, list[int]] = field(default_factory=dict)

    def sign(self, label: str, message: bytes) -> bytes:
        """Sign for this round."""
        return self.identity.sign(label, self.round.context + message)

    def advertise(self) -> bytes:
        """A fresh key, signed."""
        suite = self.round.job.suite
        self.secret = draw_secret(suite, self.tape)
        self.key = derive.public_key(suite, self.secret)
        signature = self.sign(SIGN_KEYS, derive.rank_bytes(self.me) + self.key)
        return wire.ramp_advertise(self.key, signature)

    # --- Sharing ---

    def content(self) -> Rows:
        """The rows that it shares."""
        return self.round.statement.content(self.words)

    def deal(self) -> Rows:
        """The column of every rank."""
        statement, context = self.round.statement, self.round.context

        def derived(*name: bytes) -> bytes:
            return derive.derive32(self.own, context, "blindsum validity", *name)

        self.salts = [derived(b"salt", derive.rank_bytes(rank)) for rank in range(self.round.parties)]
        self.seeds = derived(b"rows"), derived(b"masks")
        return statement.columns(self.content(), *self.seeds)

    def share(self, keys: dict[int, bytes]) -> bytes:
        """A commitment, and a piece for every other party that has a key."""
        self.keys = keys
        self.own = self.tape.read(32)
        self.dealt = self.deal()
        self.packed = [FIELD.pack(column) for column in self.dealt]
        self.sent = {peer: self.sealed(peer) for peer in keys if peer != self.me}
        self.hashes = [self.hashes_for(rank) for rank in range(self.round.parties)]
        leaves = [self.round.leaf(self.me, rank, *pair) for rank, pair in enumerate(self.hashes)]
        self.tree = levels(leaves)
        self.root = self.tree[-1][0]
        self.commitment = self.root + self.sign(SIGN_ROOT, derive.rank_bytes(self.me) + self.root)
        return self.commitment + b"".join(self.piece(peer) for peer in self.sent)

    def hashes_for(self, rank: int) -> tuple[bytes, bytes]:
        """Hash of the sealed column of a rank, and the commitment to the column."""
        if rank not in self.keys:
            return ZEROS, ZEROS
        return sealed_hash(self.sent.get(rank, b"")), column_hash(self.salts[rank], self.packed[rank])

    def sealed(self, peer: int) -> bytes:
        """A salt and a column, for one party only."""
        return self.seal(peer, self.salts[peer] + self.packed[peer])

    def seal(self, peer: int, plain: bytes) -> bytes:
        """Anything that one party only can read."""
        header = derive.share_header(self.round.context, self.me, peer)
        return derive.seal(self.message_key(self.me, peer), header, plain)

    def message_key(self, sender: int, receiver: int) -> bytes:
        """Key of the column that goes from or to another party."""
        peer = self.keys[receiver if sender == self.me else sender]
        shared = derive.agree(self.round.job.suite, self.secret, peer)
        return derive.message_key(shared, self.round.context, sender, receiver, PURPOSE)

    def piece(self, peer: int) -> bytes:
        """What goes to one party."""
        return self.sent[peer] + self.hashes[peer][1] + b"".join(path(self.tree, peer))

    # --- Answers ---

    def open(self, prover: int, piece: bytes) -> list[int] | None:
        """The column that a piece holds, None if it cannot be used."""
        statement = self.round.statement
        size = HASH + statement.column + TAG
        sealed, committed = piece[:size], piece[size:][:HASH]
        header = derive.share_header(self.round.context, prover, self.me)
        plain = derive.open_sealed(self.message_key(prover, self.me), header, sealed)
        if plain is None or column_hash(plain[:HASH], plain[HASH:]) != committed:
            return None
        return FIELD.unpack(plain[HASH:])

    def receive(self, challenge: bytes, pieces: dict[int, bytes]) -> None:
        """Take the challenge, and the pieces of all others who shared."""
        self.challenge = challenge
        opened = {prover: self.open(prover, piece) for prover, piece in pieces.items()}
        opened[self.me] = self.dealt[self.me]
        self.unusable = {prover for prover, column in opened.items() if column is None}
        self.held = {prover: column for prover, column in sorted(opened.items()) if column is not None}
        self.provers = sorted(opened)

    def confirm_challenge(self) -> bytes:
        """Sign the challenge."""
        return wire.signed(self.sign(SIGN_CHALLENGE, self.challenge))

    def answer(self) -> Response:
        """What it has to say about all who shared."""
        statement = self.round.statement
        nothing = [0] * len(statement.masks)
        answers = {
            prover: statement.answers(self.held[prover], self.me, self.challenge)
            if prover in self.held
            else nothing
            for prover in self.provers
        }
        return Response(self.unusable, answers)

    def respond(self) -> Response:
        """The same, signed."""
        response = self.answer()
        message = derive.rank_bytes(self.me) + self.challenge + response.said(self.round)
        return Response(response.unusable, response.answers, self.sign(SIGN_RESPONSE, message))

    def show(self, accusers: list[int]) -> bytes | None:
        """The columns of those who accuse it."""
        return b"".join(self.shown(accuser) for accuser in accusers)

    def shown(self, accuser: int) -> bytes:
        """One column that it dealt, and the path to the root."""
        siblings = b"".join(path(self.tree, accuser))
        return self.salts[accuser] + self.packed[accuser] + self.hashes[accuser][0] + siblings

    def late(self, prover: int, column: list[int]) -> None:
        """Take a column that could not be used before."""
        self.held[prover] = column

    def confirm_survivors(self, survivors: set[int]) -> bytes:
        """Sign whose vectors are summed."""
        return wire.signed(self.sign(SIGN_SURVIVORS, self.round.bitmap(survivors)))

    def aggregate(self, survivors: set[int]) -> list[int]:
        """The sum of the words' part of columns."""
        blocks = self.round.statement.blocks
        columns = [self.held[prover][:blocks] for prover in sorted(survivors)]
        return [sum(elements) % P for elements in zip(*columns, strict=True)]


# --- Those who lie ---


class WrongShare(Party):
    """Deals the party of rank 1 a column in which the last share is one more."""

    def deal(self) -> Rows:
        """All columns, one of them wrong."""
        columns, at = super().deal(), self.round.statement.rows - 1
        columns[1][at] = (columns[1][at] + 1) % P
        return columns


class Silent(WrongShare):
    """The same, and shows nothing."""

    def show(self, accusers: list[int]) -> bytes | None:
        """Nothing."""
        return None


class Rubbish(Party):
    """Seals rubbish for the party of rank 1, and gives a wrong sum of columns."""

    def sealed(self, peer: int) -> bytes:
        """What opens, or does not."""
        right = super().sealed(peer)
        return right[:-1] + bytes([right[-1] ^ 1]) if peer == 1 else right

    def aggregate(self, survivors: set[int]) -> list[int]:
        """A sum whose last element is one more."""
        *others, last = super().aggregate(survivors)
        return [*others, (last + 1) % P]


class WrongAnswer(Party):
    """Adds 1 to its last answer about the parties 0 and 2, and to its first one about party 4."""

    def answer(self) -> Response:
        """Answers, some of them wrong."""
        right = super().answer()
        answers = {prover: list(answer) for prover, answer in right.answers.items()}
        for prover, at in ((0, -1), (2, -1), (4, 0)):
            answers[prover][at] = (answers[prover][at] + 1) % P
        return Response(right.unusable, answers)


class MassAccuser(Party):
    """Finds the columns of the first three others unusable."""

    def answer(self) -> Response:
        """Nothing about some, right answers about the others."""
        right = super().answer()
        unusable = set([prover for prover in self.provers if prover != self.me][:3])
        nothing = [0] * len(self.round.statement.masks)
        answers = {p: nothing if p in unusable else answer for p, answer in right.answers.items()}
        return Response(unusable, answers)


class TooLong(Party):
    """Shares a vector that is too long, with bits of the largest norm that there may be."""

    def content(self) -> Rows:
        """Rows of which only the last ones do not fit."""
        statement = self.round.statement
        assert statement.most is not None
        true = Statement(statement.bits, statement.words, 2**40, statement.n, statement.k, statement.l)
        rows = true.content(self.words)[: statement.rows - statement.norm_rows]
        bits = [1] * statement.most.bit_length() + [0] * statement.l
        return rows + [bits[g * statement.l :][: statement.l] for g in range(statement.norm_rows)]
