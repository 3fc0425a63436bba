//! The report of a run: one JSON object.

use std::collections::BTreeMap;
use std::time::Duration;

use blindsum_encode::EncodeReport;
use blindsum_job::report::MetricReport;
use blindsum_protocol::{PartyId, ProtocolName};
use serde::{Deserialize, Serialize};

use crate::agenda::Time;
use crate::clock::peak_rss_bytes;

/// Name of the row in which parties take the result; no stage of a protocol is called so.
pub(crate) const RESULT: &str = "result";

/// The report of a run.
///
/// The fields of the last round are at the top level. A round that aborts ends the run, so `outcome` is
/// [`RoundOutcome::Sum`] exactly when every round had a sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The protocol.
    pub protocol: ProtocolName,
    /// Parties in the roster.
    pub parties: usize,
    /// Coordinates of an update.
    pub dim: u64,
    /// The last round.
    #[serde(flatten)]
    pub last: RoundReport,
    /// The most memory that the process has ever held, in bytes; 0 if the system does not tell.
    pub peak_rss_bytes: u64,
    /// Every round, including the last one, if more than one was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<RoundReport>,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoundOutcome {
    /// There is a sum.
    Sum,
    /// There is no sum; [`RoundReport::fault`] says why.
    Abort,
}

/// The report of one round.
///
/// Times are CPU time spent inside the machines, without waiting. Those of parties are medians and maxima over the
/// parties that did the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// How it ended.
    pub outcome: RoundOutcome,
    /// Why there is no sum.
    pub fault: Option<String>,
    /// Parties whose update is in the sum; 0 without one.
    pub survivors: usize,
    /// Whether the sum equals, bit for bit, the sum of the survivors' words computed in the clear, and every party that
    /// took a result took this one. False if there is no sum.
    pub exact: bool,
    /// By how much a coordinate may differ from the rule in the clear where servers compute more than a sum: then `exact`
    /// says that none differs by more, and `max_abs_error` by how much one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_bound: Option<f64>,
    /// Largest difference, over the coordinates, between the decoded mean and the weighted mean of the survivors'
    /// clipped updates: the error of quantisation. Absent if there is no sum.
    pub max_abs_error: Option<f64>,
    /// Largest difference between the decoded mean and the weighted mean of the survivors' updates before clipping: the
    /// error of quantisation and clipping together. Absent if there is no sum, and for sparse rounds.
    pub max_abs_error_unclipped: Option<f64>,
    /// The metrics of the job by their names, over the survivors. Empty if there is no sum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MetricReport>,
    /// Coordinates that were clipped, of all survivors together.
    pub clipped: u64,
    /// The survivors whose updates clipping changed.
    pub clipping: Vec<PartyClipping>,
    /// One row for each stage, then one called `result`.
    pub stages: Vec<StageReport>,
    /// CPU time of one survivor (without a sum, of any party) in the whole round, in milliseconds.
    pub client_ms: Spread,
    /// CPU time of the server in the whole round, in milliseconds.
    pub server_ms: f64,
    /// Bytes that a survivor (without a sum, any party) sends in the round, on average, rounded up.
    pub up_bytes_per_party: u64,
    /// Bytes that are sent to a survivor (without a sum, to any party), on average, rounded up.
    pub down_bytes_per_party: u64,
    /// Seconds of virtual time from the start of the round to its last delivered message: the delays of the network and
    /// the deadlines that were waited for. Work takes no virtual time.
    pub virtual_seconds: f64,
    /// What each server did, the coordinator first, if the protocol has more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerReport>,
    /// The key set-up before the round, if a party lacked the key of the job. Its costs are not part of the round's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_setup: Option<KeySetupReport>,
    /// How often the round was begun: again without whoever was lost, where the protocol needs every party of a round. Its
    /// costs are those of the last time; `virtual_seconds` counts all.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub begun: u32,
    /// Parties that were found to lie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Excluded>,
    /// After a sparse round, by rank, the size of what each party has not sent yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<Leftover>,
}

/// The size of what a party has not sent yet of its updates, and adds to its next one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leftover {
    /// The L2 norm.
    pub norm: f64,
    /// The coordinates that are not 0.
    pub coordinates: u64,
}

/// A party that was found to lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Its rank.
    pub party: u32,
    /// The test of its vector that failed, or what else it did.
    pub test: String,
    /// The bytes that show it, in hexadecimal digits; of many only the beginning. Empty where it said nothing.
    pub evidence: String,
}

fn once() -> u32 {
    1
}

fn is_once(begun: &u32) -> bool {
    *begun == 1
}

/// What one of several servers did in a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Which one: `coordinator`, `second server` or `third server`.
    pub name: String,
    /// Its work, milliseconds.
    pub server_ms: f64,
    /// Bytes that it received and sent.
    pub server_bytes: u64,
    /// Bytes that parties and other servers sent it.
    pub received_bytes: u64,
    /// Bytes that it sent parties and other servers.
    pub sent_bytes: u64,
    /// Rounds of letters between servers in which it said something; they last a way over the network each.
    pub server_rounds: u64,
}

/// What clipping did to the update of one party.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartyClipping {
    /// Its rank.
    pub party: u32,
    /// Coordinates outside their bound, which were moved to it.
    pub clipped: u64,
    /// The factor below 1 by which the update was multiplied, if its norm was above the bound.
    pub scaled_by: Option<f64>,
}

impl PartyClipping {
    /// What an encoder says of a party's update; nothing where all of it is sent.
    pub(crate) fn of(party: PartyId, report: &EncodeReport) -> Option<Self> {
        (!report.is_whole()).then_some(Self {
            party: party.0,
            clipped: report.clipped,
            scaled_by: report.scaled_by,
        })
    }
}

