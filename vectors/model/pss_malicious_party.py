"""A party of `pss-malicious`, honest and on paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from . import derive, wire
from .identity import Identity
from .job import Job
from .pss_malicious_proof import FIELD, L2, P, Statement, largest_norm
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
        nearest = job.encoding == "quantised" and job.rounding == "nearest"
        bound = (job.bits, job.clip, job.max_norm, job.dim, job.rounding)
        most = largest_norm(*bound) if job.max_norm else None
        return Statement(job.bits, job.lanes(), most, self.parties, k, packed, job.bound, nearest)

    @property
    def height(self) -> int:
        """h: the hashes of a path."""
        return (self.parties - 1).bit_length()

    @property
    def word_bytes(self) -> int:
        """Bytes of the words' part of a column."""
        return FIELD.size * self.statement.blocks

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

    def words_leaf(self, prover: int, verifier: int, words: bytes) -> bytes:
        """A leaf of a prover's words' tree, of the commitment to words."""
        ranks = derive.rank_bytes(prover), derive.rank_bytes(verifier)
        return derive.framed_hash("blindsum validity words leaf", self.context, *ranks, words)

    def projection_seed(self, prover: int, words_root: bytes) -> bytes:
        """What the coefficients of a prover's projections follow from."""
        label = "blindsum validity projections"
        return derive.framed_hash(label, self.context, derive.rank_bytes(prover), words_root)

    def words_hash(self, salt: bytes, column: bytes) -> bytes:
        """Commitment to the words of a column."""
        return derive.framed_hash("blindsum validity words", salt, column[: self.word_bytes])


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


def both_roots(words: bytes, leaves: bytes) -> bytes:
    """The root of a prover with two trees."""
    return derive.framed_hash("blindsum validity roots", words, leaves)


def hashes_in(joined: bytes) -> list[bytes]:
    """Hashes that stand one after the other."""
    return [joined[i : i + HASH] for i in range(0, len(joined), HASH)]


