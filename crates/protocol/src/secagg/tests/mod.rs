//! The protocol driven by hand: rounds with dropouts, and the abuse cases (docs/security/cases.md).

mod dropouts;
mod isolation;
mod keys;
mod laws;
mod replay;
mod rollback;
mod secrets;
mod strangers;
mod survivors;

use crate::testing::Rig;
use crate::{Adversary, Client, ClientSetup, FaultKind, JobSpec, Message, PartyId, ProtocolName};

/// Stage numbers of the active variant.
const SHARE_KEYS: u8 = 1;
const MASKED_INPUT: u8 = 2;
const CONSISTENCY: u8 = 3;
const UNMASK: u8 = 4;

fn spec(protocol: ProtocolName, adversary: Adversary, parties: u32) -> JobSpec {
    JobSpec {
        protocol,
        adversary,
        parties,
        dim: 100,
        ..JobSpec::default()
    }
}

fn active(parties: u32) -> JobSpec {
    spec(ProtocolName::SecAgg, Adversary::Active, parties)
}

fn parties(ranks: impl IntoIterator<Item = u32>) -> impl Iterator<Item = PartyId> {
    ranks.into_iter().map(PartyId)
}

/// The message with another body.
fn with_body(message: &Message, body: &[u8]) -> Message {
    [&message[..crate::wire::HEADER], body].concat().into()
}

fn body(message: &Message) -> &[u8] {
    &message[crate::wire::HEADER..]
}

/// The client that failed says nothing more: the round is burnt for it.
fn assert_ended(rig: &mut Rig, party: PartyId) {
    let message = rig.down[&party].clone();
    assert_eq!(
        rig.answer_to(party, &message).unwrap_err().kind,
        FaultKind::Ended
    );
}

fn storage_key() -> blindsum_crypto::seal::StorageKey {
    blindsum_crypto::secret::Secret::from([3; 32]).into()
}

/// Seals and restores a client, as a process that was killed would.
fn restart(rig: &mut Rig, party: PartyId) {
    let key = storage_key();
    let sealed = rig.clients[&party].seal(&key, &mut rig.rng).unwrap();
    let setup: ClientSetup = rig.cohort.setup(party);
    rig.clients
        .insert(party, Client::unseal(setup, &key, &sealed).unwrap());
}
