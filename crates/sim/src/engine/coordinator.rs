//! The coordinator, its side of connections, and its leases.

use blindsum_job::coordinator::{CoordinatorMachine, Effect, Input, Shown};
use blindsum_job::frames::of_coordinator;
use blindsum_job::pb::{self, PartyFrame};
use blindsum_protocol::ServerIndex;

use super::Engine;
use super::conditions::Conditions;
use super::driving::Driven;
use super::event::{Event, Micros, Who};

/// The coordinator.
#[derive(Clone, Copy)]
pub(super) struct Lead;

impl Driven for Lead {
    type Input = Input;
    type Effect = Effect;
    type Shown = Shown;

    fn who(self) -> Who {
        Who::Server
    }

    fn machine(self, engine: &mut Engine) -> Option<&mut CoordinatorMachine> {
        engine.coordinator.machine.as_mut()
    }

    fn open<C: Conditions>(self, engine: &mut Engine, by: &mut C) -> Result<bool, C::Broken> {
        engine.coordinator.life += 1;
        engine.leases = by.open_leases(engine);
        engine.coordinator.machine = Some(by.open_coordinator(engine)?);
        Ok(true)
    }

    fn carry_out<C: Conditions>(
        self,
        engine: &mut Engine,
        by: &mut C,
        effect: Effect,
    ) -> Result<(), C::Broken> {
        match effect {
            Effect::Admit(link) => {
                let connection = engine.coordinator.links.get_mut(&link.0);
                let waiting = connection.map(|connection| connection.session.admit());
                for frame in waiting.unwrap_or_default().into_iter().rev() {
                    engine.coordinator.heard.push_front((link.0, frame));
                }
                self.hears_more(engine, by);
            }
            Effect::Refuse(link, refused) => engine.last_word(by, link.0, refused, false),
            Effect::Send(link, say) => {
                let host = engine.transit.host(link.0);
                let frames = of_coordinator(say).map_err(|error| {
                    let what = format!("what is passed on: {error}");
                    by.fails(engine, what)
                })?;
                for frame in frames {
                    for frame in by.coordinator_says(host, frame) {
                        engine.send_down(by, link.0, frame);
                    }
                }
            }
            Effect::Close(link, refused) | Effect::Cut(link, refused) => {
                engine.last_word(by, link.0, refused, true);
            }
            Effect::Letter { to, round, letter } => {
                let way = (ServerIndex::ALL[0], to);
                let letter = by.letter(engine, way, round, letter)?;
                engine.transit.say(by, way, round, letter);
            }
            Effect::Lease(word) => {
                let now = engine.now().time;
                if let Some(leases) = &mut engine.leases {
                    leases.carry_out(now, word);
                }
            }
            Effect::Over(end) => by.coordinator_over(engine, end)?,
            // Nobody gives orders.
            Effect::Ordered { .. } | Effect::Called { .. } | Effect::CallEnded { .. } => {}
        }
        Ok(())
    }

    fn hears_more(self, engine: &mut Engine, by: &mut impl Conditions) -> bool {
        while let Some((link, frame)) = engine.coordinator.heard.pop_front() {
            if engine.hear(by, link, frame) {
                return true;
            }
        }
        false
    }
}

impl Engine {
    /// A frame of a party, or of another server, reaches the coordinator.
    pub(super) fn at_coordinator<C: Conditions>(
        &mut self,
        by: &mut C,
        link: u64,
        frame: PartyFrame,
    ) -> Result<(), C::Broken> {
        if let Some(connection) = self.coordinator.links.get(&link) {
            connection.count.came(1);
        }
        match self.hear(by, link, frame) {
            true => self.serve(by, Lead),
            false => Ok(()),
        }
    }

    /// Hears a frame. True if it is something for the machine, which has it now.
    fn hear(&mut self, by: &mut impl Conditions, link: u64, frame: PartyFrame) -> bool {
        let coordinator = &mut self.coordinator;
        let (Some(machine), Some(connection)) =
            (&coordinator.machine, coordinator.links.get_mut(&link))
        else {
            return false;
        };
        match connection.session.hear(&machine.gate(), frame) {
            Ok(None) => false,
            Ok(Some(input)) => {
                self.tell(Lead, input);
                true
            }
            Err(refused) => {
                let known = connection.session.is_known();
                self.last_word(by, link, refused, known);
                false
            }
        }
    }

    fn send_down(&mut self, by: &mut impl Conditions, link: u64, frame: pb::CoordinatorFrame) {
        if let Some(connection) = self.coordinator.links.get(&link) {
            connection.count.sent(1);
        }
        self.transit.send_down(by, link, frame);
    }

    /// The last word on a connection, after which it ends. `known` says whether the job knows of it.
    fn last_word(
        &mut self,
        by: &mut impl Conditions,
        link: u64,
        refused: pb::Refused,
        known: bool,
    ) {
        let reason = &refused.reason;
        by.event(
            self,
            format_args!("link {link} is ended by the coordinator: {reason}"),
        );
        self.send_down(by, link, refused.into());
        let (transit, reason) = (&mut self.transit, "the coordinator closed the connection");
        if let Some(connection) = self.coordinator.links.get(&link) {
            transit.close(link, connection.host, reason);
        }
        let (at, reason) = (Who::Server, reason.to_owned());
        match known {
            true => transit.agenda.after(0, Event::Ends { link, at, reason }),
            false => drop(self.coordinator.links.remove(&link)),
        }
    }

    /// Time passes until the next event: leases are renewed meanwhile, or run out.
    pub(super) fn leases_until<C: Conditions>(
        &mut self,
        by: &mut C,
        end: Micros,
    ) -> Result<(), C::Broken> {
        let wake = |engine: &Self| Some(engine.leases.as_ref()?.wake()?.0.as_micros() as Micros);
        while self.coordinator.machine.is_some()
            && let Some(wake) = wake(self).filter(|wake| *wake <= end)
        {
            self.transit.agenda.passes(wake);
            self.signs_of_life();
            let now = self.now().time;
            let leases = self.leases.as_mut();
            for name in leases.map_or_else(Vec::new, |leases| leases.lost(now)) {
                by.lease_ends(self, &name);
                self.hand(by, Lead, Input::LeaseLost { name })?;
            }
        }
        Ok(())
    }

    /// Whoever lives at the other end of a whole connection answers what the network asks of it.
    fn signs_of_life(&self) {
        for (link, connection) in &self.coordinator.links {
            if self.transit.is_whole(*link) && self.is_alive(connection.host) {
                connection.count.came(1);
            }
        }
    }
}
