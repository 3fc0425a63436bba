//! Case 41: nothing that can be printed shows a secret.

use std::fmt::{Debug, Write};

use super::*;

/// What a program could log.
#[derive(Default)]
struct Log(String);

impl Log {
    fn print(&mut self, what: &dyn Debug) {
        write!(self.0, "{what:?} {what:#?} ").unwrap();
    }

    /// Bytes are printed as a list, as digits, as text, and as a list with a line each.
    fn lacks(&self, what: &str, bytes: &[u8]) {
        let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("{:?}", Message::copy_from_slice(bytes));
        let text = text.trim_start_matches('b').trim_matches('"').to_owned();
        for form in [
            list.join(", "),
            hex.concat(),
            hex.concat().to_uppercase(),
            text,
        ] {
            assert!(!self.0.contains(&form), "{what} is in the log");
        }
        let stripped: String = self.0.split_whitespace().collect();
        assert!(!stripped.contains(&list.join(",")), "{what} is in the log");
    }
}

/// A round of `spec` in which everything that can be printed is, with faults of both sides; and the messages
/// that parties sent.
fn logged_round(spec: &JobSpec) -> (Rig, Log, Vec<Message>) {
    let (mut log, mut sent) = (Log::default(), Vec::new());
    let mut rig = Rig::new(spec.clone(), 7);
    log.print(rig.cohort.round.job());
    log.print(rig.cohort.round.roster());
    while rig.outcome.is_none() {
        let server = rig.server.as_mut().unwrap();
        log.print(&server.waiting());
        for (party, message) in &rig.up {
            let garbled = [message, &b"!"[..]].concat();
            let fault = server.receive(*party, &garbled).unwrap_err();
            log.print(&fault);
            log.print(&fault.to_string());
        }
        sent.extend(rig.up.values().cloned());
        rig.serve().unwrap();
        for party in rig.down.keys().copied().collect::<Vec<_>>() {
            let answer = rig.answer(party).unwrap();
            log.print(&answer);
        }
    }
    log.print(&rig.outcome);
    for stage in 0..spec.clone().validate().unwrap().plan().answers().count() as u8 {
        let mut rig = Rig::at(spec.clone(), stage);
        rig.serve().unwrap();
        for (party, message) in rig.down.clone() {
            let fault = rig
                .answer_to(party, &[&message[..], &[0]].concat())
                .unwrap_err();
            log.print(&fault);
            log.print(&fault.to_string());
        }
    }
    (rig, log, sent)
}

/// Vectors, masked or not, shares and the words of the sum stay out of logs. Keys are public.
#[test]
fn case_41_nothing_printed_shows_a_secret() {
    for protocol in ProtocolName::ALL {
        let (rig, log, sent) = logged_round(&spec(*protocol, Adversary::Active, 6));
        let sum = rig
            .cohort
            .sum_of(rig.outcome.as_ref().unwrap().survivors.iter());
        for words in rig.cohort.inputs.iter().chain([&sum]) {
            log.lacks("a vector", &words.pack()[..6]);
            let values: Vec<String> = words.iter().take(3).map(|word| word.to_string()).collect();
            assert!(!log.0.contains(&values.join(", ")), "words are in the log");
        }
        for message in sent {
            let body = body(&message);
            log.lacks("a message", &body[body.len() / 2..][..6]);
        }
        assert!(log.0.contains("malformed"), "the log has faults");
    }
}
