//! The manager of leases in etcd, as the job's leases see it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blindsum_job::machine::Time;
use blindsum_job::membership::{Embedded, MembershipManager};
use tokio::sync::{Notify, mpsc};

use super::Word;

/// Keeps leases in etcd.
pub(crate) struct EtcdManager {
    words: mpsc::UnboundedSender<Word>,
    board: Arc<Board>,
    /// The same leases in this process: they count while etcd is away.
    local: Embedded,
    /// The number of each member's lease, and of the latest of all.
    terms: BTreeMap<Arc<str>, u64>,
    latest: u64,
}

/// What its keeper tells the manager.
pub(crate) struct Board {
    notes: Mutex<Notes>,
    news: Arc<Notify>,
}

#[derive(Default)]
struct Notes {
    away: bool,
    /// Leases that etcd ended, by their numbers.
    lost: Vec<(Arc<str>, u64)>,
}

impl Board {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Etcd cannot be reached any more, or can again.
    pub fn set_away(&self, away: bool) {
        self.notes().away = away;
        self.news.notify_one();
    }

    /// A lease has ended in etcd.
    pub fn is_lost(&self, name: Arc<str>, term: u64) {
        self.notes().lost.push((name, term));
        self.news.notify_one();
    }
}

impl EtcdManager {
    pub fn new(
        lease: Duration,
        words: mpsc::UnboundedSender<Word>,
        news: Arc<Notify>,
    ) -> (Self, Arc<Board>) {
        let notes = Mutex::default();
        let board = Arc::new(Board { notes, news });
        let manager = Self {
            words,
            board: board.clone(),
            local: Embedded::new(lease),
            terms: BTreeMap::new(),
            latest: 0,
        };
        (manager, board)
    }

    fn say(&self, word: Word) {
        // A keeper ends with its manager, and not before.
        let _ = self.words.send(word);
    }
}

impl MembershipManager for EtcdManager {
    fn grant(&mut self, now: Time, name: &Arc<str>) {
        self.local.grant(now, name);
        self.latest += 1;
        self.terms.insert(name.clone(), self.latest);
        self.say(Word::Grant(name.clone(), self.latest));
    }

    fn renew(&mut self, now: Time, name: &Arc<str>) {
        self.local.renew(now, name);
        self.say(Word::Renew(name.clone()));
    }

    fn release(&mut self, now: Time, name: &Arc<str>) {
        self.local.release(now, name);
        if self.terms.remove(name).is_some() {
            self.say(Word::Release(name.clone()));
        }
    }

    fn lost(&mut self, now: Time) -> Vec<Arc<str>> {
        let (told, away) = {
            let mut notes = self.board.notes();
            (std::mem::take(&mut notes.lost), notes.away)
        };
        // What is told of an earlier lease of somebody who has come back is no news.
        let told = told.into_iter();
        let mut lost: Vec<Arc<str>> = told
            .filter(|(name, term)| self.terms.get(name) == Some(term))
            .map(|(name, _)| name)
            .collect();
        for name in &lost {
            self.terms.remove(name);
            self.local.release(now, name);
        }
        if away {
            for name in self.local.lost(now) {
                self.terms.remove(&name);
                self.say(Word::Release(name.clone()));
                lost.push(name);
            }
        }
        lost
    }

    fn wake(&self) -> Option<Time> {
        self.local.wake().filter(|_| self.board.notes().away)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    fn manager() -> (EtcdManager, Arc<Board>, mpsc::UnboundedReceiver<Word>) {
        let (sender, words) = mpsc::unbounded_channel();
        let (manager, board) = EtcdManager::new(LEASE, sender, Arc::default());
        (manager, board, words)
    }

    #[test]
    fn etcd_says_which_leases_end_while_it_is_there() {
        let (mut manager, board, _words) = manager();
        manager.grant(at(0), &"a".into());
        assert_eq!(manager.wake(), None);
        assert!(manager.lost(at(100)).is_empty());
        board.is_lost("a".into(), 1);
        assert_eq!(manager.lost(at(101)), ["a".into()]);
        assert!(manager.lost(at(102)).is_empty());
    }

    #[test]
    fn an_end_of_an_earlier_lease_is_no_news() {
        let (mut manager, board, _words) = manager();
        manager.grant(at(0), &"a".into());
        manager.grant(at(1), &"a".into());
        board.is_lost("a".into(), 1);
        assert!(manager.lost(at(2)).is_empty());
        manager.release(at(3), &"a".into());
        board.is_lost("a".into(), 2);
        assert!(manager.lost(at(4)).is_empty());
    }

    #[test]
    fn while_etcd_is_away_leases_run_here() {
        let (mut manager, board, mut words) = manager();
        for name in ["a", "b"] {
            manager.grant(at(0), &name.into());
        }
        board.set_away(true);
        manager.renew(at(5), &"b".into());
        assert_eq!(manager.wake(), Some(at(10)));
        assert_eq!(manager.lost(at(10)), ["a".into()]);
        board.set_away(false);
        assert!(manager.lost(at(100)).is_empty());
        // When it is back it hears of what was lost meanwhile.
        let mut released = Vec::new();
        while let Ok(word) = words.try_recv() {
            if let Word::Release(name) = word {
                released.push(name);
            }
        }
        assert_eq!(released, ["a".into()]);
    }
}
