//! The others' columns come: this party verifies that they are what was committed to, and computes what it answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_crypto::merkle::Hash;
use blindsum_sharing::validity::ValiditySharing;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::challenge::AwaitChallenge;
use super::dealt::Dealt;
use super::misbehaviour::behaviour;
use super::verdict::{AwaitVerdict, Received};
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::consistency::Signed;
use crate::kit::keys::{is_active, load_key, load_pair, seal_header, seal_keys};
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::wire::{Bounded, encode};
use crate::protocols::pss_malicious::commitments::Root;
use crate::protocols::pss_malicious::messages::{
    COMMITMENT, Commitment, HASH, PURPOSE, Piece, PieceLayout, SALT, SIGN_CHALLENGE, SIGN_RESPONSE,
    challenge, challenge_bytes, nonce_commitment, response_bytes,
};
use crate::protocols::pss_malicious::required;
use crate::{Fault, FaultKind, PartyId, PartySet, SurvivorListError};

/// Columns are out; those of the others come next.
pub(super) struct AwaitColumns {
    pub setup: Arc<ClientSetup>,
    pub sharing: Arc<ValiditySharing>,
    pub pair: KeyPair,
    /// Everybody else who advertised a key (U0).
    pub peers: BTreeMap<PartyId, PublicKey>,
    /// The coordinator's commitment to its nonce.
    pub nonce: Hash,
    pub dealt: Dealt,
    /// Salt and column of this party's own vector.
    pub own: Zeroizing<Vec<u8>>,
}

/// What all were told, checked.
struct Told<'a> {
    shared: PartySet,
    commitments: BTreeMap<PartyId, Commitment>,
    challenge: Hash,
    pieces: &'a [u8],
}

/// A prover's column, as this party was dealt it.
struct Opened {
    /// Salt and column, if they can be used.
    column: Option<Zeroizing<Vec<u8>>>,
    /// What the prover committed to.
    committed: Hash,
    /// What its projections follow from.
    seed: [u8; 32],
}

impl AwaitColumns {
    pub fn load(
        setup: Arc<ClientSetup>,
        sharing: Arc<ValiditySharing>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let pair = load_pair(&setup, reader)?;
        let nonce = reader.array()?;
        let own = Zeroizing::new(reader.bytes(SALT + sharing.column_len())?.to_vec());
        let dealt = Dealt::load(&setup, &sharing, reader)?;
        let mut peers = BTreeMap::new();
        for _ in 0..reader.number()? {
            let party = reader.party()?;
            peers.insert(party, load_key(&setup, reader)?);
        }
        Ok(Self {
            setup,
            sharing,
            pair,
            peers,
            nonce,
            dealt,
            own,
        })
    }

