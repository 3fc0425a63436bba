//! Who comes back in the midst of a round, or after it: what it needs to go on, and how a round ended that it was in.

use std::sync::Arc;

use blindsum_protocol::{Seat, ServerRole};

use super::Lead;
use super::delivery::Delivery;
use super::ended::{Ended, Told};
use super::members::over;
use super::running::Running;
use crate::totals::LossCause;
use crate::{foreign, pb};

impl Lead {
    /// The round under way, and the connections of those who are in it.
    pub(super) fn delivery(&mut self) -> Option<Delivery<'_>> {
        let (context, members) = (&self.context, &mut self.members);
        let running = self.phase.running_mut()?;
        Some(Delivery {
            context,
            members,
            running,
        })
    }

    /// Somebody loses its place in the round under way.
    pub(super) fn drop_seat(&mut self, seat: Seat, cause: LossCause, reason: &str) {
        if let Some(mut delivery) = self.delivery() {
            delivery.drop_seat(seat, cause, reason);
        }
    }

    /// A party connects that says it is in a round: it goes on, or hears how the round ended.
    pub(super) async fn resume(&mut self, name: &Arc<str>, hello: &pb::Hello) {
        let place = self.phase.running().and_then(|running| {
            let party = running.id(name)?;
            let gone = running.place(party.into())?.gone.as_ref();
            let out = gone
                .filter(|gone| gone.told)
                .map(|gone| (gone.reason.clone(), gone.may_count));
            Some((running.number(), party, out))
        });
        match place {
            Some((round, party, None)) if round == hello.round => {
                if let Some(mut delivery) = self.delivery() {
                    delivery.resume(party, hello.answered);
                }
                return;
            }
            Some((round, _, Some((reason, may_count)))) if round == hello.round => {
                return self.members.tell_gone(round, name, &reason, may_count);
            }
            Some((_, party, None)) => {
                let reason =
                    "started again before its update was out, or without its state of the round";
                if let Some(mut delivery) = self.delivery() {
                    delivery.leave_round(party, LossCause::Restarted, reason);
                }
            }
            _ => {}
        }
        self.ended
            .forget_hearer(name, hello.round, self.context.now());
        let running = self.phase.running().map(Running::number);
        if place.is_none() && running == Some(hello.round) {
            let reason = "the round began without this party: it was not known to be ready";
            return self.members.tell_dropped(hello.round, name, reason);
        }
        let joining = self.phase.joining().map(|joining| joining.number);
        if hello.round != 0
            && Some(hello.round) != joining
            // guard: results-for-those-that-come-back
            && !self.send_end(name, hello)
        {
            Ended::send_past(&self.context, &self.members, name, hello.round).await;
        }
    }

    /// A server that is in the round under way goes on in it; one that has lost its part in it does not come back to it.
    pub(super) fn resume_server(&mut self, role: ServerRole, hello: &pb::Hello) {
        let running = self.phase.running();
        let number = running
            .filter(|running| !running.is_gone(role))
            .map(|r| r.number());
        if let Some(number) = number {
            // guard: campaign-servers-come-back-to-no-round
            if number == hello.round {
                if let Some(mut delivery) = self.delivery() {
                    delivery.start(role.into(), hello.answered);
                }
                return;
            }
            let reason = "started again without its state of the round";
            self.drop_seat(role.into(), LossCause::Restarted, reason);
        }
        if hello.round != 0 {
            self.members
                .tell_server(role, over(hello.round, "it is over", false).into());
        }
    }

    /// A party that has come back asks for the end of a round; false where it is not known any more.
    fn send_end(&mut self, name: &str, hello: &pb::Hello) -> bool {
        let place = (hello.round, hello.answered);
        let (context, members) = (&self.context, &mut self.members);
        let told = self.ended.send_end(context, members, name, place);
        if told == Some(Told::Out) {
            self.leave_failed(name);
        }
        told.is_some()
    }

    /// A party confirms what it holds after a round; that must be what the coordinator has. Only the first word
    /// of each survivor is heard.
    pub(super) async fn confirmed(&mut self, name: &str, confirmed: &pb::RoundConfirmed) {
        if self.settled(name, confirmed.round) {
            self.ended.compare(&self.context, name, confirmed).await;
        }
    }

    /// A survivor cannot use the result that it was told, and will not confirm it.
    pub(super) async fn result_refused(&mut self, name: &str, refused: &pb::RoundRefused) {
        if self.settled(name, refused.round) {
            let detail = format!("{name} refuses the result: {}", foreign(&refused.reason));
            let context = &self.context;
            context
                .record_event(refused.round, "refused", name, detail)
                .await;
        }
    }

    /// A survivor of this sum needs to be told nothing more; true where it did until now.
    fn settled(&mut self, name: &str, round: u64) -> bool {
        let is_news = self.ended.settle(round, name, self.context.now());
        if is_news {
            self.context.news();
            self.leave_failed(name);
        }
        is_news
    }
}
