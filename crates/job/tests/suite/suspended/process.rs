//! One process of a party, from one state to the next.

use super::*;

/// A process of a party.
pub(super) struct Process {
    pub(super) job: Arc<Job>,
    pub(super) party: usize,
    pub(super) machine: PartyMachine,
    pub(super) now: Now,
    pub(super) link: PartyLink,
    pub(super) said: Vec<PartyFrame>,
    pub(super) results: BTreeMap<u64, RoundResult>,
    pub(super) lost: Vec<JobError>,
    pub(super) over: bool,
}

impl Process {
    pub(super) fn give(&mut self, input: party::Input) {
        self.machine.handle(self.now, input);
        self.work();
    }

    pub(super) fn work(&mut self) {
        while let Some(effect) = self.machine.poll_working(self.now) {
            match effect {
                party::Effect::Send(link, say) if link == self.link => {
                    self.said.extend(of_party(say));
                }
                party::Effect::Send(..) => {}
                party::Effect::Upload { role, .. } => panic!("an upload to the {role}"),
                // The coordinator has ended it, and the next one is on its way.
                party::Effect::Reconnect(..) => {}
                party::Effect::Tell(told) => self.hear(told),
            }
        }
    }

    pub(super) fn hear(&mut self, told: Told) {
        match told {
            Told::Round(begun) if begun.needs_update => {
                let round = begun.number;
                let update = update(&self.job, self.party, round);
                let update =
                    party::check_update(&self.job, update, 1, &party::Metrics::new()).unwrap();
                self.machine
                    .handle(self.now, party::Input::Submit { round, update });
            }
            Told::Ended(round, Ok(result)) => {
                self.results.insert(round, *result);
                self.machine.handle(self.now, party::Input::Took(round));
                self.machine.handle(self.now, party::Input::WantRound);
            }
            Told::Ended(_, Err(error)) | Told::Refused(error) => self.lost.push(error),
            Told::Dropped(error) | Told::Over(Over::Failed(error)) => {
                panic!("party {}: {error}", self.party)
            }
            Told::Over(_) => self.over = true,
            Told::Round(_) | Told::Joined(_) | Told::Held(_) => {}
        }
    }
}
