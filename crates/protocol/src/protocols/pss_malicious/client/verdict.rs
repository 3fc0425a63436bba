//! This party has answered: it may be accused, and shows what it dealt then; or it hears whose vectors are summed, and adds
//! up their columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::merkle::Hash;
use blindsum_sharing::validity::ValiditySharing;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::dealt::Dealt;
use super::misbehaviour::behaviour;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::confirmed_sum::send_sum;
use crate::kit::result::{load_survivors, split_survivors};
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::wire::PARTY;
use crate::protocols::pss_malicious::commitments::Leaf;
use crate::protocols::pss_malicious::messages::{ACCUSED, JUDGED, Response, SALT, response_len};
use crate::{Fault, FaultKind, PartyId, PartySet, SurvivorListError};

/// What a party keeps of the columns that it was dealt.
#[derive(Default)]
pub(super) struct Received {
    /// The shares of each prover's words.
    pub columns: BTreeMap<PartyId, Zeroizing<Vec<u8>>>,
    /// Provers whose column is unusable, and what they committed to.
    pub unusable: BTreeMap<PartyId, Hash>,
}

pub(super) struct AwaitVerdict {
    pub setup: Arc<ClientSetup>,
    pub sharing: Arc<ValiditySharing>,
    pub dealt: Dealt,
    /// U1.
    pub shared: PartySet,
    pub challenge: Hash,
    pub received: Received,
    /// Whether this party has shown columns already: it does so once.
    pub was_accused: bool,
}

impl AwaitVerdict {
    pub fn load(
        setup: Arc<ClientSetup>,
        sharing: Arc<ValiditySharing>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let dealt = Dealt::load(&setup, &sharing, reader)?;
        let shared = load_survivors(&setup, reader)?;
        let challenge = reader.array()?;
        let was_accused = reader.byte()? == 1;
        let unusable = load_survivors(&setup, reader)?;
        let mut received = Received::default();
        for prover in shared.iter() {
            if unusable.contains(prover) {
                received.unusable.insert(prover, reader.array()?);
            } else {
                let column = reader.bytes(sharing.words().column_len())?;
                received
                    .columns
                    .insert(prover, Zeroizing::new(column.to_vec()));
            }
        }
        Ok(Self {
            setup,
            sharing,
            dealt,
            shared,
            challenge,
            received,
            was_accused,
        })
    }

    pub fn write(&self) -> Writer {
        let unusable = self.received.unusable.keys().copied();
        let unusable = PartySet::of(self.setup.round.parties(), unusable);
        let writer = (self.dealt.save(Writer::default()))
            .bytes(self.shared.as_bitmap())
            .bytes(&self.challenge)
            // guard: accused-once-also-after-a-restart
            .bytes(&[self.was_accused.into()])
            .bytes(unusable.as_bitmap());
        self.shared.iter().fold(writer, |writer, prover| {
            let hash = self.received.unusable.get(&prover);
            let column = self.received.columns.get(&prover);
            writer
                .bytes(hash.map_or(&[], |hash| hash))
                .bytes(column.map_or(&[], |column| column))
        })
    }

    /// Shows the columns of those who accuse this party. Each accusation is signed, and says that the column cannot be
    /// used, or is answered with something else than the column gives: what is shown is known to liars only, or to nobody
    /// whom it would tell anything.
    fn show(&self, accusations: &[u8]) -> Result<Vec<u8>, Fault> {
        let malformed = |rule: String| Fault::server(FaultKind::malformed("accusations", rule));
        let ClientSetup { round, me, .. } = &*self.setup;
        let sharing = &self.sharing;
        let each = PARTY + response_len(sharing.shape(), self.shared.len());
        let place = self
            .shared
            .iter()
            .position(|party| party == *me)
            .unwrap_or_default();
        let mut accusers: Vec<(PartyId, Option<Vec<u8>>)> = Vec::new();
        let accusations = accusations.chunks(each);
        for accusation in accusations {
            let (rank, response) = (accusation.split_first_chunk::<PARTY>())
                .ok_or_else(|| malformed("cut short".into()))?;
            let accuser = PartyId(u32::from_be_bytes(*rank));
            let ascends = accusers.last().is_none_or(|(last, _)| *last < accuser);
            if !ascends || accuser == *me || !self.shared.contains(accuser) {
                return Err(malformed(format!(
                    "{accuser} is no party that may accuse, or occurs twice"
                )));
            }
            let of = (&self.shared, &self.challenge);
            let response =
                Response::read(round, sharing, of, accuser, response).map_err(Fault::server)?;
            let answer = match response.unusable.contains(*me) {
                true => None,
                false => response.answers.get(place).map(|answer| answer.to_vec()),
            };
            accusers.push((accuser, answer));
        }
        if accusers.is_empty() {
            return Err(malformed("the list of accusers is empty".into()));
        }
        // More would be guilty themselves, or show that more lie than this round withstands.
        let most = sharing.parameters().corrupt();
        // guard: so-many-accuse-at-most
        if accusers.len() > most {
            return Err(malformed(format!(
                "{} accuse, but at most {most} may",
                accusers.len()
            )));
        }
        let parties: Vec<PartyId> = accusers.iter().map(|(accuser, _)| *accuser).collect();
        let shown = self
            .dealt
            .show(&self.setup, sharing, &parties)
            .map_err(Fault::caller)?;
        let questions = sharing.challenge(self.challenge);
        let seed = self.dealt.trees(&self.setup, sharing).root.seed;
        let is_protected = behaviour(&self.setup).protects_honest_verifiers();
        for ((accuser, answer), shown) in accusers.iter().zip(&shown) {
            let Some(answer) = answer else { continue };
            let column = shown
                .get(SALT..SALT + sharing.column_len())
                .unwrap_or_default();
            let right = sharing.answer(&questions, accuser.rank(), column, seed);
            let right = right.map_err(|error| Fault::caller(error.into()))?;
            // guard: columns-of-liars-alone-are-shown
            if sharing.write_answer(&right) == *answer && is_protected {
                return Err(malformed(format!("{accuser} has answered rightly")));
            }
        }
        let bytes: Vec<&[u8]> = shown.iter().map(|shown| shown.as_slice()).collect();
        Ok(bytes.concat())
    }

