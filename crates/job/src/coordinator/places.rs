//! The places in a round: what somebody has answered and not, and whether it is waited for; and those of its other servers.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_protocol::{Round, ServerIndex, ServerRole};

use super::lost::Lost;
use super::owed::Owed;

/// A party of the round, or another server.
#[derive(Default)]
pub(super) struct Place {
    /// The stage behind that of its latest answer that was taken; 0 where there is none.
    pub answers: u32,
    /// What it has not answered.
    pub owed: Owed,
    /// Whether its connection was lost.
    pub lost: Option<Lost>,
    /// Whether it is not waited for any more.
    pub gone: Option<Gone>,
}

/// Why somebody is not waited for any more.
pub(super) struct Gone {
    pub reason: String,
    /// Whether it was told so. Somebody whose vector may be in the sum is told what became of the round when
    /// that is known.
    pub told: bool,
    /// Whether its vector may be in the sum.
    pub may_count: bool,
}

/// The other servers of a round.
pub(super) struct RoundServers {
    places: BTreeMap<ServerRole, Place>,
    /// How many stages there are, where no sum can be opened without every server.
    needed_in: Option<usize>,
    /// Those that have sent what they must not send.
    lied: BTreeSet<ServerRole>,
    /// How many letters each of them has said.
    letters: BTreeMap<ServerRole, u32>,
}

impl RoundServers {
    pub fn of(round: &Round) -> Self {
        let (plan, servers) = (round.plan(), round.servers());
        let stages = plan.answers().count();
        Self {
            places: servers.map(|role| (role, Place::default())).collect(),
            needed_in: plan.needs_all_servers().then_some(stages),
            lied: BTreeSet::new(),
            letters: BTreeMap::new(),
        }
    }

    pub fn roles(&self) -> impl Iterator<Item = ServerRole> {
        self.places.keys().copied()
    }

    pub fn place(&self, role: ServerRole) -> Option<&Place> {
        self.places.get(&role)
    }

    pub fn place_mut(&mut self, role: ServerRole) -> Option<&mut Place> {
        self.places.get_mut(&role)
    }

    /// Those that have something to say yet, where no sum can be opened without every one.
    pub fn needed(&self) -> impl Iterator<Item = (&ServerRole, &Place)> {
        let stages = self.needed_in.unwrap_or(0);
        let silent = move |place: &Place| (place.answers as usize) < stages;
        self.places.iter().filter(move |(_, place)| silent(place))
    }

    /// One that has lost its part in the round, without which no sum can be opened, and why.
    pub fn lacking(&self) -> Option<(ServerRole, &str)> {
        self.needed()
            .find_map(|(role, place)| Some((*role, &*place.gone.as_ref()?.reason)))
    }

    /// A server has said something to this one.
    pub fn has_spoken(&mut self, from: ServerIndex) {
        if let Some(role) = ServerRole::at(from) {
            *self.letters.entry(role).or_default() += 1;
        }
    }

    /// How many letters a server has said.
    pub fn letters(&self, role: ServerRole) -> u32 {
        self.letters.get(&role).copied().unwrap_or(0)
    }

    /// A server has sent what it must not send.
    pub fn misbehaved(&mut self, role: ServerRole) {
        self.lied.insert(role);
    }

    /// Whether it has.
    pub fn has_misbehaved(&self, role: ServerRole) -> bool {
        self.lied.contains(&role)
    }
}
