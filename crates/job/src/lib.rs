//! What a party and a coordinator do in a job, in rounds and between them, as state machines.
//!
//! A machine gets [inputs](machine) one by one: a frame, a request of its caller, the passing of time. It gives out
//! effects: send, compute, write to disk, tell the caller. It has no socket, no clock, no thread and no randomness of
//! its own, so a network, a simulator and another program's transport drive the same code.
//!
//! [`party`] is a member of a job, [`coordinator`] leads it, [`follower`] another server that the job needs,
//! [`session`] the coordinator's side of one connection, [`membership`] who lives. [`Model`] is what parties and coordinator compute.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

pub mod calls;
mod certified;
pub mod chunks;
mod closed;
mod connection;
pub mod coordinator;
mod decoded;
pub mod difference;
mod error;
mod falling;
pub mod follower;
pub mod frames;
pub mod ledger;
mod loss;
pub mod machine;
pub mod membership;
mod model;
pub mod orders;
pub mod party;
pub mod pb;
pub mod records;
pub mod released;
pub mod report;
pub mod results;
pub mod session;
pub mod store;
pub mod totals;
mod traffic;

#[cfg(test)]
mod testing;

pub use error::{JobError, NoUpdateTaken, PolicyError, StoreError};
pub use model::{Model, carried_len, model_len, sealed_len};

use std::time::Duration;

use blindsum_protocol::{ServerIndex, ServerRole};

/// How far the number of a round may be ahead of the latest one that a server knows of, and how far a server's word moves
/// the number of the coordinator's next round. No honest job comes that far in one step, and whoever lies comes to the
/// end of all numbers only in millions of steps.
const MAX_AHEAD: u64 = 1 << 40;

/// The name of a round's result, by which parties can compare it: a hash of the message, with its frame, that told the
/// survivors their sum.
pub fn result_name(round: &blindsum_protocol::Round, told: &[u8]) -> [u8; 32] {
    blindsum_crypto::kdf::hash("blindsum result", &[&round.context().0, told])
}

/// Bytes of a message from which on two cores work on it where there are two.
const LONG: usize = 1 << 18;

/// Does two things with a message of so many bytes: at the same time, where it is long.
fn both<A: Send, B: Send>(
    bytes: usize,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    match bytes < LONG {
        true => (one(), other()),
        false => rayon::join(one, other),
    }
}

/// What people call a server that computes with others.
fn server_name(place: ServerIndex) -> String {
    ServerRole::at(place).map_or_else(|| "the coordinator".into(), |role| format!("the {role}"))
}

/// SHA-256 of a certificate in DER, by which rosters refer to it.
pub fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    blindsum_crypto::kdf::hash("blindsum certificate", &[certificate])
}

/// Seconds as a duration; the longest duration if they are too many.
pub fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names in a message to people.
pub(crate) const MAX_NAMES: usize = 5;

/// The first of a list for people, and how many more there are.
pub(crate) fn first_few<S: AsRef<str>>(all: &[S]) -> String {
    let named: Vec<&str> = all.iter().take(MAX_NAMES).map(AsRef::as_ref).collect();
    let named = named.join(", ");
    match all.len().saturating_sub(MAX_NAMES) {
        0 => named,
        more => format!("{named}, and {more} more"),
    }
}

/// Bytes of foreign text that a line can bear.
const MAX_FOREIGN: usize = 400;

/// Text from outside, made fit to be shown to people: cut to a length that fits in a line, without characters that a
/// terminal or a log would act on.
pub fn foreign(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(200) {
        if shown.len() >= MAX_FOREIGN {
            break;
        }
        push_shown(&mut shown, character);
    }
    match (text.chars().nth(200), shown.rfind(' ')) {
        // No word is cut in two.
        (Some(_), Some(end)) if end > shown.len() / 2 => {
            shown.truncate(end);
            shown + "…"
        }
        _ => shown,
    }
}

/// So many characters of a text from outside, of which a terminal or a log acts on none.
pub(crate) fn plain_text(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for character in text.chars().take(most) {
        push_shown(&mut shown, character);
    }
    shown
}

/// Appends a character, or its number if a terminal would act on it.
fn push_shown(shown: &mut String, character: char) {
    // guard: foreign-text-is-escaped
    match acts(character) {
        true => shown.extend(character.escape_unicode()),
        false => shown.push(character),
    }
}

/// Whether a character is an order rather than a sign: control characters, and those that turn or hide what follows.
pub(crate) fn acts(character: char) -> bool {
    let turns_or_hides = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    character.is_control() || turns_or_hides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_names_stand_for_many() {
        assert_eq!(first_few::<&str>(&[]), "");
        assert_eq!(first_few(&["a", "b", "c", "d", "e"]), "a, b, c, d, e");
        assert_eq!(
            first_few(&["a", "b", "c", "d", "e", "f"]),
            "a, b, c, d, e, and 1 more"
        );
        let many = vec!["party".to_owned(); 5000];
        assert!(first_few(&many).ends_with("party, and 4995 more"));
    }

    #[test]
    fn case_53_foreign_text_acts_on_nothing() {
        let said = "fine\n2026 ERROR forged \u{1b}[2J\u{202e}txet\u{7f}";
        let shown = foreign(said);
        assert!(!shown.chars().any(acts), "{shown:?}");
        assert!(shown.starts_with("fine\\u{a}2026 ERROR forged \\u{1b}[2J"));
        assert_eq!(foreign("Zürich 東京 ✓"), "Zürich 東京 ✓");
        assert_eq!(foreign(&"x".repeat(300)).len(), 200);
        let cut = foreign(&"a word and ".repeat(30));
        assert!(
            cut.ends_with("and…") || cut.ends_with("word…") || cut.ends_with("a…"),
            "{cut}"
        );
        assert!(foreign(&"\u{202e}".repeat(300)).len() < MAX_FOREIGN + 10);
    }
}
