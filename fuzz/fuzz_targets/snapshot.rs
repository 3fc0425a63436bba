//! Snapshots: whatever is sealed under the right key is a client or an error, and that client answers anything
//! without a panic.
#![no_main]

use arbitrary::Arbitrary;
use blindsum_fuzz::testing::Given;
use blindsum_fuzz::{Edit, edited, framed, storage_key, transcript};
use blindsum_protocol::{Client, PartyId};
use libfuzzer_sys::fuzz_target;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

#[derive(Arbitrary, Debug)]
struct Case {
    round: u8,
    stage: u8,
    snapshot: Vec<Edit>,
    said: Vec<Edit>,
}

fuzz_target!(|case: Case| {
    let transcript = transcript(case.round);
    let stage = usize::from(case.stage) % transcript.stages();
    let (key, me) = (storage_key(), PartyId(0));
    let context = transcript.cohort.round.context();
    let header = [
        b"blindsum snapshot" as &[u8],
        &context.0,
        &me.0.to_be_bytes(),
    ]
    .concat();
    let Some(snapshot) = &transcript.snapshots[stage] else {
        return;
    };
    let honest = key.open(&header, snapshot).expect("its own snapshot");
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let sealed = key.seal(&header, &edited(&honest, &case.snapshot), &mut rng);
    let setup = transcript.setup(&transcript.vault(stage));
    let Ok(mut client) = Client::unseal(setup, &key, &sealed) else {
        return;
    };
    let message = &transcript.down[stage][&me];
    let message = framed(
        message,
        client.heard(),
        &edited(&message[blindsum_fuzz::HEADER..], &case.said),
    );
    let input = Given(&transcript.cohort.inputs[0]);
    let _ = client.answer(&message, Some(&input), &mut rng);
    let _ = client.seal(&key, &mut rng);
});