    /// Who shared (U1), if an honest coordinator could say so, and what they committed to.
    fn check<'a>(&self, own_root: &Root, body: &'a [u8]) -> Result<Told<'a>, FaultKind> {
        let ClientSetup { round, me, .. } = &*self.setup;
        let bad = FaultKind::BadSurvivorList;
        let cut = || FaultKind::malformed("columns", "cut short");
        let (bitmap, rest) = body
            .split_at_checked(round.parties().div_ceil(8))
            .ok_or_else(cut)?;
        let shared = PartySet::from_bitmap(round.parties(), bitmap)
            .ok_or(bad(SurvivorListError::OutsideRoster))?;
        if !shared.contains(*me) {
            return Err(bad(SurvivorListError::SelfDropped));
        }
        let strange = |party: &PartyId| party != me && !self.peers.contains_key(party);
        if let Some(party) = shared.iter().find(strange) {
            return Err(bad(SurvivorListError::Revived(party)));
        }
        let (have, need) = (shared.len(), required(round, &self.sharing));
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        let (nonce, rest) = rest.split_first_chunk::<HASH>().ok_or_else(cut)?;
        // guard: the-nonce-is-the-one-committed-to
        if nonce_commitment(round, nonce) != self.nonce {
            let rule = "not the nonce that the coordinator committed to before vectors were shared";
            return Err(FaultKind::malformed("nonce", rule));
        }
        let (heads, pieces) = rest.split_at_checked(have * COMMITMENT).ok_or_else(cut)?;
        let mut commitments = BTreeMap::new();
        for (prover, head) in shared.iter().zip(heads.chunks_exact(COMMITMENT)) {
            let commitment = Commitment::read(head).ok_or_else(cut)?;
            if !commitment.is_of(round, prover) {
                return Err(FaultKind::BadSignature { signer: prover });
            }
            commitments.insert(prover, commitment);
        }
        if commitments.get(me).map(|own| own.root) != Some(own_root.hash) {
            let rule = "does not match this party's commitment";
            return Err(FaultKind::malformed("commitments", rule));
        }
        let expected = (have - 1) * PieceLayout::of(self.sharing.shape()).len();
        if pieces.len() != expected {
            let rule = format!("{} bytes, but {expected} are due", pieces.len());
            return Err(FaultKind::malformed("columns", rule));
        }
        let in_order: Vec<Commitment> = commitments.values().cloned().collect();
        Ok(Told {
            challenge: challenge(round, nonce, &shared, &in_order),
            shared,
            commitments,
            pieces,
        })
    }

    /// The column of a prover, if it can be used, and the seed of its projections. A piece that is not what the prover committed
    /// to was changed by the coordinator: nobody is accused then.
    fn open(
        &self,
        prover: PartyId,
        commitment: &Commitment,
        piece: &Piece<'_>,
    ) -> Result<Opened, Fault> {
        let ClientSetup { round, me, .. } = &*self.setup;
        let shape = self.sharing.shape();
        let root = piece.leaf.root(round, shape, (prover, *me), &piece.paths);
        // guard: columns-are-committed-to
        if root.hash != commitment.root {
            let rule = format!("does not match the commitment of {prover}");
            return Err(Fault::server(FaultKind::malformed("columns", rule)));
        }
        let key = self
            .peers
            .get(&prover)
            .ok_or(Fault::server(FaultKind::NotAMember))?;
        let (_, open) =
            seal_keys(&self.setup, &self.pair, prover, key, PURPOSE).map_err(Fault::server)?;
        let header = seal_header(round.context(), prover, *me);
        let opened = open.open(&header, piece.sealed).ok();
        let column = opened.filter(|opened| piece.leaf.is_of(shape, opened));
        Ok(Opened {
            column,
            committed: piece.leaf.column,
            seed: root.seed,
        })
    }

    /// What this party answers about everybody, and what it keeps of their columns.
    fn respond(&self, own_root: Root, told: &Told<'_>) -> Result<(Vec<u8>, Received), Fault> {
        let ClientSetup { round, me, .. } = &*self.setup;
        let sharing = &self.sharing;
        let layout = PieceLayout::of(sharing.shape());
        let questions = sharing.challenge(told.challenge);
        let mut pieces = told.pieces.chunks_exact(layout.len());
        let (mut unusable, mut answers) = (PartySet::empty(round.parties()), Vec::new());
        let mut received = Received::default();
        let behaviour = behaviour(&self.setup);
        for (&prover, commitment) in &told.commitments {
            let cut = || Fault::server(FaultKind::malformed("columns", "cut short"));
            let Opened {
                column,
                committed,
                seed,
            } = match prover == *me {
                true => Opened {
                    column: Some(self.own.clone()),
                    committed: [0; HASH],
                    seed: own_root.seed,
                },
                false => {
                    let piece = pieces
                        .next()
                        .and_then(|piece| layout.read(piece))
                        .ok_or_else(cut)?;
                    self.open(prover, commitment, &piece)?
                }
            };
            let column = column.as_ref().and_then(|opened| opened.get(SALT..));
            let answer = column.and_then(|column| {
                let answer = sharing.answer(&questions, me.rank(), column, seed);
                Some(sharing.write_answer(&answer.ok()?))
            });
            let answer = behaviour.edit_answer(*me, prover, answer);
            let words = column.and_then(|column| sharing.words_of(column).ok());
            let answer = answer.zip(words);
            match answer {
                Some((answer, words)) => {
                    answers.extend(answer);
                    received
                        .columns
                        .insert(prover, Zeroizing::new(words.to_vec()));
                }
                None => {
                    unusable.insert(prover);
                    answers.resize(answers.len() + sharing.answer_len(), 0);
                    received.unusable.insert(prover, committed);
                }
            }
        }
        let mut body = [unusable.as_bitmap(), &answers].concat();
        let said = response_bytes(round, *me, &told.challenge, &body);
        body.extend(self.setup.identity.sign(SIGN_RESPONSE, &said));
        Ok((body, received))
    }
}

impl ClientStage for AwaitColumns {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let own_root = self.dealt.trees(&self.setup, &self.sharing).root;
        let told = self.check(&own_root, body).map_err(Fault::server)?;
        let (response, received) = self.respond(own_root, &told)?;
        let (challenge, shared) = (told.challenge, told.shared);
        let Self {
            setup,
            sharing,
            dealt,
            ..
        } = *self;
        let next = AwaitVerdict {
            setup,
            sharing,
            dealt,
            shared,
            challenge,
            received,
            was_accused: false,
        };
        if !is_active(&next.setup.round) {
            return Ok(ClientStep::Send {
                body: response,
                next: Box::new(next),
            });
        }
        let said = challenge_bytes(&next.setup.round, &challenge);
        let signature = next.setup.identity.sign(SIGN_CHALLENGE, &said).into();
        let body = encode(Signed::NAME, &Signed { signature }).map_err(Fault::caller)?;
        Ok(ClientStep::Send {
            body,
            next: Box::new(AwaitChallenge { next, response }),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let writer = Writer::default()
            .bytes(self.pair.secret().expose())
            .bytes(&self.nonce)
            .bytes(&self.own);
        let writer = self.dealt.save(writer).number(self.peers.len() as u32);
        let writer = self.peers.iter().fold(writer, |writer, (party, key)| {
            writer.number(party.0).bytes(key.as_bytes())
        });
        Ok(Some(writer.finish()))
    }
}
