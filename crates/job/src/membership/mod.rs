//! Who is a live member of a job.
//!
//! A party that is let in gets a *lease*. Every sign of life on its connection renews it. A lease that runs out means a
//! failed learner: the round under way goes on without it, and the next one is formed without it. When the party comes
//! back it gets a new lease.
//!
//! The coordinator's machine says who is let in and who leaves ([`Lease`]), and hears of leases that ran out
//! ([`Input::LeaseLost`](crate::coordinator::Input::LeaseLost)). Between the two stand [`Leases`], which see the signs of life, and
//! a [`MembershipManager`] (MYSTIKO §III), which keeps the leases: in the process ([`Embedded`]), or elsewhere.

mod embedded;
mod leases;

use std::sync::Arc;

pub use embedded::Embedded;
pub use leases::Leases;

use crate::machine::Time;
use crate::traffic::Traffic;

/// Keeps the leases of one job. It has no clock: time comes in with each call.
pub trait MembershipManager: Send {
    /// A party was let in. It is a member now, with a lease that begins at this time.
    fn grant(&mut self, now: Time, name: &Arc<str>);

    /// A member has given a sign of life: its lease begins anew.
    fn renew(&mut self, now: Time, name: &Arc<str>);

    /// A party has left by itself, or was sent away: its lease ends, and nobody is told.
    fn release(&mut self, now: Time, name: &Arc<str>);

    /// Whose lease has run out. Each is told once, and is no member any more.
    fn lost(&mut self, now: Time) -> Vec<Arc<str>>;

    /// When to ask for [`lost`](Self::lost) again though nothing happens before; none where nothing runs out by itself.
    fn wake(&self) -> Option<Time>;
}

/// What becomes of a lease, as the coordinator's machine says it.
pub enum Lease {
    /// A party was let in, by a connection over which so much comes: each byte is a sign of life.
    Grant {
        /// The party.
        name: Arc<str>,
        /// The bytes of its connection.
        traffic: Arc<dyn Traffic>,
    },
    /// A party has left by itself, or was sent away.
    Release {
        /// The party.
        name: Arc<str>,
    },
}
