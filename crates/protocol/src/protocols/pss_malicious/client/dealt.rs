//! What a prover has dealt: enough to deal a column once more, where it must be shown, and its place in the commitment.

use std::sync::Arc;

use blindsum_crypto::kdf::derive32;
use blindsum_crypto::secret::Secret;
use blindsum_sharing::validity::{ProofSeeds, ValiditySharing, Witness};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::misbehaviour::behaviour;
use super::places::{Places, columns};
use crate::core::round::ClientSetup;
use crate::kit::snapshot::{Reader, Writer};
use crate::protocols::pss_malicious::commitments::{Leaf, Trees};
use crate::protocols::pss_malicious::messages::SALT;
use crate::{FaultKind, PartyId, Round};

/// Label of what is derived from the secret of a proof.
const DERIVE: &str = "blindsum validity";

/// A prover's vector, and the secret from which its columns and their salts are made.
pub(super) struct Dealt {
    secret: Secret<32>,
    words: Zeroizing<Vec<u64>>,
    /// For each party by rank.
    pub leaves: Vec<Leaf>,
}

impl Dealt {
    /// Draws the secret; nothing is dealt yet.
    pub fn new(round: &Round, words: Zeroizing<Vec<u64>>, rng: &mut dyn CryptoRng) -> Self {
        Self {
            secret: Secret::generate(rng),
            words,
            leaves: vec![Leaf::default(); round.parties()],
        }
    }

    /// Writes `salt ‖ column` of every party for which there is a place, and takes note of the columns.
    pub fn deal(
        &mut self,
        setup: &ClientSetup,
        sharing: &ValiditySharing,
        places: &mut Places<'_>,
    ) -> Result<(), FaultKind> {
        let mut witness = self.deal_words(setup, sharing, places)?;
        for (leaf, salted) in self.leaves.iter_mut().zip(places.iter()) {
            if let Some(salted) = salted {
                leaf.note_words(sharing.shape(), salted);
            }
        }
        self.deal_proof(setup, sharing, &mut witness, places)?;
        for (leaf, salted) in self.leaves.iter_mut().zip(places.iter()) {
            if let Some(salted) = salted {
                leaf.note_column(salted);
            }
        }
        Ok(())
    }

    /// Writes the salts and the shares of words.
    fn deal_words(
        &self,
        setup: &ClientSetup,
        sharing: &ValiditySharing,
        places: &mut Places<'_>,
    ) -> Result<Witness, FaultKind> {
        let mut witness = Witness::new(*sharing.layout(), &self.words)?;
        let behaviour = behaviour(setup);
        behaviour.edit_witness(&mut witness);
        for (rank, place) in (0_u32..).zip(places.iter_mut()) {
            if let Some(salt) = place.as_mut().and_then(|place| place.get_mut(..SALT)) {
                let drawn = self.derive(setup, &[b"salt", &rank.to_be_bytes()]);
                salt.copy_from_slice(drawn.expose());
            }
        }
        sharing.deal_words(&self.seeds(setup), &witness, &mut columns(places))?;
        behaviour.edit_words(setup.me, sharing, &mut columns(places));
        Ok(witness)
    }

    /// Writes the rest of the columns, once all words are committed to.
    fn deal_proof(
        &self,
        setup: &ClientSetup,
        sharing: &ValiditySharing,
        witness: &mut Witness,
        places: &mut Places<'_>,
    ) -> Result<(), FaultKind> {
        let seed = self.trees(setup, sharing).root.seed;
        let written = witness.project(seed).map_err(FaultKind::from);
        let behaviour = behaviour(setup);
        behaviour.edit_projections(witness, written)?;
        sharing.deal_proof(&self.seeds(setup), witness, &mut columns(places))?;
        behaviour.edit_columns(&mut columns(places));
        Ok(())
    }

    fn derive(&self, setup: &ClientSetup, parts: &[&[u8]]) -> Secret<32> {
        derive32(&self.secret, setup.round.context(), DERIVE, parts)
    }

    fn seeds(&self, setup: &ClientSetup) -> ProofSeeds {
        ProofSeeds {
            words: self.derive(setup, &[b"words"]),
            rows: self.derive(setup, &[b"rows"]),
            masks: self.derive(setup, &[b"masks"]),
        }
    }

    /// The trees over all leaves.
    pub fn trees(&self, setup: &ClientSetup, sharing: &ValiditySharing) -> Trees {
        Trees::new(&setup.round, sharing.shape(), setup.me, &self.leaves)
    }

    /// What this party shows of the columns of these parties, a
    /// [`Shown`](crate::protocols::pss_malicious::messages::Shown) for each.
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
        let mut witness = self.deal_words(setup, sharing, &mut places)?;
        self.deal_proof(setup, sharing, &mut witness, &mut places)?;
        let trees = self.trees(setup, sharing);
        for (party, bytes) in parties.iter().zip(&mut shown) {
            let leaf = self.leaves.get(party.rank()).ok_or(FaultKind::NotAMember)?;
            let paths = trees.paths(*party).ok_or(FaultKind::NotAMember)?;
            bytes.extend_from_slice(&leaf.sealed);
            bytes.extend(paths.column_bytes());
            bytes.extend(paths.words_bytes());
        }
        Ok(shown)
    }

    pub fn save(&self, writer: Writer) -> Writer {
        let writer = writer.bytes(self.secret.expose());
        let words = self.words.iter();
        let writer = words.fold(writer, |writer, word| writer.bytes(&word.to_be_bytes()));
        let leaves = self.leaves.iter();
        leaves.fold(writer, |writer, leaf| {
            writer
                .bytes(&leaf.sealed)
                .bytes(&leaf.column)
                .bytes(&leaf.words)
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
        let leaf = |reader: &mut Reader<'_>| {
            let (sealed, column, words) = (reader.array()?, reader.array()?, reader.array()?);
            Ok(Leaf {
                sealed,
                column,
                words,
            })
        };
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
