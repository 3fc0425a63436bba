//! A coordinator whose rounds the test begins, as a host does.

use blindsum_job::calls::{Call, CallEnd, CallError, CallId};
use blindsum_job::coordinator::Input;
use blindsum_job::report::RoundReport;
use blindsum_job::store::Store;
use blindsum_protocol::JobSpec;

use crate::scene::{Scene, open};

impl Scene {
    /// A coordinator whose rounds a host begins, and its parties.
    pub fn hosted(spec: JobSpec, seed: u8) -> Self {
        let mut scene = Self::new(spec, seed);
        scene.server = open(
            &scene.job,
            &scene.anchor,
            &scene.store,
            scene.now,
            seed,
            None,
            true,
        );
        scene.carry_out();
        scene
    }

    /// The host calls a round.
    pub fn call(&mut self, tag: Option<u64>, parties: &[usize]) -> Result<CallId, CallError> {
        let call = Call {
            tag,
            about: None,
            parties: parties.iter().map(|i| format!("party-{i}")).collect(),
            model: None,
            join_within: None,
            deadline: None,
        };
        self.call_with(call)
    }

    pub fn call_with(&mut self, call: Call) -> Result<CallId, CallError> {
        let id = CallId(self.calls.len() as u64);
        self.give(Input::Call { id, call });
        assert_eq!(self.calls.len() as u64, id.0 + 1, "one word on each call");
        self.calls.last().unwrap().clone().map(|()| id)
    }

    /// The host reports a party as failed.
    pub fn report(&mut self, party: usize, reason: &str) {
        let name = self.parties[party].peer().name;
        let reason = reason.into();
        self.give(Input::PartyFailed { name, reason });
    }

    /// How the latest call ended that was taken; none if it has not.
    pub fn ended(&self) -> Option<&CallEnd> {
        let taken = self.calls.iter().rposition(Result::is_ok).unwrap();
        let latest = CallId(taken as u64);
        let end = self.call_ends.iter().find(|(id, _)| *id == latest);
        end.map(|(_, end)| end)
    }

    /// The rounds in the store.
    pub fn store_rounds(&self) -> Vec<RoundReport> {
        self.store.rounds("job", 99).unwrap()
    }
}
