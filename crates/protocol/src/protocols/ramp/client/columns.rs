//! Stage 2: the others' columns come and are added up. The sum goes out, if active only once the set of
//! those who shared is confirmed.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_crypto::seal::SealKey;
use blindsum_sharing::ramp::{ColumnSum, RampSharing};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::confirmed_sum::send_sum;
use crate::kit::keys::{load_key, load_pair, seal_header, seal_keys};
use crate::kit::snapshot::{Reader, Writer};
use crate::protocols::ramp::messages::{PURPOSE, sealed_len};
use crate::protocols::ramp::required_inputs;
use crate::{Fault, FaultKind, PartyId, PartySet, SurvivorListError};

/// Columns are out; those of the others come next.
pub(super) struct AwaitColumns {
    pub setup: Arc<ClientSetup>,
    pub sharing: Arc<RampSharing>,
    pub pair: KeyPair,
    /// Everybody else who advertised a key (U0).
    pub peers: BTreeMap<PartyId, PublicKey>,
    /// The key of the one column from each of them.
    pub opening: BTreeMap<PartyId, SealKey>,
    /// This party's share of its own vector, packed.
    pub own: Zeroizing<Vec<u8>>,
}

impl AwaitColumns {
    pub fn load(
        setup: Arc<ClientSetup>,
        sharing: Arc<RampSharing>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let pair = load_pair(&setup, reader)?;
        let own = Zeroizing::new(reader.bytes(sharing.column_len())?.to_vec());
        let (mut peers, mut opening) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..reader.number()? {
            let party = reader.party()?;
            let key = load_key(&setup, reader)?;
            opening.insert(party, seal_keys(&setup, &pair, party, &key, PURPOSE)?.1);
            peers.insert(party, key);
        }
        Ok(Self {
            setup,
            sharing,
            pair,
            peers,
            opening,
            own,
        })
    }

    /// Who shared (U1), if an honest server could say so, and their columns.
    fn check<'a>(&self, body: &'a [u8]) -> Result<(PartySet, &'a [u8]), FaultKind> {
        let ClientSetup { round, me, .. } = &*self.setup;
        let bad = FaultKind::BadSurvivorList;
        let (bitmap, columns) = body
            .split_at_checked(round.parties().div_ceil(8))
            .ok_or_else(|| FaultKind::malformed("survivors", "the bitmap is cut short"))?;
        let survivors = PartySet::from_bitmap(round.parties(), bitmap)
            .ok_or(bad(SurvivorListError::OutsideRoster))?;
        // guard: ramp-set-has-the-receiver
        if !survivors.contains(*me) {
            return Err(bad(SurvivorListError::SelfDropped));
        }
        let strange = |party: &PartyId| party != me && !self.peers.contains_key(party);
        // guard: ramp-set-revives-nobody
        if let Some(party) = survivors.iter().find(strange) {
            return Err(bad(SurvivorListError::Revived(party)));
        }
        let (have, need) = (survivors.len(), required_inputs(round, &self.sharing));
        // guard: ramp-set-is-large-enough
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        let expected = (have - 1) * sealed_len(self.sharing.column_len());
        // guard: ramp-columns-of-their-length
        if columns.len() != expected {
            let rule = format!("{} bytes, but {expected} are due", columns.len());
            return Err(FaultKind::malformed("columns", rule));
        }
        Ok((survivors, columns))
    }

    /// Opens every column and adds it up. One that does not open ends this party's round: its sum would be
    /// of other parties than those of the rest.
    fn add_up(&mut self, survivors: &PartySet, columns: &[u8]) -> Result<ColumnSum, Fault> {
        let me = self.setup.me;
        let context = self.setup.round.context();
        let mut sum = self.sharing.zero_column();
        self.sharing
            .add(&mut sum, &self.own)
            .map_err(|e| Fault::caller(FaultKind::Snapshot(e.to_string())))?;
        // One buffer for all: a column is opened where the one before it was, and is still in the cache when it is
        // added.
        let mut column = Zeroizing::new(vec![0; self.sharing.column_len()]);
        let senders = survivors.iter().filter(|&party| party != me);
        let columns = columns.chunks_exact(sealed_len(self.sharing.column_len()));
        for (from, sealed) in senders.zip(columns) {
            let damaged = || Fault::server_or(from, FaultKind::Sealed { from }).shown_by(sealed);
            self.opening
                .remove(&from)
                .and_then(|key| {
                    let header = seal_header(context, from, me);
                    // guard: ramp-columns-by-their-sender
                    key.open_into(&header, sealed, &mut column).ok()
                })
                .ok_or_else(damaged)?;
            // What opens was sealed by the sender, so that it alone can have made it wrong.
            self.sharing
                .add(&mut sum, &column)
                .map_err(|e| Fault::party(from, FaultKind::malformed("column", e.to_string())))?;
        }
        Ok(sum)
    }
}

impl ClientStage for AwaitColumns {
    fn answer(
        mut self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let (survivors, columns) = self.check(body).map_err(Fault::server)?;
        // guard: ramp-asks-about-survivors
        self.setup.allow(&survivors)?;
        let sum = self.add_up(&survivors, columns)?;
        let sum = self.sharing.pack(&sum);
        let quorum = self.sharing.parameters().quorum();
        send_sum(self.setup, survivors, sum, quorum)
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let writer = Writer::default()
            .bytes(self.pair.secret().expose())
            .bytes(&self.own)
            .number(self.peers.len() as u32);
        let writer = self.peers.iter().fold(writer, |writer, (party, key)| {
            writer.number(party.0).bytes(key.as_bytes())
        });
        Ok(Some(writer.finish()))
    }
}
