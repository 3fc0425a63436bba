//! Sessions of parties that end by themselves while a round is under way: the party gives up since it does not reach the
//! coordinator, another process of the same party takes its place, or its program is stopped. The party is started
//! again later, with its records, or as somebody who has none.

use blindsum_job::party::{Departure, Input, LinkId};
use blindsum_job::pb::{RefusalCode, Refused};

use super::{Broken, Episode, Kind, World};
use crate::engine::{Engine, Micros, Who};

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
        let (engine, episode) = (&mut self.engine, &mut self.episode);
        let Some(number) = episode.some_session(engine) else {
            return Ok(());
        };
        let endings = [Ending::GivesUp, Ending::Displaced, Ending::Stopped];
        let ending = episode.endings.pick(&endings).unwrap_or(Ending::GivesUp);
        let input = match (ending, engine.link_of(Who::Party(number))) {
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
        if let Some(member) = episode.members.get_mut(number) {
            member.ends = true;
        }
        episode.tally.ended += 1;
        let ends = format_args!("the session of party {number} ends by itself");
        episode.log(engine, ends);
        engine.hand_party(episode, number, input)
    }
}

impl Episode {
    /// A party whose session is to end, if one is.
    fn some_session(&mut self, engine: &Engine) -> Option<usize> {
        if !self.endings.chance(self.faults.ends) {
            return None;
        }
        let lives = (0..self.members.len()).filter(|number| {
            let is_liar = self.liar == Some(*number);
            !is_liar && engine.is_alive(Who::Party(*number))
        });
        let lives: Vec<usize> = lives.collect();
        self.endings.pick(&lives)
    }

    /// The session of a party has ended by itself: the party comes again after so long, with its records or as one that has
    /// none.
    pub(super) fn session_ended(&mut self, engine: &Engine, number: usize) -> Micros {
        // A store of an earlier time and a party without records may agree on a round that was.
        // Where only parties have the model, those that are gone for good may be all that have it then.
        let may_forget = self.setting.kind == Kind::Storm && !self.setting.job.hides_sum();
        let forgets = may_forget && self.endings.chance(0.4);
        if forgets {
            self.book.rolled_back(number);
            let again = format_args!("party {number} comes again without records");
            self.log(engine, again);
            if let Some(member) = self.members.get_mut(number) {
                member.disk = Default::default();
            }
        }
        self.endings.below(4_000_000)
    }
}
