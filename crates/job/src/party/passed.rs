//! A round that a party hears of later (`tags.rs`): it went on without the party.

/// A round with a tag that began, or goes on, without this party.
pub(super) struct Passed {
    pub tag: u64,
    pub round: u64,
    pub reason: String,
}
