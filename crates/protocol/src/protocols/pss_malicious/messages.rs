//! The messages of a round. Lengths are fixed by the round where nothing else is said, so that nothing is prefixed.
//!
//! * Stage `advertise-keys`: [`Advert`](crate::kit::advertise::Advert) up; down [`Keys`], the same to all who advertised (U0).
//! * Stage `share-vector` up: [`Commitment`], then a [piece](PieceLayout) for every other party of U0, in rank order. Down:
//!   the bitmap of those who shared (U1), the coordinator's nonce, the commitment of each of U1 in rank order; then the
//!   pieces for the receiver from every other party of U1, in rank order.
//! * Stage `confirm-challenge`, if the coordinator may lie: signatures over the challenge, [`crate::kit::consistency`].
//! * Stage `respond` up: the bitmap of provers whose column is unusable, an answer about every prover of U1 in rank order
//!   (zeros about those), and a signature over all of it. Down, to provers that are accused: 0, then each accuser's rank and
//!   its whole response.
//! * Stage `dispute`, skipped where nobody is accused, up: for each accuser what it was dealt, [`Shown`]. Down, to all who are
//!   left: 1, the bitmap of those whose vectors are summed (U2), and the columns that the receiver had found unusable.
//! * Stage `confirm-survivors`, if the coordinator may lie: signatures over U2.
//! * Stage `aggregate`: the packed sum of the columns up, the result down.

use blindsum_crypto::kdf;
use blindsum_crypto::merkle::Hash;
use blindsum_crypto::seal::SEAL_OVERHEAD;
use blindsum_crypto::sign::SIGNATURE_LEN;
use blindsum_sharing::validity::{ProofShape, ValiditySharing};
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

pub(super) use super::commitments::{HASH, SALT};
use super::commitments::{Leaf, Paths, Root, has_words, path_bytes, sealed_hash};
use crate::kit::advertise::KeyEntry;
use crate::kit::keys::{KeySignatures, is_signed};
use crate::kit::wire::{Bounded, Opaque, PREFIX, list};
use crate::{FaultKind, PartyId, PartySet, Round};

/// What the keys that seal columns are for.
pub(super) const PURPOSE: &str = "share";
/// How parties sign their fresh keys.
pub(super) const KEY_SIGNATURES: KeySignatures = KeySignatures::always("blindsum validity keys");
/// Label of what parties sign over their commitments.
pub(super) const SIGN_ROOT: &str = "blindsum validity root";
/// Label of what parties sign over what they answer.
pub(super) const SIGN_RESPONSE: &str = "blindsum validity response";
/// Label of what parties sign over the challenge.
pub(super) const SIGN_CHALLENGE: &str = "blindsum validity challenge";

/// Bytes of a [`Commitment`].
pub(super) const COMMITMENT: usize = HASH + SIGNATURE_LEN;
/// What a message after the responses begins with where the receiver is accused.
pub(super) const ACCUSED: u8 = 0;
/// What it begins with where provers were judged.
pub(super) const JUDGED: u8 = 1;

/// The keys of all who advertised, in rank order, and what the coordinator commits to.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct Keys {
    /// Of the nonce: [`nonce_commitment`].
    pub nonce: Opaque,
    #[tls_codec(with = "list")]
    pub entries: Vec<KeyEntry>,
}

impl Bounded for Keys {
    const NAME: &'static str = "keys";

    fn most_bytes(parties: usize) -> usize {
        PREFIX + HASH + KeyEntry::most_bytes(parties)
    }
}

/// A prover's commitment to all columns that it deals, signed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Commitment {
    pub root: Hash,
    pub signature: [u8; SIGNATURE_LEN],
}

