//! What a round cost, and why it failed, from the work of its parties and its server.

use blindsum_protocol::{Fault, PartySet, Round};

use crate::drive::Finished;
use crate::report::{self, Cost, Costs, RESULT, ServerCost, ServerReport};
use crate::turn::{PartyEnd, Seat};

impl Finished {
    /// Those whose part is in the outcome, where there is one.
    pub(crate) fn survivors(&self) -> Option<&PartySet> {
        let outcome = self.outcome.as_ref().ok();
        outcome.map(|outcome| &outcome.survivors)
    }

    /// Why there is no outcome.
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = self.outcome.as_ref().err();
        fault.map(|fault| describe(fault, &self.seats))
    }
}

/// What a round cost.
pub(crate) fn costs(round: &Round, finished: &Finished) -> Costs {
    let names = round.plan().stages().into_iter().chain([RESULT]);
    let rows = (0..).zip(names).zip(&finished.server_work);
    let lasted = |stage: usize| {
        let ended = finished.began.get(stage + 1);
        let began = finished.began.get(stage).copied();
        began.map_or(0, |began| {
            ended.copied().unwrap_or(finished.virtual_time) - began
        })
    };
    let stages = rows.map(|((stage, name), server)| {
        let costs = finished
            .seats
            .iter()
            .filter_map(|seat| seat.costs.get::<usize>(stage).copied());
        report::stage_report(name, costs, *server, lasted(stage))
    });
    let counted = counted(&finished.seats, finished.survivors());
    let (mut up, mut down) = (0, 0);
    counted.iter().for_each(|cost| {
        up += cost.up;
        down += cost.down;
    });
    Costs {
        stages: stages.collect(),
        client_ms: report::work(&counted),
        server_ms: report::milliseconds(finished.server_work.iter().sum()),
        up_bytes_per_party: report::average(up, counted.len()),
        down_bytes_per_party: report::average(down, counted.len()),
        virtual_seconds: finished.virtual_time as f64 / 1e9,
    }
}

/// What each server did, where there are several.
pub(crate) fn servers(finished: &Finished) -> Vec<ServerReport> {
    let servers = finished.servers.iter();
    let report = |(name, cost): &(&str, ServerCost)| ServerReport {
        name: (*name).into(),
        server_ms: report::milliseconds(cost.work),
        server_bytes: cost.received + cost.sent,
        received_bytes: cost.received,
        sent_bytes: cost.sent,
        server_rounds: cost.rounds,
    };
    servers.map(report).collect()
}

/// Costs of whole parties: of the survivors, or of all where there is no sum.
fn counted(seats: &[Seat], survivors: Option<&PartySet>) -> Vec<Cost> {
    let seats = seats
        .iter()
        .filter(|seat| survivors.is_none_or(|set| set.contains(seat.party)));
    let total = |seat: &Seat| {
        let mut total = Cost::default();
        seat.costs.iter().for_each(|cost| total += *cost);
        total
    };
    seats.map(total).collect()
}

/// The server's fault, and what parties met before it.
fn describe(fault: &Fault, seats: &[Seat]) -> String {
    let mut ended = seats.iter().filter_map(|seat| match &seat.end {
        PartyEnd::Fault { fault, .. } => Some((seat.party, fault)),
        _ => None,
    });
    match ended.next() {
        None => fault.to_string(),
        Some((party, first)) => {
            let others = ended.count();
            let more = if others > 0 {
                format!(" and {others} more")
            } else {
                String::new()
            };
            format!("{fault} ({party}{more} ended with: {first})")
        }
    }
}
