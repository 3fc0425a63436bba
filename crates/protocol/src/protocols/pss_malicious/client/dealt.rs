//! What a prover has dealt: enough to deal a column once more, where it must be shown, and its place in the commitment.

use std::sync::Arc;

use blindsum_crypto::kdf::derive32;
use blindsum_crypto::merkle::{Hash, MerkleTree};
use blindsum_crypto::secret::Secret;
use blindsum_sharing::validity::{ProofSeeds, ValiditySharing, Witness};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::conduct;
use crate::core::round::ClientSetup;
use crate::kit::snapshot::{Reader, Writer};
use crate::protocols::pss_malicious::messages::{HASH, SALT, column_commitment, leaf};
use crate::{FaultKind, PartyId};

/// Label of what is derived from the secret of a proof.
const DERIVE: &str = "blindsum validity";

/// A prover's vector, and the secret from which its columns and their salts are made.
pub(super) struct Dealt {
    secret: Secret<32>,
    words: Zeroizing<Vec<u64>>,
    /// For each party by rank, the hash of the sealed column and the commitment to the column.
    pub leaves: Vec<(Hash, Hash)>,
}

impl Dealt {
    /// Draws the secret; nothing is dealt yet.
    pub fn new(words: Zeroizing<Vec<u64>>, rng: &mut dyn CryptoRng) -> Self {
        Self {
            secret: Secret::generate(rng),
            words,
            leaves: Vec::new(),
        }
    }

    /// Writes `salt ‖ column` of every party for which there is a place.
    pub fn deal(
        &self,
        setup: &ClientSetup,
        sharing: &ValiditySharing,
        places: &mut [Option<&mut [u8]>],
    ) -> Result<(), FaultKind> {
        let context = setup.round.context();
        let derive = |parts: &[&[u8]]| derive32(&self.secret, context, DERIVE, parts);
        let seeds = ProofSeeds {
            rows: derive(&[b"rows"]),
            masks: derive(&[b"masks"]),
        };
        let mut witness = Witness::new(*sharing.layout(), &self.words)?;
        conduct::rows(setup, &mut witness);
        let mut columns = Vec::with_capacity(places.len());
        for (rank, place) in (0_u32..).zip(places.iter_mut()) {
            columns.push(match place {
                Some(place) => {
                    let salted = place.split_at_mut_checked(SALT);
                    let (salt, column) =
                        salted.ok_or(FaultKind::Snapshot("no place for a salt".into()))?;
                    salt.copy_from_slice(derive(&[b"salt", &rank.to_be_bytes()]).expose());
                    Some(column)
                }
                None => None,
            });
        }
        sharing.deal(&seeds, &witness, &mut columns)?;
        conduct::columns(setup, sharing, places);
        Ok(())
    }

    /// The tree over all leaves.
    pub fn tree(&self, setup: &ClientSetup) -> MerkleTree {
        let (round, me) = (&setup.round, setup.me);
        let ranked = round.everyone().zip(&self.leaves);
        let leaves = ranked.map(|(to, (sealed, column))| leaf(round, (me, to), sealed, column));
        MerkleTree::new(leaves.collect())
    }

    /// `salt ‖ column ‖ hash of the sealed column ‖ path` of each of these parties.
    pub fn show(
        &self,
        setup: &ClientSetup,
        sharing: &ValiditySharing,
        parties: &[PartyId],
    ) -> Result<Vec<Zeroizing<Vec<u8>>>, FaultKind> {
        let mut shown: Vec<Zeroizing<Vec<u8>>> = parties
            .iter()
            .map(|_| Zeroizing::new(vec![0; SALT + sharing.column_len()]))
            .collect();
        let mut places: Vec<Option<&mut [u8]>> = Vec::new();
        places.resize_with(setup.round.parties(), || None);
        for (party, bytes) in parties.iter().zip(&mut shown) {
            if let Some(place) = places.get_mut(party.rank()) {
                *place = Some(bytes);
            }
        }
        self.deal(setup, sharing, &mut places)?;
        let tree = self.tree(setup);
        for (party, bytes) in parties.iter().zip(&mut shown) {
            let leaf = self.leaves.get(party.rank()).ok_or(FaultKind::NotAMember)?;
            let path = tree.path(party.rank()).ok_or(FaultKind::NotAMember)?;
            bytes.extend_from_slice(&leaf.0);
            path.iter().for_each(|hash| bytes.extend_from_slice(hash));
        }
        Ok(shown)
    }

    /// Takes note of a leaf: the column as it was sealed, and as it is.
    pub fn leaf_of(sealed: Hash, salted: &[u8]) -> (Hash, Hash) {
        let (salt, column) = salted.split_at_checked(SALT).unwrap_or((salted, &[]));
        (sealed, column_commitment(salt, column))
    }

    pub fn save(&self, writer: Writer) -> Writer {
        let writer = writer.bytes(self.secret.expose());
        let words = self.words.iter();
        let writer = words.fold(writer, |writer, word| writer.bytes(&word.to_be_bytes()));
        let leaves = self.leaves.iter();
        leaves.fold(writer, |writer, (sealed, column)| {
            writer.bytes(sealed).bytes(column)
        })
    }

    pub fn load(
        setup: &Arc<ClientSetup>,
        sharing: &ValiditySharing,
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let secret = reader.secret()?;
        let count = sharing.layout().statement().words;
        let mut words = Zeroizing::new(Vec::with_capacity(count));
        for _ in 0..count {
            words.push(u64::from_be_bytes(reader.array()?));
        }
        let leaf = |reader: &mut Reader<'_>| Ok((reader.array::<HASH>()?, reader.array::<HASH>()?));
        let leaves = setup
            .round
            .everyone()
            .map(|_| leaf(reader))
            .collect::<Result<_, FaultKind>>()?;
        Ok(Self {
            secret,
            words,
            leaves,
        })
    }
}
