//! Who of the parties that are ready takes part in a round.

use blindsum_crypto::certificate::CertificateError;
use blindsum_crypto::roster::{CertifiedRoster, Member, Roster, RosterError};
use blindsum_protocol::RoundKind;
use tracing::warn;

use super::Halt;
use super::offered::ReadyParty;
use super::phase::Phase;
use super::state::State;

/// Those that are ready, without those that sit out where there are enough others. Who is here and has said nothing
/// is not waited for again; who asked for the model is.
pub(super) fn wanted(state: &mut State, number: u64, offered: Phase) -> Vec<ReadyParty> {
    let Phase::Offered(joining) = offered else {
        return Vec::new();
    };
    let version = state.models.current.version();
    let members = state.connections.iter();
    let late = members.filter(|(name, _)| joining.is_open(name) && state.calls.is_called(name));
    for (name, member) in late {
        (state.back_off.conduct).was_late(name, member.model_sent == Some(version));
    }
    let (least, is_hosted) = (state.context.least_roster(), state.calls.is_hosted);
    let (wanted, out) = state
        .back_off
        .choose(joining.into_ready(), least, is_hosted);
    for party in out {
        let reason = state.back_off.sits_out(&party.name);
        state.leave_out(number, &party.name, &reason.unwrap_or_default());
    }
    wanted
}

/// What the next round is for, and which of the ready parties take part.
pub(super) fn choose_kind(
    state: &mut State,
    round: u64,
    ready: Vec<ReadyParty>,
) -> (RoundKind, Vec<ReadyParty>) {
    if !state.context.job().hides_sum() {
        return (RoundKind::Sum, ready);
    }
    let (sealed, least) = (&mut state.models.sealed, state.context.least_roster());
    let (kind, ready, out) = sealed.choose_kind(state.rounds.after_key_setup, least, ready);
    for (name, reason) in out {
        state.leave_out(round, &name, reason);
    }
    if kind == RoundKind::Sum {
        for (name, refusal) in state.models.sealed.hopeless(&ready) {
            let reason = &refusal.reason;
            warn!(job = %state.context.name, party = %name, %reason, "refused");
            state.expel(&name, refusal);
        }
    }
    (kind, ready)
}

/// Those of the ready parties with whom a round may have a result: all of them, or as many as may be. The others sit
/// this round out.
pub(super) fn openable(
    state: &mut State,
    number: u64,
    kind: RoundKind,
    ready: Vec<ReadyParty>,
) -> Result<Vec<ReadyParty>, Halt> {
    let model = state.models.key();
    let (opened, job) = (&mut state.opened, state.context.job());
    let (chosen, out) = opened.choose(job, &model, (number, kind), ready)?;
    for party in &out {
        let reason = "it sits this round out: with it the result could be compared with an earlier one of the same \
                      model, and would tell the update of one party";
        state.leave_out(number, &party.name, reason);
    }
    Ok(chosen)
}

/// The roster, in the order of names or, in a ring, of the places in it. Whoever cannot be certified stays out of it and is told why.
pub(super) fn certify(
    state: &mut State,
    round: u64,
    ready: Vec<ReadyParty>,
) -> Result<CertifiedRoster, Halt> {
    let most = state.context.spec().parties as usize;
    // As soon as so many are ready nobody else can be; but the root can not be left out.
    let root = state.context.spec().root();
    let (first, others): (Vec<_>, Vec<_>) = ready
        .into_iter()
        .partition(|party| Some(&*party.name) == root);
    let mut members: Vec<(Vec<u8>, Member)> = first
        .into_iter()
        .chain(others)
        .filter_map(|ReadyParty { name, nonce, .. }| {
            let member = state.connections.get(&name)?;
            let place = state.context.job().place_of(&name, &member.location);
            let member = Member {
                name: name.to_string(),
                certificate: member.link.peer.certificate.to_vec(),
                nonce,
            };
            Some((place, member))
        })
        .take(most)
        .collect();
    members.sort_by(|(one, a), (other, b)| (one, &a.name).cmp(&(other, &b.name)));
    let mut members: Vec<Member> = members.into_iter().map(|(_, member)| member).collect();
    let mut last = None;
    loop {
        let error = match Roster(members.clone())
            .certify(&state.context.parts.anchor, state.context.unix_seconds())
        {
            Ok(roster) => return Ok(roster),
            Err(error) => error,
        };
        let culprit = match &error {
            // The list is nobody's: whoever is asked about next fails by it too.
            RosterError::Certificate {
                error: error @ CertificateError::RevocationListExpired { .. },
                ..
            } => return Err(Halt::Aborted(error.to_string())),
            RosterError::Certificate { party, .. }
            | RosterError::WrongName { party, .. }
            | RosterError::DuplicateKey { party, .. }
            | RosterError::DuplicateName { party } => party.clone(),
            RosterError::Empty => {
                let reason = last.unwrap_or_else(|| "nobody was ready in time".into());
                return Err(Halt::Aborted(reason));
            }
            other => return Err(Halt::Aborted(other.to_string())),
        };
        if let RosterError::Certificate { error, .. } = &error
            && error.is_of_time()
        {
            (state.certificates).look_at_times(&state.context, &state.connections);
        }
        warn!(job = %state.context.name, round, party = %culprit, %error, "left out of the roster");
        state.leave_out(round, &culprit, &error.to_string());
        members.retain(|member| member.name != culprit);
        last = Some(error.to_string());
    }
}
