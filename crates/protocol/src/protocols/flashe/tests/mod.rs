//! The protocol driven by hand: key set-ups and rounds with dropouts, and the abuse cases
//! (docs/security/cases.md).

mod laws;
mod parameters;
mod rounds;
mod setup;
mod sparse;

use std::collections::BTreeMap;

use blindsum_math::words::Words;

use crate::testing::{Rig, assert_ended, body, parties, restart, with_body};
use crate::{Answer, Fault, FaultKind, JobSpec, PartyId, PartySet, ProtocolName, RoundSum, Vault};

fn spec(parties: u32) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Flashe.into(),
        parties,
        min_parties: 2,
        dim: 101,
        ..JobSpec::default()
    }
}

/// Parties that hold the key, and their first round.
fn rig(spec: JobSpec) -> Rig {
    Rig::new(spec, 2)
}

/// Runs a key set-up to its end; gives who holds the key, as each party says.
fn hold(rig: &mut Rig) -> BTreeMap<PartyId, PartySet> {
    let mut holders = BTreeMap::new();
    while rig.outcome.is_none() {
        rig.serve().unwrap();
        let present = |party: &&PartyId| rig.clients.contains_key(party);
        for party in rig.down.keys().filter(present).copied().collect::<Vec<_>>() {
            match rig.answer(party).unwrap() {
                Answer::KeyHeld(set) => drop(holders.insert(party, set)),
                Answer::Send(_) | Answer::Wait => {}
                other => panic!("{other:?} in a key set-up"),
            }
        }
    }
    holders
}

/// Runs a round to its end; gives the sum, which must be the same for all survivors and theirs.
fn sum(rig: &mut Rig) -> Result<(Words, PartySet), Fault> {
    rig.serve()?;
    let outcome = rig.outcome.clone().unwrap();
    assert_eq!(outcome.sum, None);
    let survivors = outcome.survivors;
    assert_eq!(rig.down.len(), survivors.len());
    let sum = rig.cohort.sum_of(survivors.iter());
    let expected = RoundSum::dense(sum, survivors.clone());
    for party in survivors.iter() {
        match rig.answer(party)? {
            Answer::Done(sum) => assert_eq!(sum, expected),
            other => panic!("{other:?} instead of the sum"),
        }
    }
    Ok((expected.sum, survivors))
}

/// The key that a party holds for a round.
fn key_id(rig: &Rig, party: u32, round: u64) -> Option<[u8; 16]> {
    let vault = &*rig.cohort.vaults[party as usize];
    rig.cohort.round.job().held_key(vault, round).unwrap()
}

/// What a party's vault holds, to be put back later.
fn backup(rig: &Rig, party: u32) -> Vec<u8> {
    let kept = rig.cohort.vaults[party as usize].read().unwrap();
    kept.contents.unwrap().to_vec()
}
