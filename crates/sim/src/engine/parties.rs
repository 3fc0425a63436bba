//! Parties and their callers.

use blindsum_job::frames::of_party;
use blindsum_job::party::{Effect, Input, Mark, PartyMachine, Told};

use super::Engine;
use super::conditions::{Answer, Conditions};
use super::driving::Driven;
use super::event::{Errand, Event, Who};
use super::hosts::Host;

/// A party, by its number.
#[derive(Clone, Copy)]
pub(super) struct Party(pub usize);

impl Party {
    fn host(self, engine: &mut Engine) -> Option<&mut Host<PartyMachine>> {
        engine.parties.get_mut(self.0)
    }

    /// The caller of the party does something after a while.
    fn runs_errand(self, engine: &mut Engine, pause: u64, errand: Errand) {
        let party = self.0;
        let life = engine.life_of(self.who());
        let event = Event::Errand {
            party,
            life,
            errand,
        };
        engine.transit.agenda.after(pause, event);
    }

    /// The caller of the party is told something. What it answers at once is handed in; what the machine wants then is done
    /// after what it wants already.
    fn tell_caller<C: Conditions>(
        self,
        engine: &mut Engine,
        by: &mut C,
        told: Told,
    ) -> Result<(), C::Broken> {
        let Self(number) = self;
        let told = match told {
            Told::Over(over) => {
                if let Some(party) = self.host(engine) {
                    party.over = true;
                    party.machine = None;
                }
                engine.hang_up(self.who());
                engine.transit.give_up_uploads(by, number, |_| true);
                let returns = by.party_over(engine, number, over)?;
                if let (Some(pause), Some(party)) = (returns, self.host(engine)) {
                    party.over = false;
                    engine.transit.start_after(pause, self.who());
                }
                return Ok(());
            }
            other => other,
        };
        if let Told::Ended(ended, _) = &told {
            let of_round = |round: u64| round == *ended;
            engine.transit.give_up_uploads(by, number, of_round);
        }
        match by.told(engine, number, told)? {
            Answer::Nothing => {}
            Answer::Now(input) => engine.tell(self, input),
            Answer::Later(pause, errand) => self.runs_errand(engine, pause, errand),
        }
        Ok(())
    }
}

impl Driven for Party {
    type Input = Input;
    type Effect = Effect;
    type Shown = Mark;

    fn who(self) -> Who {
        Who::Party(self.0)
    }

    fn machine(self, engine: &mut Engine) -> Option<&mut PartyMachine> {
        self.host(engine)?.machine.as_mut()
    }

    fn open<C: Conditions>(self, engine: &mut Engine, by: &mut C) -> Result<bool, C::Broken> {
        let machine = by.open_party(engine, self.0);
        let (Some(machine), Some(party)) = (machine, self.host(engine)) else {
            return Ok(false);
        };
        party.begins(machine);
        engine.transit.connect_later(by, self.who());
        self.runs_errand(engine, by.caller_comes(), Errand::Wants);
        Ok(true)
    }

    fn carry_out<C: Conditions>(
        self,
        engine: &mut Engine,
        by: &mut C,
        effect: Effect,
    ) -> Result<(), C::Broken> {
        let Self(number) = self;
        match effect {
            Effect::Send(on, say) => {
                for frame in of_party(say) {
                    if let Some(frame) = by.party_says(engine, number, frame)? {
                        engine.send_up(by, self.who(), on, frame);
                    }
                }
            }
            Effect::Upload {
                round,
                role,
                message,
            } => {
                // Uploads of another round are of no use any more.
                let of_other = |other: u64| other != round;
                engine.transit.give_up_uploads(by, number, of_other);
                let of = (number, role);
                if let Some(upload) = by.party_uploads(engine, of, (round, message))? {
                    engine.transit.begin_upload(by, of, upload);
                }
            }
            Effect::Reconnect(on, reason) => engine.reconnect(by, self.who(), on, &reason),
            Effect::Tell(told) => self.tell_caller(engine, by, told)?,
        }
        Ok(())
    }
}

impl Engine {
    /// A party hears something, where it lives, and has what it wants carried out.
    pub fn hand_party<C: Conditions>(
        &mut self,
        by: &mut C,
        number: usize,
        input: Input,
    ) -> Result<(), C::Broken> {
        self.hand(by, Party(number), input)
    }
}
