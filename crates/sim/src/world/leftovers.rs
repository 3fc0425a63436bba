//! In sparse rounds, what parties have sent of their updates and what is left.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_encode::{EncodeReport, Encoding, MetricLevels, Sent, Sparsifier};
use blindsum_protocol::Job;

use super::updates::{Gift, other_seed};
use crate::weighted::each_clipped;
use crate::words::words_of;

/// What a party chooses to send of an update.
pub(super) struct Choice {
    /// The update, clipped, and what was left before it.
    pub given: Vec<f64>,
    before: Vec<u8>,
    /// The coordinates that are sent, and their values, not clipped yet.
    pub indices: Vec<u32>,
    pub values: Vec<f64>,
    /// The places of what is sent in a vector, and the words, with other random bits than the party's.
    pub places: Vec<u32>,
    pub words: Vec<u64>,
    /// The bounds of the coordinates that are sent.
    pub encoding: Encoding,
    /// What clipping did to the update.
    pub report: EncodeReport,
    sent: Vec<u8>,
}

impl Choice {
    /// Of an update in a round of the job that has this encoding, after so many sums.
    pub fn of(
        job: &Job,
        encoding: &Encoding,
        sums: u64,
        left: &Sparsifier,
        (gift, metrics): (&Gift, &MetricLevels),
    ) -> Result<Self, String> {
        let selection = left.select(encoding, sums, gift.update.values());
        let selection = selection.map_err(|e| e.to_string())?;
        let (report, compact) = (selection.report(), selection.encoding().clone());
        let factor = report.scaled_by.unwrap_or(1.0);
        let update = gift.doubles();
        let clipped = |(values, clip): (&[f64], f64)| -> Vec<f64> {
            let scaled = values.iter().map(|value| *value * factor);
            scaled.map(|value| value.clamp(-clip, clip)).collect()
        };
        // What the bound of a round alone cuts off is left over.
        let tensors = job.encoding().tensors();
        let given = tensors.flat_map(|(run, clip)| clipped((&update[run], clip)));
        let encoder = selection.encoder(other_seed()).map_err(|e| e.to_string())?;
        let words = words_of(selection.encoding(), &encoder.with_metrics(metrics));
        Ok(Self {
            given: given.collect(),
            before: left.to_bytes().to_vec(),
            indices: selection.indices().to_vec(),
            values: selection.values().to_vec(),
            places: selection.places().to_vec(),
            words: words.map_err(|e| e.to_string())?,
            encoding: compact,
            report,
            sent: selection.into_sent().to_bytes().to_vec(),
        })
    }

    /// What is left where these coordinates were opened.
    pub fn left(&self, job: &Job, opened: &dyn Fn(u32) -> bool) -> Option<Sparsifier> {
        let mut left = Sparsifier::from_bytes(job.encoding(), job.density()?, &self.before).ok()?;
        left.commit(Sent::from_bytes(job.encoding(), &self.sent).ok()?, opened);
        Some(left)
    }

    /// What arrives of each coordinate where these were opened.
    pub fn arrived(&self, opened: &dyn Fn(u32) -> bool) -> Vec<f64> {
        let mut arrived = vec![0.0; self.given.len()];
        each_clipped(&self.encoding, &self.values, |at, _, clipped| {
            let d = self.indices[at];
            if opened(d) {
                arrived[d as usize] = clipped;
            }
        });
        arrived
    }
}

/// What a party was given and has sent, in integers, since nothing was left or its records were those of an earlier time.
pub(super) struct Account {
    /// What was given, without what was sent.
    pub owed: Vec<i128>,
    /// How many rounds are in it, and the latest of them.
    pub rounds: i128,
    pub latest: Option<u64>,
}

/// What is known of the leftovers of all parties.
#[derive(Default)]
pub(super) struct Leftovers {
    /// With what each party went into its latest round.
    pub now: BTreeMap<usize, Sparsifier>,
    pub accounts: BTreeMap<usize, Account>,
    /// How many parties have sent each coordinate, as a party was told it of a round.
    told: BTreeMap<(usize, u64), Vec<u32>>,
    /// Rounds that count a party's vector, and whose sum it has missed: nobody tells it what was opened, and so all of it
    /// counts as sent.
    missed: BTreeSet<(usize, u64)>,
}

impl Leftovers {
    /// A party was told how many have sent each coordinate.
    pub fn told(&mut self, party: usize, round: u64, counts: &[u32]) {
        self.told.insert((party, round), counts.to_vec());
    }

    /// A party was told that its vector counts, and that the sum is lost for it.
    pub fn missed(&mut self, party: usize, round: u64) {
        self.missed.insert((party, round));
    }

    /// What a party was told of a round is compared no more.
    pub fn forget(&mut self, party: usize, round: u64) {
        self.told.remove(&(party, round));
        self.missed.remove(&(party, round));
    }

    /// What a party chooses of an update that its caller gives in a round after so many sums.
    pub fn choose(
        &self,
        job: &Job,
        encoding: &Encoding,
        (party, sums): (usize, u64),
        gift: (&Gift, &MetricLevels),
    ) -> Result<Choice, String> {
        let left = self.now.get(&party);
        let left = left.ok_or("P7: an update for a round that never began")?;
        Choice::of(job, encoding, sums, left, gift)
    }

    /// Whether a coordinate of a round counts as sent by a party, in each way in which that may have ended for it.
    pub fn endings(
        &self,
        job: &Job,
        party: usize,
        round: u64,
    ) -> Vec<Box<dyn Fn(u32) -> bool + '_>> {
        let least = job.spec().least_contributors();
        let mut endings: Vec<Box<dyn Fn(u32) -> bool>> = Vec::new();
        let told = self.told.get(&(party, round));
        if let Some(counts) = told {
            let count = move |d: u32| counts.get(d as usize).copied().unwrap_or(0);
            endings.push(Box::new(move |d| count(d) >= least));
        }
        if told.is_none() || self.missed.contains(&(party, round)) {
            endings.push(Box::new(|_| true));
        }
        endings
    }
}
