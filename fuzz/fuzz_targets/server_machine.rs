//! The server: any bodies behind valid frames, from anybody, at every stage. If it refused all of them, the
//! honest parties finish with the exact sum.
#![no_main]

use arbitrary::Arbitrary;
use blindsum_fuzz::{Edit, HEADER, edited, framed, transcript};
use blindsum_protocol::{Closed, PartyId, Receipt, Server};
use libfuzzer_sys::fuzz_target;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

#[derive(Arbitrary, Debug)]
struct Case {
    round: u8,
    /// In which stage they are sent.
    stage: u8,
    messages: Vec<Said>,
}

/// A message of a party: that of an honest one in some stage, edited.
#[derive(Arbitrary, Debug)]
struct Said {
    from: u8,
    of: u8,
    stage: u8,
    edits: Vec<Edit>,
}

fuzz_target!(|case: Case| {
    let transcript = transcript(case.round);
    let stages = transcript.stages();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut server =
        Server::start(transcript.cohort.round.clone()).expect("the round has parameters");
    let mut all_refused = true;
    for stage in 0..stages {
        if stage == usize::from(case.stage) % stages {
            for said in case.messages.iter().take(6) {
                let of = usize::from(said.stage) % stages;
                let (from, owner) = (
                    PartyId(u32::from(said.from) % 6),
                    PartyId(u32::from(said.of) % 5),
                );
                // Not everybody has something to say in every stage.
                let Some(honest) = transcript.up[of].get(&owner) else {
                    continue;
                };
                let message = framed(honest, of as u8, &edited(&honest[HEADER..], &said.edits));
                let own = transcript.up.get(of).and_then(|up| up.get(&from));
                let is_own = own.is_some_and(|own| own == &message[..]);
                let received = server.receive(from, &message);
                all_refused &= is_own || !matches!(received, Ok(Receipt::Taken));
            }
        }
        for (&party, message) in &transcript.up[stage] {
            let received = server.receive(party, message);
            assert!(
                received.is_ok() || !all_refused,
                "an honest message was refused: {received:?}"
            );
        }
        match server.close(&mut rng) {
            Ok(Closed::Next { server: next, .. }) => server = next,
            Ok(Closed::Done { outcome, .. }) => {
                if all_refused {
                    assert_eq!(outcome.sum, transcript.outcome.sum);
                    assert_eq!(outcome.survivors, transcript.outcome.survivors);
                }
                assert!(outcome.faults.len() <= 5 * 6 + 5 * 5);
                return;
            }
            Err(fault) => {
                assert!(!all_refused, "{fault}");
                return;
            }
        }
    }
});
