//! Sessions of parties that end by themselves while a round is under way: the party gives up since it does not reach the
//! coordinator, another process of the same party takes its place, or its program is stopped. The party is started
//! again later, with its records, or as somebody who has none.

use blindsum_job::party::{Departure, Input, LinkId};
use blindsum_job::pb::{RefusalCode, Refused};

use super::agenda::{Event, Who};
use super::{Broken, Kind, World};

/// How a session ends by itself.
#[derive(Clone, Copy)]
enum Ending {
    GivesUp,
    Displaced,
    Stopped,
}

impl World {
    /// Perhaps the session of a party ends now.
    pub(super) fn perhaps_end_session(&mut self) -> Result<(), Broken> {
        let Some(number) = self.some_session() else {
            return Ok(());
        };
        let endings = [Ending::GivesUp, Ending::Displaced, Ending::Stopped];
        let ending = self.endings.pick(&endings).unwrap_or(Ending::GivesUp);
        let link = self.parties.get(number).and_then(|party| party.link);
        let input = match (ending, link) {
            (Ending::Displaced, Some(link)) => {
                let reason = "another process of this party has connected after this one";
                let refused = Refused::new(RefusalCode::RefusalReplaced, reason);
                Input::Frame(LinkId(link), refused.into())
            }
            (Ending::Stopped, _) => Input::Leave(Departure::Stopped),
            (Ending::GivesUp | Ending::Displaced, _) => {
                Input::GiveUp("the coordinator was not reached for so long".into())
            }
        };
        if let Some(party) = self.parties.get_mut(number) {
            party.ends = true;
        }
        self.tally.ended += 1;
        self.log(format!("the session of party {number} ends by itself"));
        self.hand_party(number, input)
    }

    /// A party whose session is to end, if one is.
    fn some_session(&mut self) -> Option<usize> {
        if !self.endings.chance(self.faults.ends) {
            return None;
        }
        let lives = (0..self.parties.len()).filter(|number| {
            let is_liar = self.liar == Some(*number);
            !is_liar && self.is_alive(Who::Party(*number))
        });
        let lives: Vec<usize> = lives.collect();
        self.endings.pick(&lives)
    }

    /// The session of a party has ended by itself: the party comes again, with its records or as one that has none.
    pub(super) fn session_ended(&mut self, number: usize) {
        // A store of an earlier time and a party without records may agree on a round that was.
        // Where only parties have the model, those that are gone for good may be all that have it then.
        let may_forget = self.kind == Kind::Storm && !self.job.hides_sum();
        let forgets = may_forget && self.endings.chance(0.4);
        if forgets {
            self.book.rolled_back(number);
            self.log(format!("party {number} comes again without records"));
        }
        if let Some(party) = self.parties.get_mut(number) {
            party.over = false;
            if forgets {
                party.disk = Default::default();
            }
        }
        let at = self.time + self.endings.below(4_000_000);
        self.agenda.push(at, Event::Start(Who::Party(number)));
    }
}
