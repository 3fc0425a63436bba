//! Messages that nobody may accept.

use std::sync::Arc;

use blindsum_protocol::{FaultKind, PartyId, Receipt, Round};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{Hex, load};
use crate::transcript::{Given, Transcript};

/// Messages of one round, changed a little: nobody takes them.
#[derive(Deserialize)]
struct Refused {
    round: usize,
    party: u32,
    stages: Vec<RefusedStage>,
}

#[derive(Deserialize)]
struct RefusedStage {
    up: Vec<Changed>,
    down: Vec<Changed>,
}

#[derive(Deserialize)]
struct Changed {
    why: String,
    message: Hex,
}

/// Checks all of them in a file of rounds.
pub fn check(file: &str) {
    let whole: Value = serde_json::from_str(file).unwrap();
    let Refused {
        round,
        party,
        stages,
    } = serde_json::from_value(whole["refused"].clone()).unwrap();
    let transcript = load::<Transcript>(file, "rounds").swap_remove(round);
    let round = transcript.round();
    assert_eq!(stages.len(), transcript.stages.len());
    for (at, stage) in stages.iter().enumerate() {
        for changed in &stage.up {
            check_server(&transcript, &round, at, PartyId(party), changed);
        }
        for changed in &stage.down {
            check_client(&transcript, &round, at, party, changed);
        }
    }
}

/// It costs nobody anything: the right message is taken still.
fn check_server(
    transcript: &Transcript,
    round: &Arc<Round>,
    stage: usize,
    party: PartyId,
    Changed { why, message }: &Changed,
) {
    let mut server = transcript.server_in(round, stage);
    let refused = server.receive(party, &message.0);
    assert!(refused.is_err(), "stage {stage}, up: {why}");
    let right = server.receive(party, &transcript.stages[stage].up[&party.0].0);
    assert_eq!(right, Ok(Receipt::Taken), "stage {stage}, up, after: {why}");
}

/// It ends the party's round: nothing more is said.
fn check_client(
    transcript: &Transcript,
    round: &Arc<Round>,
    stage: usize,
    party: u32,
    Changed { why, message }: &Changed,
) {
    let mut clients = transcript.start(round);
    (0..stage).for_each(|before| transcript.answer(before, &mut clients));
    let (client, tape) = clients.get_mut(&party).unwrap();
    let words = Given(&transcript.parties[party as usize].words);
    let refused = client.answer(&message.0, Some(&words), tape);
    assert!(refused.is_err(), "stage {stage}, down: {why}");
    let right = &transcript.stages[stage].down[&party].0;
    let ended = client.answer(right, Some(&words), tape).unwrap_err();
    assert_eq!(
        ended.kind,
        FaultKind::Ended,
        "stage {stage}, down, after: {why}"
    );
}
