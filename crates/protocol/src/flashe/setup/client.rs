//! The parties' side of a key set-up.

use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_he::flashe::JobKey;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::messages::{Advert, Delivery, KEY_ID, KeyFor, Keys, PURPOSE, SealedKey};
use super::{key_ids, leader};
use crate::flashe::held::{HeldKey, delivered, key_id};
use crate::keys::{
    SeenKeys, check_keys, load_key, load_pair, seal_header, seal_keys, sign_keys, suite_of,
};
use crate::machine::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::result::split_survivors;
use crate::snapshot::{Reader, Writer};
use crate::vault::KeyName;
use crate::wire::{Bounded, ascending, encode};
use crate::{Fault, FaultKind, PartyId};

/// Advertises a fresh key, and the name of the key that the party holds.
pub(crate) fn start(
    setup: &Arc<ClientSetup>,
    _input: InputRef<'_, '_>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let pair = KeyPair::generate(suite_of(&setup.round), rng)
        .map_err(|e| Fault::caller(FaultKind::Input(e.to_string())))?;
    let held = usable_key(setup).map_err(Fault::caller)?;
    let signature = sign_keys(setup, &[pair.public().as_bytes()]);
    let message = Advert {
        key_id: held.map_or(Vec::new(), |id| id.to_vec()).into(),
        key: pair.public().as_bytes().to_vec().into(),
        signature: signature.into(),
    };
    let body = encode(Advert::NAME, &message).map_err(Fault::caller)?;
    let next = AwaitKeys {
        setup: setup.clone(),
        pair,
    };
    Ok(ClientStep::Send {
        body,
        next: Box::new(next),
    })
}

pub(crate) fn restore(
    setup: &Arc<ClientSetup>,
    stage: u8,
    state: &[u8],
) -> Result<Box<dyn ClientStage>, FaultKind> {
    let (setup, mut reader) = (setup.clone(), Reader::new(state));
    let restored: Box<dyn ClientStage> = match stage {
        1 => Box::new(AwaitDelivery {
            pair: load_pair(&setup, &mut reader)?,
            leader: reader.party()?,
            leader_key: load_key(&setup, &mut reader)?,
            setup,
        }),
        2 => Box::new(AwaitHolders { setup }),
        _ => return Err(FaultKind::Snapshot("of no stage of a key set-up".into())),
    };
    reader.end()?;
    Ok(restored)
}

/// The name of the key that the party holds for the round after this.
fn usable_key(setup: &ClientSetup) -> Result<Option<KeyName>, FaultKind> {
    let round = &setup.round;
    let next = round.number().saturating_add(1);
    key_id(round.job(), &*setup.vault, next)
}

/// The fresh key is out; everybody's come next.
struct AwaitKeys {
    setup: Arc<ClientSetup>,
    pair: KeyPair,
}

impl AwaitKeys {
    /// Everybody's fresh keys, every one checked, the own one as it was sent.
    fn check(&self, message: &Keys) -> Result<Vec<PublicKey>, FaultKind> {
        let ClientSetup { round, me, .. } = &*self.setup;
        if !ascending(message.entries.iter().map(|entry| entry.party)) {
            let rule = "parties must ascend, each listed once";
            return Err(FaultKind::malformed("keys", rule));
        }
        let (mut seen, mut keys, mut own) = (SeenKeys::default(), Vec::new(), false);
        for entry in &message.entries {
            let (party, advert) = (PartyId(entry.party), &entry.advert);
            if party.rank() >= round.parties() {
                let rule = format!("{party} is not in the roster");
                return Err(FaultKind::malformed("keys", rule));
            }
            check_key_id(advert)?;
            let sent = [advert.key.as_slice()];
            let [key] = check_keys(round, party, sent, advert.signature.as_slice())?;
            seen.add(party, [&key])?;
            own |= party == *me && key == *self.pair.public();
            keys.push(key);
        }
        if !own {
            let reason = "the server does not list the key that this party sent".into();
            return Err(FaultKind::BadKey { owner: *me, reason });
        }
        let (have, need) = (keys.len(), round.job().min_parties());
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        Ok(keys)
    }

    /// The leader's answer: its key, made here if nobody holds one, sealed to all who hold another or none.
    fn deliver(
        &self,
        message: &Keys,
        keys: &[PublicKey],
        rng: &mut dyn CryptoRng,
    ) -> Result<Delivery, FaultKind> {
        let ClientSetup {
            round, me, vault, ..
        } = &*self.setup;
        let number = round.number();
        let next = number.saturating_add(1);
        let held = HeldKey::load(&**vault)?.filter(|held| held.serves(round.job(), next));
        let held = match held {
            Some(held) => held,
            None => {
                let held = HeldKey::new(JobKey::generate(rng), number, number, &**vault)?;
                held.store(&**vault)?;
                held
            }
        };
        let (id, plaintext) = (held.key.id(), held.to_deliver());
        let mut sealed = Vec::new();
        for (entry, key) in message.entries.iter().zip(keys) {
            let party = PartyId(entry.party);
            if party == *me || entry.advert.key_id.as_slice() == id.0 {
                continue;
            }
            let (to, _) = seal_keys(&self.setup, &self.pair, party, key, PURPOSE)?;
            let header = seal_header(round.context(), *me, party);
            sealed.push(SealedKey {
                party: party.0,
                sealed: to.seal(&header, &plaintext).into(),
            });
        }
        Ok(Delivery { sealed })
    }
}

