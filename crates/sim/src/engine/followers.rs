//! The servers that are not the coordinator.

use blindsum_job::follower::{Effect, Input, ServerMachine, Uploaded};
use blindsum_job::frames::of_party;
use blindsum_protocol::ServerRole;

use super::Engine;
use super::conditions::Conditions;
use super::driving::Driven;
use super::event::Who;

impl Driven for ServerRole {
    type Input = Input;
    type Effect = Effect;
    type Shown = ();

    fn who(self) -> Who {
        Who::Follower(self)
    }

    fn machine(self, engine: &mut Engine) -> Option<&mut ServerMachine> {
        engine.followers.get_mut(&self)?.machine.as_mut()
    }

    fn open<C: Conditions>(self, engine: &mut Engine, by: &mut C) -> Result<bool, C::Broken> {
        let machine = by.open_follower(engine, self);
        let (Some(machine), Some(server)) = (machine, engine.followers.get_mut(&self)) else {
            return Ok(false);
        };
        server.begins(machine);
        engine.transit.connect_later(by, self.who());
        if let Some(place) = self.place() {
            engine.transit.dial_from(by, place);
        }
        Ok(true)
    }

    fn carry_out<C: Conditions>(
        self,
        engine: &mut Engine,
        by: &mut C,
        effect: Effect,
    ) -> Result<(), C::Broken> {
        match effect {
            Effect::Send(on, say) => {
                for frame in of_party(say) {
                    by.follower_says(engine, self, &frame)?;
                    engine.send_up(by, self.who(), on, frame);
                }
            }
            Effect::Uploaded(id, what) => {
                let Some(((_, role), round)) = engine.transit.end_upload(id.0) else {
                    return Ok(());
                };
                if what == Uploaded::Taken {
                    by.follower_takes(engine, role, round)?;
                }
                let arrives = !by.loses_upload();
                let what = Some(what).filter(|_| arrives);
                engine.transit.answer_upload(by, id.0, what);
            }
            Effect::Letter { to, round, letter } => {
                if let Some(place) = self.place() {
                    let way = (place, to);
                    let letter = by.letter(engine, way, round, letter)?;
                    engine.transit.say(by, way, round, letter);
                }
            }
            Effect::Reconnect(on, reason) => engine.reconnect(by, self.who(), on, &reason),
            Effect::Over(end) => {
                if let Some(server) = engine.followers.get_mut(&self) {
                    server.machine = None;
                }
                engine.hang_up(self.who());
                engine.transit.silence(by, self);
                let returns = by.follower_over(engine, self, end)?;
                match (returns, engine.followers.get_mut(&self)) {
                    (Some(pause), _) => engine.transit.start_after(pause, self.who()),
                    (None, Some(server)) => server.over = true,
                    (None, None) => {}
                }
            }
        }
        Ok(())
    }
}
