//! Before a round whose graph is drawn from its members' nonces: the roster is fixed, and each member opens the nonce to
//! which it committed.
//!
//! Leaving out a member now would give the coordinator a choice of graphs, since it knows the other nonces. So all
//! members open their nonces, or the round does not take place: the next one is offered at once, with fresh nonces, and
//! without the members that did not open.

use blindsum_crypto::roster::CertifiedRoster;
use blindsum_protocol::RoundParameters;
use tracing::{info, warn};

use super::fixed::Fixed;
use super::handling::Event;
use super::nonces::{nonce_opened, send_fixed, too_late, will_not_open};
use super::phase::Phase;
use super::state::State;
use super::{Coordinator, Halt};
use crate::pb::party_frame::Frame;
use crate::{foreign, seconds};

impl Coordinator {
    /// The roster with the nonces of all its members, who have committed to them.
    pub(super) async fn open_nonces(
        &mut self,
        number: u64,
        roster: CertifiedRoster,
        numbers: RoundParameters,
    ) -> Result<CertifiedRoster, Halt> {
        // Parties have had the time to come: nobody waits for more of them, should this round come to nothing.
        self.state.rounds.met = true;
        let opening = Fixed::new(number, &roster, self.state.models.current.name(), numbers);
        let names = opening.names();
        self.state.phase = Phase::Fixed(Box::new(opening));
        info!(job = %self.state.context.name, round = number, parties = names.len(), "roster fixed");
        for name in &names {
            send_fixed(&mut self.state, name);
        }
        self.state.context.news();
        let collected = self.collect_nonces(number).await;
        let fixed = self.state.phase.take();
        collected?;
        let nonces = match fixed {
            Phase::Fixed(opening) => opening.into_nonces(),
            _ => Vec::new(),
        };
        let opened = roster.with_nonces(&nonces);
        opened.map_err(|error| Halt::Aborted(error.to_string()))
    }

    /// Until all have opened; or who has not.
    pub(super) async fn collect_nonces(&mut self, number: u64) -> Result<(), Halt> {
        let time = self.state.operator.terms.stage_deadline;
        let deadline = self.state.context.now() + seconds(time);
        let grace = self.state.context.grace();
        loop {
            let Some(opening) = self.state.phase.fixed() else {
                return Ok(());
            };
            if let Some((name, reason)) = opening.failed() {
                warn!(job = %self.state.context.name, round = number, party = %name, %reason, "did not open its nonce");
                let reason = format!("{name} did not open its nonce: {reason}");
                let whom = format!(
                    "waiting for other parties, or again for {name}: in round {number} {reason}"
                );
                return Err(Halt::Missed { whom, reason });
            }
            // guard: all-members-open
            if opening.missing().next().is_none() {
                return Ok(());
            }
            let now = self.state.context.now();
            let lost = opening.first_lost(grace);
            let lost = lost.map(|(until, name, reason)| (until, name.clone(), reason));
            let until = match lost {
                Some((until, name, reason)) if until <= now => {
                    let reason = self.state.connections.departed.reason(&name, reason);
                    will_not_open(&mut self.state, &name, reason);
                    continue;
                }
                Some((until, ..)) => until.min(deadline),
                None => deadline,
            };
            if now >= deadline {
                too_late(&mut self.state, time)?;
                continue;
            }
            if let Some(event) = self.next_event(Some(until)).await? {
                opening_event(&mut self.state, number, event);
            }
            self.state.may_begin()?;
        }
    }
}

fn opening_event(state: &mut State, number: u64, event: Event) {
    match event {
        Event::Frame {
            name,
            frame: Frame::NonceOpening(opened),
        } if opened.round == number => nonce_opened(state, &name, &opened.nonce),
        Event::Frame {
            name,
            frame: Frame::RoundRefused(refusal),
        } if refusal.round == number => {
            let reason = format!("it refuses the round: {}", foreign(&refusal.reason));
            will_not_open(state, &name, reason);
        }
        _ => {}
    }
}