/// Refuses what is no name of a key.
pub(super) fn check_key_id(advert: &Advert) -> Result<(), FaultKind> {
    match advert.key_id.as_slice().len() {
        0 | KEY_ID => Ok(()),
        other => {
            let rule = format!("0 or {KEY_ID} bytes, not {other}");
            Err(FaultKind::malformed("key_id", rule))
        }
    }
}

impl ClientStage for AwaitKeys {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_, '_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let message = Keys::read(self.setup.round.parties(), body).map_err(Fault::server)?;
        let keys = self.check(&message).map_err(Fault::server)?;
        let (leader, _) = leader(&key_ids(&message))
            .ok_or_else(|| Fault::server(FaultKind::malformed("keys", "nobody is listed")))?;
        if leader == self.setup.me {
            let delivery = self.deliver(&message, &keys, rng).map_err(Fault::caller)?;
            let body = encode(Delivery::NAME, &delivery).map_err(Fault::caller)?;
            let own = self.pair.public().clone();
            let next = self.await_delivery(leader, own);
            return Ok(ClientStep::Send { body, next });
        }
        let listed = message.entries.iter().zip(keys);
        let of_leader = listed.filter(|(entry, _)| entry.party == leader.0);
        let leader_key = of_leader.map(|(_, key)| key).next().ok_or_else(|| {
            Fault::server(FaultKind::malformed("keys", "the leader is not listed"))
        })?;
        let next = self.await_delivery(leader, leader_key);
        Ok(ClientStep::Wait { next })
    }
}

impl AwaitKeys {
    fn await_delivery(self, leader: PartyId, leader_key: PublicKey) -> Box<AwaitDelivery> {
        let Self { setup, pair } = self;
        Box::new(AwaitDelivery {
            setup,
            pair,
            leader,
            leader_key,
        })
    }
}

/// The leader has everybody's fresh keys; the key of the job comes next, where it is lacking.
struct AwaitDelivery {
    setup: Arc<ClientSetup>,
    pair: KeyPair,
    leader: PartyId,
    leader_key: PublicKey,
}

impl AwaitDelivery {
    /// Opens the key and writes it down.
    fn take(&self, sealed: &[u8]) -> Result<(), Fault> {
        let ClientSetup {
            round, me, vault, ..
        } = &*self.setup;
        let from = self.leader;
        let (_, key) = seal_keys(&self.setup, &self.pair, from, &self.leader_key, PURPOSE)
            .map_err(Fault::server)?;
        let header = seal_header(round.context(), from, *me);
        let opened = key.open(&header, sealed);
        let opened = opened.map_err(|_| Fault::server_or(from, FaultKind::Sealed { from }))?;
        let number = round.number();
        let held =
            delivered(round.job(), &opened, number, &**vault).map_err(|kind| match kind {
                FaultKind::Vault(_) => Fault::caller(kind),
                _ => Fault::party(from, kind),
            })?;
        held.store(&**vault).map_err(Fault::caller)
    }
}

impl ClientStage for AwaitDelivery {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_, '_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let message = KeyFor::read(self.setup.round.parties(), body).map_err(Fault::server)?;
        if !message.sealed.as_slice().is_empty() {
            if self.leader == self.setup.me {
                let rule = "the leader is sent a key";
                return Err(Fault::server(FaultKind::malformed("delivery", rule)));
            }
            self.take(message.sealed.as_slice())?;
        }
        let tag = confirmation(&self.setup)?;
        let setup = self.setup;
        Ok(ClientStep::Send {
            body: tag.to_vec(),
            next: Box::new(AwaitHolders { setup }),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let writer = Writer::default().bytes(self.pair.secret().expose());
        let writer = writer.number(self.leader.0);
        Ok(Some(writer.bytes(self.leader_key.as_bytes()).finish()))
    }
}

/// What shows that the party holds the key, in this set-up.
fn confirmation(setup: &ClientSetup) -> Result<[u8; 32], Fault> {
    let held = HeldKey::load(&*setup.vault)
        .map_err(Fault::caller)?
        .ok_or(Fault::server(FaultKind::NoKey))?;
    Ok(held.key.confirmation(setup.round.context()))
}

/// The tag is out; who holds the key comes next.
struct AwaitHolders {
    setup: Arc<ClientSetup>,
}

impl ClientStage for AwaitHolders {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_, '_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let round = &self.setup.round;
        let (holders, tag) = split_survivors(round, body).map_err(Fault::server)?;
        let tag: &[u8; 32] = tag.try_into().map_err(|_| {
            let rule = format!("32 bytes, not {}", tag.len());
            Fault::server(FaultKind::malformed("tag", rule))
        })?;
        let held = HeldKey::load(&*self.setup.vault).map_err(Fault::caller)?;
        let same = held.is_some_and(|held| held.key.confirm(round.context(), tag).is_ok());
        if !same || !holders.contains(self.setup.me) {
            return Err(Fault::server(FaultKind::OtherKey));
        }
        Ok(ClientStep::KeyHeld(holders))
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(Zeroizing::default()))
    }
}
