//! The leases of a job's parties, and what renews them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Lease, MembershipManager};
use crate::machine::Time;
use crate::traffic::Traffic;

/// Looks at connections in the time of one lease: a sign of life counts from the look on that sees it.
const LOOKS: u32 = 4;

/// The leases of a job's parties, at the program that drives its coordinator. That program hands in what the
/// coordinator's machine says of them, and tells the machine whose lease was [`lost`](Self::lost): also while the
/// machine computes, since nobody's lease may run out because the coordinator is busy.
pub struct Leases {
    manager: Box<dyn MembershipManager>,
    every: Duration,
    holders: BTreeMap<Arc<str>, Holder>,
    /// When to look at the connections.
    look: Time,
}

/// A party with a lease.
struct Holder {
    traffic: Arc<dyn Traffic>,
    /// Bytes that had come over its connection at the latest look.
    heard: u64,
}

impl Leases {
    /// Kept by this manager, each of this length.
    pub fn new(manager: impl MembershipManager + 'static, lease: Duration) -> Self {
        Self {
            manager: Box::new(manager),
            every: lease / LOOKS,
            holders: BTreeMap::new(),
            look: Time::default(),
        }
    }

    /// Time between two signs of life, at most, of a party that keeps a lease of this length.
    pub fn sign_every(lease: Duration) -> Duration {
        lease / LOOKS
    }

    /// Does what the coordinator's machine says.
    pub fn carry_out(&mut self, now: Time, word: Lease) {
        match word {
            Lease::Grant { name, traffic } => {
                if self.holders.is_empty() {
                    self.look = now + self.every;
                }
                self.manager.grant(now, &name);
                let heard = traffic.read();
                self.holders.insert(name, Holder { traffic, heard });
            }
            Lease::Release { name } => {
                self.manager.release(now, &name);
                self.holders.remove(&name);
            }
        }
    }

    /// Whose lease has run out: each is told once.
    pub fn lost(&mut self, now: Time) -> Vec<Arc<str>> {
        // A sign of life that nobody has looked at yet counts, however late this is called.
        if self.wake().is_some_and(|wake| wake <= now) {
            self.look(now);
        }
        let mut lost = self.manager.lost(now);
        lost.retain(|name| self.holders.remove(name).is_some());
        lost
    }

    /// When to call [`lost`](Self::lost), unless something happens before.
    pub fn wake(&self) -> Option<Time> {
        let look = (!self.holders.is_empty()).then_some(self.look);
        look.into_iter().chain(self.manager.wake()).min()
    }

    /// Whoever has said anything since the latest look lives.
    fn look(&mut self, now: Time) {
        for (name, holder) in &mut self.holders {
            let heard = holder.traffic.read();
            if std::mem::replace(&mut holder.heard, heard) != heard {
                self.manager.renew(now, name);
            }
        }
        self.look = now + self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Embedded;
    use super::*;
    use crate::session::Count;

    const LEASE: Duration = Duration::from_secs(8);

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    fn granted(leases: &mut Leases, now: Time, name: &str) -> Arc<Count> {
        let traffic = Arc::<Count>::default();
        let grant = Lease::Grant {
            name: name.into(),
            traffic: traffic.clone(),
        };
        leases.carry_out(now, grant);
        traffic
    }

    fn embedded() -> Leases {
        Leases::new(Embedded::new(LEASE), LEASE)
    }

    /// Whose lease is lost by this time, where nothing else happens.
    fn until(leases: &mut Leases, end: Time) -> Vec<(Time, Arc<str>)> {
        let mut lost = Vec::new();
        while let Some(now) = leases.wake().filter(|wake| *wake <= end) {
            lost.extend(leases.lost(now).into_iter().map(|name| (now, name)));
        }
        lost
    }

    #[test]
    fn a_lease_without_a_sign_of_life_runs_out_once() {
        let mut leases = embedded();
        granted(&mut leases, at(1), "a");
        assert_eq!(until(&mut leases, at(100)), [(at(9), "a".into())]);
        assert_eq!(leases.wake(), None);
    }

    #[test]
    fn signs_of_life_renew_a_lease() {
        let mut leases = embedded();
        let traffic = granted(&mut leases, at(0), "a");
        for second in 1..40 {
            traffic.came(1);
            assert_eq!(until(&mut leases, at(second)), []);
        }
        // The latest of them was seen at second 40.
        assert_eq!(until(&mut leases, at(100)), [(at(48), "a".into())]);
    }

    #[test]
    fn who_leaves_or_comes_back_loses_nothing() {
        let mut leases = embedded();
        granted(&mut leases, at(0), "a");
        granted(&mut leases, at(0), "b");
        let name = "a".into();
        leases.carry_out(at(2), Lease::Release { name });
        // Another connection: what came over the older one is no sign of life any more.
        granted(&mut leases, at(7), "b");
        assert_eq!(until(&mut leases, at(14)), []);
        assert_eq!(until(&mut leases, at(15)), [(at(15), "b".into())]);
        granted(&mut leases, at(20), "b");
        assert_eq!(until(&mut leases, at(100)), [(at(28), "b".into())]);
    }

    /// A coordinator that was busy, or stopped for a while, blames nobody for it.
    #[test]
    fn a_sign_that_nobody_looked_at_counts() {
        let mut leases = embedded();
        let traffic = granted(&mut leases, at(0), "a");
        granted(&mut leases, at(0), "b");
        traffic.came(1);
        assert_eq!(leases.lost(at(1000)), ["b".into()]);
        assert_eq!(leases.lost(at(1007)), []);
        assert_eq!(leases.lost(at(1008)), ["a".into()]);
    }
}