impl Commitment {
    pub fn write(&self) -> [u8; COMMITMENT] {
        let mut bytes = [0; COMMITMENT];
        let (root, signature) = bytes.split_at_mut(HASH);
        root.copy_from_slice(&self.root);
        signature.copy_from_slice(&self.signature);
        bytes
    }

    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (root, signature) = bytes.split_at_checked(HASH)?;
        Some(Self {
            root: root.try_into().ok()?,
            signature: signature.try_into().ok()?,
        })
    }

    /// Whether it is this party's.
    pub fn is_of(&self, round: &Round, prover: PartyId) -> bool {
        let said = root_bytes(round, prover, &self.root);
        is_signed(round, prover, SIGN_ROOT, &said, &self.signature)
    }
}

/// What a prover signs over its commitment.
pub(super) fn root_bytes(round: &Round, prover: PartyId, root: &Hash) -> Vec<u8> {
    [&round.context().0 as &[u8], &prover.0.to_be_bytes(), root].concat()
}

/// What a verifier signs over its response.
pub(super) fn response_bytes(
    round: &Round,
    verifier: PartyId,
    challenge: &Hash,
    said: &[u8],
) -> Vec<u8> {
    let head: [&[u8]; 3] = [&round.context().0, &verifier.0.to_be_bytes(), challenge];
    [&head.concat(), said].concat()
}

/// What parties sign over the challenge.
pub(super) fn challenge_bytes(round: &Round, challenge: &Hash) -> Vec<u8> {
    [round.context().0, *challenge].concat()
}

/// What the coordinator says of its nonce before anybody shares.
pub(super) fn nonce_commitment(round: &Round, nonce: &Hash) -> Hash {
    kdf::hash("blindsum validity nonce", &[&round.context().0, nonce])
}

/// The challenge: of the nonce, of those who shared, and of what they shared.
pub(super) fn challenge(
    round: &Round,
    nonce: &Hash,
    shared: &PartySet,
    commitments: &[Commitment],
) -> Hash {
    let roots: Vec<&[u8]> = commitments.iter().map(|of| &of.root as &[u8]).collect();
    let parts: [&[u8]; 4] = [
        &round.context().0,
        nonce,
        shared.as_bitmap(),
        &roots.concat(),
    ];
    kdf::hash("blindsum validity challenge", &parts)
}

/// What a prover sends for one verifier: `sealed salt and column ‖ commitment to the column ‖ its path`, and where projections
/// are proved, `commitment to the words ‖ its path`.
#[derive(Clone, Copy)]
pub(super) struct PieceLayout {
    pub sealed: usize,
    path: usize,
    has_words: bool,
}

/// A piece, taken apart.
pub(super) struct Piece<'a> {
    pub sealed: &'a [u8],
    pub leaf: Leaf,
    pub paths: Paths,
}

impl PieceLayout {
    pub fn of(shape: &ProofShape) -> Self {
        Self {
            sealed: SALT + shape.column_len() + SEAL_OVERHEAD,
            path: path_bytes(shape),
            has_words: has_words(shape),
        }
    }

    /// Bytes of a piece.
    pub fn len(&self) -> usize {
        let opened = HASH + self.path;
        self.sealed + if self.has_words { 2 * opened } else { opened }
    }

    /// What stands behind the sealed column.
    pub fn write(&self, leaf: &Leaf, paths: &Paths) -> Vec<u8> {
        let mut bytes = [&leaf.column[..], &paths.column_bytes()].concat();
        if self.has_words {
            bytes.extend(leaf.words);
            bytes.extend(paths.words_bytes());
        }
        bytes
    }

    pub fn read<'a>(&self, piece: &'a [u8]) -> Option<Piece<'a>> {
        let (sealed, rest) = piece.split_at_checked(self.sealed)?;
        let (column, rest) = rest.split_first_chunk::<HASH>()?;
        let (path, rest) = rest.split_at_checked(self.path)?;
        let (words, words_path) = match self.has_words {
            true => rest.split_first_chunk::<HASH>()?,
            false => (&[0; HASH], rest),
        };
        let leaf = Leaf {
            sealed: sealed_hash(sealed),
            column: *column,
            words: *words,
        };
        let paths = Paths::read(path, words_path)?;
        Some(Piece {
            sealed,
            leaf,
            paths,
        })
    }
}

