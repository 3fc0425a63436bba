//! Places for connections: a number of them in all, a number for each party and server, and none for a connection that is not used.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blindsum_job::coordinator::Who;
use tokio::sync::watch;

/// The connections of parties and servers.
pub(crate) struct Places {
    all: usize,
    of_one: usize,
    taken: Mutex<BTreeMap<Who, usize>>,
}

/// A connection's place; free again when it is dropped.
pub(crate) struct Place {
    who: Who,
    places: Arc<Places>,
}

impl Places {
    pub fn new(all: usize, of_one: usize) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { all, of_one, taken })
    }

    /// Reserves a place for a peer; the error names the limit that is reached.
    pub fn take(self: &Arc<Self>, who: Who) -> Result<Place, String> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<usize>() >= self.all {
            return Err(format!("connections = {} are there already", self.all));
        }
        let own = taken.entry(who.clone()).or_default();
        // guard: places-per-certificate
        if *own >= self.of_one {
            let most = self.of_one;
            return Err(format!("it has connections_per_party = {most} already"));
        }
        *own += 1;
        Ok(Place {
            who,
            places: self.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let taken = self.places.taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut own) = taken.entry(self.who.clone()) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

/// How many calls are under way over one connection.
#[derive(Clone)]
pub(crate) struct Calls(Arc<watch::Sender<usize>>);

/// A call under way, until it is dropped.
pub(crate) struct Calling(Calls);

impl Calls {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// One more.
    pub fn begin(&self) -> Calling {
        self.0.send_modify(|calls| *calls += 1);
        Calling(self.clone())
    }

    /// Waits until there was no call for so long; for ever where the connection ends before.
    pub fn idle_for(&self, time: Duration) -> impl Future<Output = ()> + use<> {
        let mut calls = self.0.subscribe();
        async move {
            while calls.wait_for(|calls| *calls == 0).await.is_ok() {
                let busy = calls.wait_for(|calls| *calls > 0);
                if tokio::time::timeout(time, busy).await.is_err() {
                    return;
                }
            }
            std::future::pending().await
        }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.0.send_modify(|calls| *calls -= 1);
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::ServerRole;

    use super::*;

    #[test]
    fn case_58_places_come_back_with_who_had_them() {
        let places = Places::new(3, 2);
        let [a, b] = ["a", "b"].map(|name| Who::Party(name.into()));
        let take = |who: &Who| places.take(who.clone());
        let first = [take(&a).unwrap(), take(&a).unwrap()];
        let refused = |who| take(who).err().unwrap();
        assert!(refused(&a).contains("connections_per_party = 2"));
        let other = take(&b).unwrap();
        assert!(refused(&b).contains("connections = 3"));
        drop((first, other));
        assert!(places.taken.lock().unwrap().is_empty());
        // A party under the host of a server takes none of its places.
        let server = Who::Server(ServerRole::Second);
        let of_party = [take(&a).unwrap(), take(&a).unwrap()];
        assert!(take(&server).is_ok());
        drop(of_party);
    }
}
