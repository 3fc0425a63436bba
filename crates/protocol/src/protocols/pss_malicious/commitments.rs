//! What a prover commits to before its columns are asked about: a tree with a leaf for every verifier. Where projections of
//! the vector are proved, their coefficients must follow from the words and nothing behind them, so that the words have a tree of
//! their own.

use blindsum_crypto::kdf;
use blindsum_crypto::merkle::{Hash, MerkleTree, path_len, root_of_path};
use blindsum_sharing::validity::{ProofShape, RangeProof};

use crate::{PartyId, Round};

/// Bytes of the random salt of a column's commitment.
pub(super) const SALT: usize = 32;
/// Bytes of a hash.
pub(super) const HASH: usize = 32;
/// What a prover commits to for one verifier. Zeros for parties that get nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    /// Of the column as it was sealed; of no bytes for the prover's own.
    pub sealed: Hash,
    pub column: Hash,
    /// Of the beginning of the column, the shares of words; zeros unless projections are proved.
    pub words: Hash,
}

/// The ways from a leaf to the root.
#[derive(Clone, Default)]
pub(super) struct Paths {
    column: Vec<Hash>,
    /// None unless projections are proved.
    words: Vec<Hash>,
}

/// What a prover has committed to, and what its projections follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub hash: Hash,
    pub seed: [u8; 32],
}

/// A prover's trees.
pub(super) struct Trees {
    columns: MerkleTree,
    words: MerkleTree,
    pub root: Root,
    has_words: bool,
}

impl Leaf {
    /// Takes note of the words of `salt ‖ column`.
    pub fn note_words(&mut self, shape: &ProofShape, salted: &[u8]) {
        if has_words(shape) {
            let (salt, column) = salted.split_at_checked(SALT).unwrap_or((salted, &[]));
            let words = column.get(..shape.words_len()).unwrap_or(column);
            self.words = kdf::hash("blindsum validity words", &[salt, words]);
        }
    }

    /// Takes note of all of `salt ‖ column`.
    pub fn note_column(&mut self, salted: &[u8]) {
        let (salt, column) = salted.split_at_checked(SALT).unwrap_or((salted, &[]));
        self.column = kdf::hash("blindsum validity column", &[salt, column]);
    }

    /// Whether it is a commitment to this `salt ‖ column`.
    pub fn is_of(&self, shape: &ProofShape, salted: &[u8]) -> bool {
        let mut shown = self.clone();
        // guard: words-are-those-that-projections-follow-from
        shown.note_words(shape, salted);
        shown.note_column(salted);
        shown == *self
    }

    /// What stands in the tree: the column, and the bytes that it was sealed as, so that nobody on the way can make an honest
    /// prover's column unusable and blame the prover.
    fn hash(&self, round: &Round, between: (PartyId, PartyId)) -> Hash {
        hash_of_leaf(
            "blindsum validity leaf",
            round,
            between,
            &[&self.sealed, &self.column],
        )
    }

    fn hash_of_words(&self, round: &Round, between: (PartyId, PartyId)) -> Hash {
        hash_of_leaf(
            "blindsum validity words leaf",
            round,
            between,
            &[&self.words],
        )
    }

    /// The root that the paths of a verifier's leaf lead to.
    pub fn root(
        &self,
        round: &Round,
        shape: &ProofShape,
        between: (PartyId, PartyId),
        paths: &Paths,
    ) -> Root {
        let (prover, verifier) = between;
        let columns = root_of_path(verifier.rank(), self.hash(round, between), &paths.column);
        let words = root_of_path(
            verifier.rank(),
            self.hash_of_words(round, between),
            &paths.words,
        );
        Root::new(round, prover, columns, has_words(shape).then_some(words))
    }
}

/// What a leaf says for a prover and a verifier.
fn hash_of_leaf(
    label: &str,
    round: &Round,
    (prover, verifier): (PartyId, PartyId),
    of: &[&Hash],
) -> Hash {
    let (prover, verifier) = (prover.0.to_be_bytes(), verifier.0.to_be_bytes());
    let mut parts: Vec<&[u8]> = vec![&round.context().0, &prover, &verifier];
    parts.extend(of.iter().map(|hash| &hash[..]));
    kdf::hash(label, &parts)
}

impl Root {
    fn new(round: &Round, prover: PartyId, columns: Hash, words: Option<Hash>) -> Self {
        let Some(words) = words else {
            return Self {
                hash: columns,
                seed: [0; 32],
            };
        };
        let prover = prover.0.to_be_bytes();
        Self {
            hash: kdf::hash("blindsum validity roots", &[&words, &columns]),
            seed: kdf::hash(
                "blindsum validity projections",
                &[&round.context().0, &prover, &words],
            ),
        }
    }
}

impl Trees {
    /// The trees over the leaves of all verifiers, in rank order.
    pub fn new(round: &Round, shape: &ProofShape, prover: PartyId, leaves: &[Leaf]) -> Self {
        let tree = |hash: fn(&Leaf, &Round, (PartyId, PartyId)) -> Hash| {
            let ranked = round.everyone().zip(leaves);
            MerkleTree::new(
                ranked
                    .map(|(to, leaf)| hash(leaf, round, (prover, to)))
                    .collect(),
            )
        };
        let (columns, words) = (tree(Leaf::hash), tree(Leaf::hash_of_words));
        let has_words = has_words(shape);
        let root = Root::new(
            round,
            prover,
            columns.root(),
            has_words.then_some(words.root()),
        );
        Self {
            columns,
            words,
            root,
            has_words,
        }
    }

    /// The paths of a verifier's leaf.
    pub fn paths(&self, verifier: PartyId) -> Option<Paths> {
        let words = match self.has_words {
            true => self.words.path(verifier.rank())?,
            false => Vec::new(),
        };
        let column = self.columns.path(verifier.rank())?;
        Some(Paths { column, words })
    }
}

impl Paths {
    /// The path of the column, as in a message.
    pub fn column_bytes(&self) -> Vec<u8> {
        self.column.concat()
    }

    /// The path of the words.
    pub fn words_bytes(&self) -> Vec<u8> {
        self.words.concat()
    }

    /// Reads both, which must be as long as in the round.
    pub fn read(column: &[u8], words: &[u8]) -> Option<Self> {
        let hashes = |bytes: &[u8]| {
            let path = bytes.chunks_exact(HASH).map(|hash| hash.try_into().ok());
            path.collect::<Option<Vec<Hash>>>()
        };
        Some(Self {
            column: hashes(column)?,
            words: hashes(words)?,
        })
    }
}

/// Whether words have a tree of their own.
pub(super) fn has_words(shape: &ProofShape) -> bool {
    shape.layout().statement().range == RangeProof::Projections
}

/// Bytes of a path in a round.
pub(super) fn path_bytes(shape: &ProofShape) -> usize {
    path_len(shape.parameters().parties()) * HASH
}

/// The hash of a column as it was sealed.
pub(super) fn sealed_hash(sealed: &[u8]) -> Hash {
    kdf::hash("blindsum validity sealed", &[sealed])
}