/// What an accused prover shows of one column: `salt ‖ column ‖ hash of the sealed column ‖ its path`, and where projections are
/// proved, `path of the words`.
pub(super) struct Shown<'a> {
    pub column: &'a [u8],
    leaf: Leaf,
    paths: Paths,
}

impl<'a> Shown<'a> {
    pub fn len(shape: &ProofShape) -> usize {
        let paths = if has_words(shape) { 2 } else { 1 };
        SALT + shape.column_len() + HASH + paths * path_bytes(shape)
    }

    pub fn read(shape: &ProofShape, bytes: &'a [u8]) -> Option<Self> {
        let (salted, rest) = bytes.split_at_checked(SALT + shape.column_len())?;
        let (sealed, rest) = rest.split_first_chunk::<HASH>()?;
        let (path, words_path) = rest.split_at_checked(path_bytes(shape))?;
        let mut leaf = Leaf {
            sealed: *sealed,
            ..Leaf::default()
        };
        leaf.note_words(shape, salted);
        leaf.note_column(salted);
        let column = salted.get(SALT..)?;
        let paths = Paths::read(path, words_path)?;
        Some(Self {
            column,
            leaf,
            paths,
        })
    }

    /// The root that it belongs to.
    pub fn root(&self, round: &Round, shape: &ProofShape, between: (PartyId, PartyId)) -> Root {
        self.leaf.root(round, shape, between, &self.paths)
    }
}

/// Bytes of a response about so many provers.
pub(super) fn response_len(shape: &ProofShape, provers: usize) -> usize {
    let bitmap = shape.parameters().parties().div_ceil(8);
    bitmap + provers * shape.answer_len() + SIGNATURE_LEN
}

/// A response, taken apart: provers whose columns are unusable, and an answer about each of U1.
pub(super) struct Response<'a> {
    pub unusable: PartySet,
    pub answers: Vec<&'a [u8]>,
}

impl<'a> Response<'a> {
    /// Reads the response of `verifier` about the provers of U1, and checks its signature.
    pub fn read(
        round: &Round,
        sharing: &ValiditySharing,
        (shared, challenge): (&PartySet, &Hash),
        verifier: PartyId,
        bytes: &'a [u8],
    ) -> Result<Self, FaultKind> {
        let wrong = |rule: String| FaultKind::malformed("response", rule);
        let (got, need) = (bytes.len(), response_len(sharing.shape(), shared.len()));
        if got != need {
            return Err(wrong(format!("{got} bytes, but {need} are due")));
        }
        let cut = || wrong("cut short".into());
        let (said, signature) = bytes
            .split_at_checked(need - SIGNATURE_LEN)
            .ok_or_else(cut)?;
        let (bitmap, answers) = said
            .split_at_checked(round.parties().div_ceil(8))
            .ok_or_else(cut)?;
        let unusable = PartySet::from_bitmap(round.parties(), bitmap)
            .filter(|set| {
                set.iter()
                    .all(|party| shared.contains(party) && party != verifier)
            })
            .ok_or_else(|| wrong("the bitmap names parties that did not share".into()))?;
        let bytes = response_bytes(round, verifier, challenge, said);
        // guard: accusations-are-signed
        if !is_signed(round, verifier, SIGN_RESPONSE, &bytes, signature) {
            return Err(FaultKind::BadSignature { signer: verifier });
        }
        let answers: Vec<&[u8]> = answers.chunks_exact(sharing.answer_len()).collect();
        for (prover, answer) in shared.iter().zip(&answers) {
            let is_zero = answer.iter().all(|byte| *byte == 0);
            if unusable.contains(prover) && !is_zero {
                return Err(wrong(format!(
                    "has an answer about {prover}, whose share vector is unusable"
                )));
            }
            let read = sharing.read_answer(answer);
            read.map_err(|error| wrong(format!("about {prover}: {error}")))?;
        }
        Ok(Self { unusable, answers })
    }
}