    /// The set of those whose vectors are summed (U2), and columns that could not be used before.
    fn judged(&mut self, body: &[u8]) -> Result<PartySet, Fault> {
        let round = self.setup.round.clone();
        let bad = |error| Fault::server(FaultKind::BadSurvivorList(error));
        let malformed = |rule: String| Fault::server(FaultKind::malformed("columns", rule));
        let (survivors, columns) = split_survivors(&round, body).map_err(Fault::server)?;
        if !survivors.contains(self.setup.me) {
            return Err(bad(SurvivorListError::SelfDropped));
        }
        if let Some(party) = survivors.iter().find(|party| !self.shared.contains(*party)) {
            return Err(bad(SurvivorListError::Revived(party)));
        }
        for shown in columns.chunks(PARTY + SALT + self.sharing.column_len()) {
            let (rank, salted) = shown
                .split_first_chunk::<PARTY>()
                .ok_or_else(|| malformed("cut short".into()))?;
            let prover = PartyId(u32::from_be_bytes(*rank));
            let mut leaf = Leaf::default();
            leaf.note_column(salted);
            if self.received.unusable.remove(&prover) != Some(leaf.column) {
                return Err(malformed(format!(
                    "does not match the commitment of {prover}"
                )));
            }
            let column = salted.get(SALT..).unwrap_or_default();
            let words = (self.sharing.check_column(column))
                .and_then(|()| self.sharing.words_of(column))
                .map_err(|error| malformed(error.to_string()))?;
            self.received
                .columns
                .insert(prover, Zeroizing::new(words.to_vec()));
        }
        Ok(survivors)
    }

    fn add_up(&self, survivors: &PartySet) -> Result<Vec<u8>, Fault> {
        let words = self.sharing.words();
        let mut sum = words.zero_column();
        for prover in survivors.iter() {
            let lacks = || {
                let rule = format!("this party has no usable share vector of {prover}");
                Fault::server(FaultKind::malformed("columns", rule))
            };
            let column = self.received.columns.get(&prover).ok_or_else(lacks)?;
            let added = words.add(&mut sum, column);
            added.map_err(|error| Fault::caller(error.into()))?;
        }
        Ok(words.pack(&sum))
    }
}

impl ClientStage for AwaitVerdict {
    fn answer(
        mut self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let rest = match body.split_first() {
            // guard: columns-are-shown-once
            Some((&ACCUSED, accusations)) if !self.was_accused => {
                let body = self.show(accusations)?;
                self.was_accused = true;
                return Ok(match behaviour(&self.setup).shows_columns() {
                    true => ClientStep::Send { body, next: self },
                    false => ClientStep::Wait { next: self },
                });
            }
            Some((&JUDGED, rest)) => rest,
            _ => {
                let rule = "neither accusations, once at most, nor a verdict";
                return Err(Fault::server(FaultKind::malformed("verdict", rule)));
            }
        };
        let survivors = self.judged(rest)?;
        self.setup.allow(&survivors)?;
        let mut sum = self.add_up(&survivors)?;
        behaviour(&self.setup).edit_sum(&mut sum);
        let Self { setup, sharing, .. } = *self;
        let quorum = sharing.parameters().quorum();
        send_sum(setup, survivors, sum, quorum)
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(self.write().finish()))
    }
}
