//! The leases of an episode, and a manager of them that cannot be relied upon.
//!
//! What a manager elsewhere may do to a job, this one does: it loses leases of parties that live, it is away, and when it comes back it has all the
//! failures to tell that it missed. It draws from dice of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use blindsum_job::machine::Time;
use blindsum_job::membership::{Embedded, Leases, MembershipManager};

use super::faults::Dice;
use super::{Episode, Kind};
use crate::engine::{Engine, Micros};
use crate::seeds::stream;

/// The length of a lease: shorter than it may take until the coordinator learns that a connection broke.
const LEASE: Duration = Duration::from_secs(4);
/// How long the manager is away, at most.
const LONGEST_AWAY: Micros = 12_000_000;
/// How often, of the times that it is asked, the manager goes away and loses a lease.
const GOES_AWAY: f64 = 0.01;
const LOSES: f64 = 0.01;

/// A manager of leases in memory that fails.
struct Wayward {
    kept: Embedded,
    members: BTreeSet<Arc<str>>,
    dice: Dice,
    away: Time,
    /// Whether it can be relied upon from now on.
    calm: Arc<AtomicBool>,
}

impl Wayward {
    fn fails(&self) -> bool {
        !self.calm.load(Ordering::Relaxed)
    }

    /// A lease that is lost though its holder lives.
    fn loses(&mut self, now: Time) -> Option<Arc<str>> {
        if self.members.is_empty() || !self.dice.chance(LOSES) {
            return None;
        }
        let at = self.dice.below(self.members.len() as u64) as usize;
        let name = self.members.iter().nth(at)?.clone();
        self.release(now, &name);
        Some(name)
    }
}

impl MembershipManager for Wayward {
    fn grant(&mut self, now: Time, name: &Arc<str>) {
        self.members.insert(name.clone());
        self.kept.grant(now, name);
    }

    fn renew(&mut self, now: Time, name: &Arc<str>) {
        self.kept.renew(now, name);
    }

    fn release(&mut self, now: Time, name: &Arc<str>) {
        self.members.remove(name);
        self.kept.release(now, name);
    }

    fn lost(&mut self, now: Time) -> Vec<Arc<str>> {
        if self.fails() && now < self.away {
            return Vec::new();
        }
        if self.fails() && self.dice.chance(GOES_AWAY) {
            self.away = now + Duration::from_micros(self.dice.below(LONGEST_AWAY));
            return Vec::new();
        }
        let mut lost = self.kept.lost(now);
        for name in &lost {
            self.members.remove(name);
        }
        if self.fails() {
            lost.extend(self.loses(now));
        }
        lost
    }

    fn wake(&self) -> Option<Time> {
        let away = self.fails().then_some(self.away);
        let kept = self.kept.wake()?;
        Some(away.map_or(kept, |away| away.max(kept)))
    }
}

impl Episode {
    /// A coordinator that starts has leases for nobody.
    pub(super) fn new_leases(&mut self, engine: &Engine) -> Leases {
        if !matches!(self.setting.kind, Kind::Storm | Kind::Rollback) {
            self.calms_down();
        }
        let life = engine.coordinator.life;
        let manager = Wayward {
            kept: Embedded::new(LEASE),
            members: BTreeSet::new(),
            dice: Dice(stream("leases", &[self.setting.seed, life.into()])),
            away: Time::default(),
            calm: self.calm.clone(),
        };
        Leases::new(manager, LEASE)
    }

    /// From here on no manager fails.
    pub(super) fn calms_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }
}