@dataclass(frozen=True)
class Leaves:
    """What somebody knows of a prover's trees: the two leaves of one verifier, and their paths.

    Attributes
    ----------
    sealed, column
        Hash of the sealed column, commitment to the column.
    words
        Commitment to the words; empty, as its path, where there is no such tree.
    """

    round: Round
    prover: int
    verifier: int
    sealed: bytes
    column: bytes
    path: list[bytes]
    words: bytes
    words_path: list[bytes]

    def words_root(self) -> bytes:
        """Where the path in the words' tree leads."""
        leaf = self.round.words_leaf(self.prover, self.verifier, self.words)
        return root_of(leaf, self.verifier, self.words_path)

    def root(self) -> bytes:
        """Where all paths lead."""
        leaf = self.round.leaf(self.prover, self.verifier, self.sealed, self.column)
        found = root_of(leaf, self.verifier, self.path)
        return both_roots(self.words_root(), found) if self.round.statement.bound == L2 else found

    def seed(self) -> bytes:
        """The seed of the prover's projections; empty where it has none."""
        if self.round.statement.bound != L2:
            return b""
        return self.round.projection_seed(self.prover, self.words_root())


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
    seeds
        Seeds of projections, by prover; empty where there are none.
    """

    round: Round
    me: int
    identity: Identity
    tape: Tape
    words: list[int]
    sent: dict[int, bytes] = field(default_factory=dict)
    held: dict[int, list[int]] = field(default_factory=dict)
    seeds: dict[int, bytes] = field(default_factory=dict)

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

    def derived(self, *name: bytes) -> bytes:
        """One of the seeds and salts."""
        return derive.derive32(self.own, self.round.context, "blindsum validity", *name)

    def is_projected(self) -> bool:
        """Whether it proves its norm by projections."""
        return self.round.statement.bound == L2

    def others(self, seed: bytes) -> Rows:
        """The rows that it shares beside those of words; the seed is that of its projections."""
        statement = self.round.statement
        return statement.other_rows(self.words, statement.projections(self.words, seed))

    def deal(self) -> Rows:
        """The column of every rank; in between, the words' tree."""
        statement = self.round.statement
        ranks = range(self.round.parties)
        self.salts = [self.derived(b"salt", derive.rank_bytes(rank)) for rank in ranks]
        shares = statement.share(statement.word_rows(self.words), self.derived(b"words"))
        self.word_hashes = [self.committed(rank, FIELD.pack(shares[rank])) for rank in ranks]
        leaves = [
            self.round.words_leaf(self.me, rank, self.word_hashes[rank] if rank in self.keys else ZEROS)
            for rank in ranks
        ]
        self.words_tree = levels(leaves)
        seed = self.round.projection_seed(self.me, self.words_tree[-1][0]) if self.is_projected() else b""
        self.seeds = {self.me: seed}
        return statement.columns(shares, self.others(seed), self.derived(b"rows"), self.derived(b"masks"))

    def committed(self, rank: int, words: bytes) -> bytes:
        """The commitment to the words of a rank."""
        return self.round.words_hash(self.salts[rank], words)

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
        root = self.tree[-1][0]
        self.root = both_roots(self.words_tree[-1][0], root) if self.is_projected() else root
        self.commitment = self.committed_to(self.root)
        return self.commitment + b"".join(self.piece(peer) for peer in self.sent)

    def committed_to(self, root: bytes) -> bytes:
        """A root, signed."""
        return root + self.sign(SIGN_ROOT, derive.rank_bytes(self.me) + root)

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

    def words_path(self, rank: int) -> bytes:
        """The path of a rank in the words' tree; nothing where there is none."""
        return b"".join(path(self.words_tree, rank)) if self.is_projected() else b""

    def piece(self, peer: int) -> bytes:
        """What goes to one party."""
        words = self.word_hashes[peer] if self.is_projected() else b""
        hashes = self.hashes[peer][1] + b"".join(path(self.tree, peer)) + words + self.words_path(peer)
        return self.sent[peer] + hashes

    # --- Answers ---

    def read(self, prover: int, piece: bytes) -> Leaves:
        """What a piece says of the prover's trees."""
        size = HASH + self.round.statement.column + TAG
        sealed, rest = piece[:size], hashes_in(piece[size:])
        column, siblings = rest[0], rest[1:][: self.round.height]
        words, *others = rest[1 + self.round.height :] or [b""]
        return Leaves(self.round, prover, self.me, sealed_hash(sealed), column, siblings, words, others)

    def open(self, prover: int, piece: bytes, leaves: Leaves) -> list[int] | None:
        """The column that a piece holds, None if it cannot be used."""
        sealed = piece[: HASH + self.round.statement.column + TAG]
        header = derive.share_header(self.round.context, prover, self.me)
        plain = derive.open_sealed(self.message_key(prover, self.me), header, sealed)
        if plain is None or column_hash(plain[:HASH], plain[HASH:]) != leaves.column:
            return None
        if self.is_projected() and self.round.words_hash(plain[:HASH], plain[HASH:]) != leaves.words:
            return None
        return FIELD.unpack(plain[HASH:])

    def receive(self, challenge: bytes, roots: dict[int, bytes], pieces: dict[int, bytes]) -> None:
        """Take the challenge, and the pieces of all others who shared, which lead to their roots."""
        self.challenge = challenge
        opened: dict[int, list[int] | None] = {self.me: self.dealt[self.me]}
        for prover, piece in pieces.items():
            leaves = self.read(prover, piece)
            assert leaves.root() == roots[prover]
            self.seeds[prover] = leaves.seed()
            opened[prover] = self.open(prover, piece, leaves)
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
            prover: statement.answers(self.held[prover], self.me, self.challenge, self.seeds[prover])
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
        """One column that it dealt, and the paths to the root."""
        siblings = b"".join(path(self.tree, accuser)) + self.words_path(accuser)
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