/// The report of a key set-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeySetupReport {
    /// Parties that hold the key after the key set-up; 0 if it failed.
    pub holders: usize,
    /// Why it failed.
    pub fault: Option<String>,
    /// What it cost.
    #[serde(flatten)]
    pub costs: Costs,
}

/// What a round or a key set-up cost; see [`RoundReport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// One row for each stage, then one called `result`.
    pub stages: Vec<StageReport>,
    /// CPU time of one party, in milliseconds.
    pub client_ms: Spread,
    /// CPU time of the server, in milliseconds.
    pub server_ms: f64,
    /// Bytes that a party sends, on average, rounded up.
    pub up_bytes_per_party: u64,
    /// Bytes that are sent to a party, on average, rounded up.
    pub down_bytes_per_party: u64,
    /// Seconds of virtual time.
    pub virtual_seconds: f64,
}

/// What one stage cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Name of the stage.
    pub name: String,
    /// CPU time from the server's message to the party's answer.
    pub client_ms: Spread,
    /// CPU time for taking the answers and closing the stage, in milliseconds.
    pub server_ms: f64,
    /// Seconds of virtual time from the server's message to the next one, or to the last delivered message.
    pub virtual_seconds: f64,
    /// Bytes of the answer, repetitions included.
    pub up_bytes: SpreadBytes,
    /// Bytes of the server's message that led to the answer, repetitions included.
    pub down_bytes: SpreadBytes,
}

/// Milliseconds, over several parties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the parties took no more than this.
    pub median: f64,
    /// The most that a party took.
    pub max: f64,
}

/// Bytes, over several parties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadBytes {
    /// Half of the parties had no more than this.
    pub median: u64,
    /// The most that a party had.
    pub max: u64,
}

/// What one party did in one stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) work: Duration,
    pub(crate) up: u64,
    pub(crate) down: u64,
    /// Whether it did anything.
    pub(crate) active: bool,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.work += other.work;
        self.up += other.up;
        self.down += other.down;
        self.active |= other.active;
    }
}

/// What one server did in one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerCost {
    pub(crate) work: Duration,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// Rounds of letters between servers in which it said something.
    pub(crate) rounds: u64,
}

/// The row of one stage, from the costs of all parties in it.
pub(crate) fn stage_report(
    name: &str,
    costs: impl Iterator<Item = Cost>,
    server: Duration,
    lasted: Time,
) -> StageReport {
    let costs: Vec<Cost> = costs.filter(|cost| cost.active).collect();
    let (up_median, up_max) = spread(costs.iter().map(|cost| cost.up).collect());
    let (down_median, down_max) = spread(costs.iter().map(|cost| cost.down).collect());
    StageReport {
        name: name.into(),
        client_ms: work(&costs),
        server_ms: milliseconds(server),
        virtual_seconds: lasted as f64 / 1e9,
        up_bytes: SpreadBytes {
            median: up_median,
            max: up_max,
        },
        down_bytes: SpreadBytes {
            median: down_median,
            max: down_max,
        },
    }
}

/// Work of parties, milliseconds.
pub(crate) fn work(costs: &[Cost]) -> Spread {
    let (median, max) = spread(costs.iter().map(|cost| cost.work).collect());
    Spread {
        median: milliseconds(median),
        max: milliseconds(max),
    }
}

/// Milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The average, rounded up.
pub(crate) fn average(total: u64, count: usize) -> u64 {
    total.div_ceil(count.max(1) as u64)
}

/// Lower median and maximum; zero of nothing.
fn spread<T: Ord + Copy + Default>(mut values: Vec<T>) -> (T, T) {
    values.sort_unstable();
    let median = values.get(values.len().saturating_sub(1) / 2);
    (
        median.copied().unwrap_or_default(),
        values.last().copied().unwrap_or_default(),
    )
}

impl Report {
    /// The report of a run, from the reports of its rounds.
    pub(crate) fn new(
        protocol: ProtocolName,
        parties: usize,
        dim: u64,
        asked: u32,
        rounds: Vec<RoundReport>,
    ) -> Option<Self> {
        let last = rounds.last()?.clone();
        Some(Self {
            protocol,
            parties,
            dim,
            last,
            peak_rss_bytes: peak_rss_bytes(),
            rounds: if asked > 1 { rounds } else { Vec::new() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_lower_median_and_maximum() {
        assert_eq!(spread::<u64>(vec![]), (0, 0));
        assert_eq!(spread(vec![7u64]), (7, 7));
        assert_eq!(spread(vec![4u64, 1, 3, 2]), (2, 4));
        assert_eq!(spread(vec![5u64, 1, 3]), (3, 5));
        assert_eq!(average(10, 3), 4);
        assert_eq!(average(0, 0), 0);
    }

    #[test]
    fn rows_leave_out_who_did_nothing() {
        let cost = |ms, up, active| Cost {
            work: Duration::from_millis(ms),
            up,
            down: 1,
            active,
        };
        let row = stage_report(
            "input",
            [cost(0, 0, false), cost(4, 10, true), cost(2, 30, true)].into_iter(),
            Duration::from_micros(1500),
            2_500_000_000,
        );
        assert_eq!(row.virtual_seconds, 2.5);
        assert_eq!(
            row.client_ms,
            Spread {
                median: 2.0,
                max: 4.0
            }
        );
        assert_eq!(
            row.up_bytes,
            SpreadBytes {
                median: 10,
                max: 30
            }
        );
        assert_eq!(row.server_ms, 1.5);
    }
}
