//! Faults of members in a round, which the coordinator sees or others report: a fault is in the round's report, has
//! consequences for the member, and is kept with the bytes that show it.

use std::sync::Arc;

use blindsum_protocol::{Culprit, Evidence, Fault, FaultKind, Seat};
use tracing::warn;

use super::Halt;
use super::departed::leaves_by_itself;
use super::released::not_opened_by;
use super::running::Running;
use super::state::State;
use crate::store::ShownFault;
use crate::totals::LossCause;
use crate::{first_few, foreign, pb};

/// Somebody has sent in a round what it must not send.
pub(super) async fn refuse_answer(
    state: &mut State,
    number: u64,
    seat: Seat,
    name: &str,
    fault: &Fault,
) {
    let what = note_fault(state, number, name, fault).await;
    let party = match seat {
        Seat::Party(party) => party,
        Seat::Server(role) => {
            if let Some(running) = state.phase.running_mut() {
                running.servers.misbehaved(role);
            }
            return state.drop_seat(seat, LossCause::Fault, &what);
        }
    };
    // guard: campaign-liars-are-remembered
    state.back_off.conduct.lied(&name.into());
    match fault.kind {
        FaultKind::Conflicting { .. } => {
            // The first answer counts; whoever has two of them is not to be talked to.
            let reason = format!("a second answer, other than the first, in round {number}");
            state.refuse(name, &reason);
        }
        // guard: garbage-costs-its-sender
        _ => state.drop_seat(party.into(), LossCause::Fault, &what),
    }
}

/// Counts a fault, and records it in the round's report and, with what shows it, in the store. Gives what people are told.
async fn note_fault(state: &mut State, number: u64, name: &str, fault: &Fault) -> String {
    let class = fault.kind.class();
    state.context.count(|totals| totals.fault(class));
    let what = match state.phase.running_mut() {
        None => fault.kind.to_string(),
        Some(running) => {
            let what = running.told(&fault.kind);
            running.add_fault(format!("{name}: {what}"));
            what
        }
    };
    // guard: what-shows-a-lie-is-kept
    if let Some(evidence) = fault.evidence.clone() {
        let shown = ShownFault {
            round: number,
            culprit: name.into(),
            accuser: None,
            what: what.clone(),
            evidence,
            times: 1,
        };
        state.context.keep_fault(shown).await;
    }
    what
}

/// What parties did wrong in a round is kept, and whoever was found to lie sits out the next ones.
pub(super) async fn found_out(state: &mut State, number: u64, faults: &[Fault]) {
    for fault in faults {
        let (Culprit::Party(party), Some(running)) = (fault.culprit, state.phase.running()) else {
            continue;
        };
        let name = running.name(party).clone();
        note_fault(state, number, &name, fault).await;
    }
    note_liars(state, faults);
}

fn note_liars(state: &mut State, faults: &[Fault]) {
    for fault in faults {
        if let (Culprit::Party(party), Some(running), true) = (
            fault.culprit,
            state.phase.running(),
            fault.kind.proves_a_lie(),
        ) {
            state.back_off.conduct.lied(running.name(party));
        }
    }
}

/// A fault that ends the round. If a party did it, the round's report has it.
pub(super) fn ended_by(state: &mut State, fault: &Fault) -> Halt {
    if let Some(halt) = not_opened_by(fault) {
        return halt;
    }
    let Some(running) = state.phase.running_mut() else {
        return Halt::Aborted(fault.to_string());
    };
    let text = too_few(running, fault).unwrap_or_else(|| running.told(fault));
    if let Culprit::Party(_) = fault.culprit {
        running.add_fault(text.clone());
        (state.context).count(|totals| totals.fault(fault.kind.class()));
    }
    note_liars(state, std::slice::from_ref(fault));
    Halt::Aborted(text)
}

/// A member that leaves the round says that another one did wrong. It is heard once: who has left is not. A member that
/// leaves for a reason of its own accuses nobody: an accuser has to leave, and that costs it none of its turns.
pub(super) async fn accuse(
    state: &mut State,
    number: u64,
    by: &Arc<str>,
    refusal: &pb::RoundRefused,
) {
    // guard: who-leaves-by-itself-accuses-nobody
    if leaves_by_itself(refusal) {
        return;
    }
    let about: Arc<str> = refusal.accused.as_str().into();
    let Some(running) = state.phase.running_mut().filter(|r| r.id(&about).is_some()) else {
        return;
    };
    let is_gone = running.id(by).is_none_or(|party| running.is_gone(party));
    // guard: heard-once-on-others
    if is_gone || *by == about {
        return;
    }
    let what = foreign(&refusal.reason);
    running.add_fault(format!("{by} accuses {about}: {what}"));
    state.context.count(|totals| totals.accusations += 1);
    if let Some(liar) = state.back_off.conduct.accused(by, &about) {
        warn!(job = %state.context.name, round = number, party = %liar,
            "shown to lie by what others say, or by what it says of others");
    }
    state
        .context
        .keep_fault(ShownFault {
            round: number,
            culprit: about.to_string(),
            accuser: Some(by.to_string()),
            what,
            evidence: Evidence::of(&refusal.evidence),
            times: 1,
        })
        .await;
}

/// Why too few parties are left, with the names of those that have left; `None` if nobody has.
fn too_few(running: &Running, fault: &Fault) -> Option<String> {
    let FaultKind::TooFewSurvivors { need, .. } = fault.kind else {
        return None;
    };
    let losses: Vec<(&Arc<str>, &str)> = running.losses().collect();
    if losses.is_empty() {
        return None;
    }
    let losses = losses.iter();
    let losses = losses.map(|(name, reason)| match running.gave_no_update(name) {
        true => format!("{name} sat out ({reason})"),
        false => format!("{name} left ({reason})"),
    });
    let (named, left) = (first_few(&losses.collect::<Vec<_>>()), running.left());
    // Whoever shows this cuts it to a line: the numbers come first.
    Some(format!(
        "too few parties are left: {left} are left, {need} are needed; {named}"
    ))
}
