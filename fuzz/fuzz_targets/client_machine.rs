//! The client: any bodies behind valid frames, at every stage. It never answers two different messages of one
//! stage, and nothing at all after a fault. Where only parties learn the sum, none takes another than the exact one.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use blindsum_fuzz::testing::Given;
use blindsum_fuzz::{Edit, HEADER, edited, framed, storage_key, transcript};
use blindsum_protocol::{Answer, Client, FaultKind, PartyId};
use libfuzzer_sys::fuzz_target;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

#[derive(Arbitrary, Debug)]
struct Case {
    round: u8,
    stage: u8,
    messages: Vec<Said>,
}

/// A message of the server: that of an honest one in some stage, edited.
#[derive(Arbitrary, Debug)]
struct Said {
    stage: u8,
    /// Whose message it is.
    of: u8,
    edits: Vec<Edit>,
    restart: bool,
}

fuzz_target!(|case: Case| {
    let transcript = transcript(case.round);
    let key = storage_key();
    let stages = transcript.stages();
    let stage = usize::from(case.stage) % stages;
    let (mut client, vault) = transcript.client(stage);
    let unseal = |sealed: &[u8]| {
        Client::unseal(transcript.setup(&vault), &key, sealed).expect("its own snapshot")
    };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut answers = BTreeMap::new();
    let mut ended = false;
    for said in case.messages.iter().take(6) {
        let stage = usize::from(said.stage) % stages;
        let of = PartyId(u32::from(said.of) % 5);
        let honest = &transcript.down[stage][&of];
        let message = framed(honest, stage as u8, &edited(&honest[HEADER..], &said.edits));
        let input = Given(&transcript.cohort.inputs[0]);
        match client.answer(&message, Some(&input), &mut rng) {
            Ok(Answer::Send(answer)) => {
                assert!(!ended, "an answer after a fault");
                let before = answers.insert(answer[1], answer.clone());
                assert!(
                    before.is_none_or(|before| before == answer),
                    "two answers of one stage"
                );
            }
            Ok(Answer::Done(result)) if transcript.cohort.round.job().hides_sum() => {
                assert!(!ended);
                let cohort = &transcript.cohort;
                let least = cohort.round.job().spec().least_contributors();
                assert_eq!(result, cohort.opened(&result.survivors, least));
            }
            Ok(_) => assert!(!ended),
            Err(fault) => {
                assert!(!ended || fault.kind == FaultKind::Ended);
                ended = true;
            }
        }
        if said.restart
            && let Ok(Some(sealed)) = client.seal(&key, &mut rng)
        {
            client = unseal(&sealed);
        }
    }
});
