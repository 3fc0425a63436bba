//! How long a party sits out that has misbehaved, or with which rounds were lost: longer each time.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Rounds that a party sits out the first time that it misbehaves; twice as many each time after that.
const FIRST: u64 = 10;
/// The most rounds that a party sits out at a time.
const MAX_ROUNDS: u64 = 1000;
/// After this many rounds that no member has ended, one earlier time is forgotten. If it were forgotten sooner, one party
/// could end a good part of all rounds, and a few of them in turn nearly all.
const FORGIVEN: u32 = 10;

/// A party that has sent what no honest party sends.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Liar {
    /// In how many rounds.
    times: u32,
    /// The latest of them.
    latest: Option<u64>,
    /// The last round that it sits out because of that.
    pub until: u64,
}

impl Liar {
    /// It has done so in a round. In one round that counts once: then this is false.
    pub fn again(&mut self, round: u64) -> bool {
        // guard: a-lie-counts-once-in-a-round
        if self.latest == Some(round) {
            return false;
        }
        let rounds = FIRST.saturating_mul(1u64.checked_shl(self.times).unwrap_or(u64::MAX));
        *self = Self {
            times: self.times.saturating_add(1),
            latest: Some(round),
            until: round.saturating_add(rounds.min(MAX_ROUNDS)),
        };
        true
    }
}

/// How a party has ended a round without having lied.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum How {
    /// It did not open its nonce.
    #[serde(rename = "declined")]
    KeptNonceBack,
    /// It was lost, and the round had no sum without it.
    Lost,
    /// It gave no update by its own word, and the round had no sum without it.
    GaveNoUpdate,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeptNonceBack => "it did not open its nonce in an earlier round",
            Self::Lost => "an earlier round was lost with it",
            Self::GaveNoUpdate => "it gave no update in earlier rounds, which came to nothing",
        })
    }
}

/// A party that has ended rounds without having lied.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Missed {
    /// How many times.
    times: u32,
    /// How it did so the last time.
    pub how: How,
    /// The latest of them; 0 in a record of an earlier version.
    #[serde(default)]
    pub latest: u64,
    /// The last round that it sits out because of that.
    pub until: u64,
    /// The number of rounds since that did not end so, this party among their members.
    kept: u32,
}

impl Missed {
    /// A party has ended a round. It need not be at fault, but the others must not lose one round after the other because
    /// of it. A party that has no update now and then may have one for the next round: the first time it sits out none.
    pub fn after(before: Option<Self>, how: How, round: u64) -> Self {
        let times = before.map_or(0, |before| before.times);
        let doublings = match how {
            // guard: who-gives-no-update-once-sits-out-no-round
            How::GaveNoUpdate => times.checked_sub(1),
            How::KeptNonceBack | How::Lost => Some(times),
        };
        let rounds = doublings.map_or(0, |times| {
            let rounds = 1u64.checked_shl(times).unwrap_or(MAX_ROUNDS);
            rounds.min(MAX_ROUNDS)
        });
        Self {
            times: times.saturating_add(1),
            how,
            latest: round,
            until: round.saturating_add(rounds),
            kept: 0,
        }
    }

    /// A round was ended by none of its members, and this party was one. One earlier time is forgotten, but not all: a
    /// party that ended many rounds is not treated like a new one. False once none is left.
    pub fn kept(&mut self) -> bool {
        self.kept += 1;
        // guard: who-ends-rounds-is-not-forgiven-at-once
        if self.kept >= FORGIVEN {
            self.kept = 0;
            // guard: who-ended-many-rounds-is-not-forgiven-all-of-them
            self.times -= 1;
        }
        self.times > 0
    }
}
