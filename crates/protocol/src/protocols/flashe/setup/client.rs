//! The parties' side of a key set-up.

use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_he::flashe::JobKey;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::messages::{Advert, Delivery, KEY_ID, KeyFor, Keys, PURPOSE, SealedKey};
use super::{key_ids, leader};
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::core::vault::KeyName;
use crate::kit::advertise::fresh_pair;
use crate::kit::keys::{
    KeySignatures, SeenKeys, load_key, load_pair, parse_keys, seal_header, seal_keys,
};
use crate::kit::restore::Restored;
use crate::kit::result::split_survivors;
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::wire::{Bounded, check_ascending, encode};
use crate::protocols::flashe::held::{HeldKey, delivered, key_id};
use crate::{Fault, FaultKind, PartyId};

/// Advertises a fresh key, and the name of the key that the party holds.
pub(crate) fn start(
    setup: &Arc<ClientSetup>,
    _input: InputRef<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let pair = fresh_pair(setup, rng)?;
    let held = usable_key(setup).map_err(Fault::caller)?;
    let mut message = Advert {
        key_id: held.map_or(Vec::new(), |id| id.to_vec()).into(),
        key: pair.public().as_bytes().to_vec().into(),
        signature: Vec::new().into(),
    };
    message.signature = KeySignatures::IF_ACTIVE
        .sign(setup, &message.signed())
        .into();
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

pub(crate) fn restore(setup: &Arc<ClientSetup>, stage: &str, reader: &mut Reader<'_>) -> Restored {
    let setup = setup.clone();
    Ok(Some(match stage {
        "deliver-key" => Box::new(AwaitDelivery {
            pair: load_pair(&setup, reader)?,
            leader: reader.party()?,
            leader_key: load_key(&setup, reader)?,
            leader_holds: {
                let length = reader.length()?;
                reader.bytes(length)?.to_vec()
            },
            setup,
        }),
        "confirm-key" => Box::new(AwaitHolders { setup }),
        _ => return Ok(None),
    }))
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
    /// Everybody's fresh keys, the own one as it was sent.
    ///
    /// Of the signatures the own one is checked, which binds the name of the key that this party holds, and the
    /// leader's; the leader checks those of all that it seals to. Nobody relies on the others: the server can make
    /// somebody else the leader by hiding parties just as well as by changing what they say that they hold.
    fn check(&self, message: &Keys) -> Result<Vec<PublicKey>, FaultKind> {
        let ClientSetup { round, me, .. } = &*self.setup;
        check_ascending("keys", message.entries.iter().map(|entry| entry.party))?;
        let (mut seen, mut keys, mut own) = (SeenKeys::default(), Vec::new(), false);
        for entry in &message.entries {
            let (party, advert) = (PartyId(entry.party), &entry.advert);
            if party.rank() >= round.parties() {
                let rule = format!("{party} is not in the roster");
                return Err(FaultKind::malformed("keys", rule));
            }
            check_key_id(advert)?;
            let [key] = parse_keys(round, party, [advert.key.as_slice()])?;
            seen.add(party, [&key])?;
            if party == *me && key == *self.pair.public() {
                advert.check_signature(round, party)?;
                own = true;
            }
            keys.push(key);
        }
        // guard: flashe-own-fresh-key
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

    /// The leader's answer: its key, made here if it holds none, sealed to all who hold another or none.
    ///
    /// # Errors
    /// The server's, if one of those did not sign its fresh key; no key is made then.
    fn deliver(
        &self,
        message: &Keys,
        keys: &[PublicKey],
        rng: &mut dyn CryptoRng,
    ) -> Result<Delivery, Fault> {
        let ClientSetup {
            round, me, vault, ..
        } = &*self.setup;
        let number = round.number();
        let next = number.saturating_add(1);
        let held = HeldKey::load(&**vault).map_err(Fault::caller)?;
        let held = held.filter(|held| held.serves(round.job(), next));
        let name = held.as_ref().map(|held| held.key.id().0);
        let listed = message.entries.iter().zip(keys);
        let lacking = listed.filter(|(entry, _)| {
            let names = entry.advert.key_id.as_slice();
            entry.party != me.0 && name.is_none_or(|name| name != names)
        });
        let mut receivers = Vec::new();
        for (entry, key) in lacking {
            let party = PartyId(entry.party);
            let signed = entry.advert.check_signature(round, party);
            signed.map_err(Fault::server)?;
            receivers.push((party, key));
        }
        let held = match held {
            Some(held) => held,
            None => HeldKey::new(JobKey::generate(rng), number, number, &**vault)
                .and_then(|made| made.store(&**vault).map(|()| made))
                .map_err(Fault::caller)?,
        };
        let plaintext = held.to_deliver();
        let seal = |(party, key): (PartyId, &PublicKey)| {
            let (to, _) = seal_keys(&self.setup, &self.pair, party, key, PURPOSE)?;
            let header = seal_header(round.context(), *me, party);
            let sealed = to.seal(&header, &plaintext).into();
            let party = party.0;
            Ok(SealedKey { party, sealed })
        };
        let sealed: Result<_, FaultKind> = receivers.into_iter().map(seal).collect();
        sealed
            .map(|sealed| Delivery { sealed })
            .map_err(Fault::server)
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
        _input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let message = Keys::read(self.setup.round.parties(), body).map_err(Fault::server)?;
        let keys = self.check(&message).map_err(Fault::server)?;
        let (leader, _) = leader(&key_ids(&message))
            .ok_or_else(|| Fault::server(FaultKind::malformed("keys", "the list is empty")))?;
        let listed = message.entries.iter().zip(&keys);
        let mut of_leader = listed.filter(|(entry, _)| entry.party == leader.0);
        let (entry, leader_key) = of_leader.next().ok_or_else(|| {
            Fault::server(FaultKind::malformed("keys", "the leader is not listed"))
        })?;
        let delivery = match leader == self.setup.me {
            true => Some(self.deliver(&message, &keys, rng)?),
            false => {
                let signed = entry.advert.check_signature(&self.setup.round, leader);
                signed.map_err(Fault::server)?;
                None
            }
        };
        let next = Box::new(AwaitDelivery {
            leader,
            leader_key: leader_key.clone(),
            leader_holds: entry.advert.key_id.as_slice().to_vec(),
            setup: self.setup,
            pair: self.pair,
        });
        Ok(match delivery {
            Some(delivery) => ClientStep::Send {
                body: encode(Delivery::NAME, &delivery).map_err(Fault::caller)?,
                next,
            },
            None => ClientStep::Wait { next },
        })
    }
}

/// The leader has everybody's fresh keys; the key of the job comes next, where it is lacking.
struct AwaitDelivery {
    setup: Arc<ClientSetup>,
    pair: KeyPair,
    leader: PartyId,
    leader_key: PublicKey,
    /// The name of the key that the leader said, and signed, that it holds; empty if it makes one.
    leader_holds: Vec<u8>,
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
        let opened = opened
            .map_err(|_| Fault::server_or(from, FaultKind::Sealed { from }).shown_by(sealed))?;
        let number = round.number();
        let held =
            delivered(round.job(), &opened, number, &**vault).map_err(|kind| match kind {
                FaultKind::Vault(_) => Fault::caller(kind),
                _ => Fault::party(from, kind),
            })?;
        let promised = &self.leader_holds;
        if !promised.is_empty() && *promised != held.key.id().0 {
            return Err(Fault::party(from, FaultKind::OtherKey));
        }
        held.store(&**vault).map_err(Fault::caller)
    }
}

impl ClientStage for AwaitDelivery {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let message = KeyFor::read(self.setup.round.parties(), body).map_err(Fault::server)?;
        if !message.sealed.as_slice().is_empty() {
            // guard: flashe-keys-are-not-sent-to-the-leader
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
        let writer = writer.bytes(self.leader_key.as_bytes());
        let writer = writer.length(self.leader_holds.len());
        Ok(Some(writer.bytes(&self.leader_holds).finish()))
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
        _input: InputRef<'_>,
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
