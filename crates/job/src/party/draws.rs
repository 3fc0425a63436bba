//! Counts the graphs that were drawn with this party's nonces, and limits them.
//!
//! Because of the commitments nobody can choose a graph. But a coordinator can end a round when it knows the graph: the
//! next round has another one. So a party counts. A graph counts as used once the party has sent its vector in that
//! round. Beginning the round is not enough, since the coordinator may end it then as well.

use serde::{Deserialize, Serialize};

use crate::PolicyError;

/// How many graphs may be of no use, beside one for each that was.
const SPARE: u64 = 1000;

/// The graphs that were drawn with this party's nonces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Draws {
    /// Rounds in which its nonce was opened and no vector of it went out.
    pub unused: u64,
    /// Rounds in which its vector went out.
    pub sent: u64,
    /// The latest round in which its nonce was opened, until its vector goes out.
    latest: Option<u64>,
    /// Whether the log has said that half of them are gone.
    warned: bool,
    /// The latest round in which its vector went out, in this process. It is counted in a record with the next thing
    /// that is written there: whoever is killed before that has counted too few.
    #[serde(skip)]
    pub latest_sent: Option<u64>,
}

impl Draws {
    /// How many graphs may be of no use by now.
    pub fn allowed(&self) -> u64 {
        self.sent.saturating_add(SPARE)
    }

    /// Whether another graph may be drawn.
    ///
    /// # Errors
    /// Too many were of no use.
    pub fn check(&self) -> Result<(), PolicyError> {
        let (unused, sent, allowed) = (self.unused, self.sent, self.allowed());
        // guard: no-graphs-without-end
        match unused < allowed {
            true => Ok(()),
            false => Err(PolicyError::Graphs {
                unused,
                sent,
                allowed,
            }),
        }
    }

    /// One more graph is drawn, in this round.
    pub fn drawn(&mut self, round: u64) {
        self.unused = self.unused.saturating_add(1);
        self.latest = Some(round);
    }

    /// The party's vector goes out in this round, perhaps not for the first time.
    pub fn sends(&mut self, round: u64) {
        // guard: a-vector-gives-one-graph
        if self.latest.take_if(|latest| *latest == round).is_some() {
            self.unused = self.unused.saturating_sub(1);
            self.sent = self.sent.saturating_add(1);
            self.latest_sent = Some(round);
        }
    }

    /// Whether half of them are gone, and nobody was told.
    pub fn is_news(&mut self) -> bool {
        let is_half = self.unused >= self.allowed() / 2;
        is_half && !std::mem::replace(&mut self.warned, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abuse case 46: a graph is of use once, when the vector goes out, and however often it does.
    #[test]
    fn case_46_graphs_are_counted_once() {
        let mut draws = Draws::default();
        draws.drawn(1);
        draws.sends(1);
        draws.sends(1);
        // A round whose nonce was not opened, as one from before the process was started.
        draws.sends(2);
        assert_eq!((draws.unused, draws.sent), (0, 1));
        draws.drawn(3);
        draws.drawn(4);
        draws.sends(3);
        assert_eq!((draws.unused, draws.sent), (2, 1));
    }

    #[test]
    fn the_log_is_told_once_and_then_it_ends() {
        let mut draws = Draws::default();
        draws.drawn(1);
        draws.sends(1);
        let mut news = Vec::new();
        for round in 2.. {
            if draws.check().is_err() {
                break;
            }
            draws.drawn(round);
            if draws.is_news() {
                news.push(round);
            }
        }
        assert_eq!(news, [501]);
        let error = draws.check().unwrap_err().to_string();
        assert!(
            error.contains("1001 graphs") && error.contains("1000 and one"),
            "{error}"
        );
    }
}
