//! What speaks with etcd for a manager: it makes leases and keys there, renews them, and sees which of them end.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::foreign;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Status;
use tracing::{info, warn};

use super::Word;
use super::client::{Both, Client, Endpoint, Members, key_of, name_in};
use super::manager::Board;
use crate::NetError;
use crate::connect::PAUSES;
use blindsum_etcd as pb;
use blindsum_etcd::event::EventType;

/// Time for an answer to a renewal, at least.
const MIN_ANSWER_TIME: Duration = Duration::from_secs(2);

/// Keeps the leases of one job in etcd until its manager is gone.
pub(crate) struct Keeper {
    job: String,
    /// What the keys of members begin with.
    prefix: Vec<u8>,
    /// The time of a lease, in etcd's whole seconds.
    seconds: i64,
    endpoint: Endpoint,
    words: mpsc::UnboundedReceiver<Word>,
    board: Arc<Board>,
    members: BTreeMap<Arc<str>, Kept>,
    /// Leases of nobody, which are still to be ended.
    idle: Vec<i64>,
    session: Option<Session>,
    /// Time for an answer to a renewal: one that comes later may come too late for its lease.
    answer_time: Duration,
}

/// A member.
#[derive(Default)]
struct Kept {
    /// The number of its lease at the manager.
    term: u64,
    /// Its lease in etcd, once it has one there.
    lease: Option<i64>,
    /// The state of the keys in which its key was written: what ended before it is another lease.
    revision: i64,
}

/// A connection with its streams.
struct Session {
    client: Client,
    watch: Both<pb::WatchRequest, pb::WatchResponse>,
    renewals: Both<pb::LeaseKeepAliveRequest, pb::LeaseKeepAliveResponse>,
    /// Until when a renewal must have been answered, where one was not.
    due: Option<Instant>,
}

/// What happens next.
enum Next {
    Word(Word),
    Seen(pb::WatchResponse),
    Renewed,
    Broken(String),
    End,
}

impl Keeper {
    /// # Errors
    /// Etcd cannot be reached, or does not take this side's word.
    pub(super) async fn open(
        endpoint: Endpoint,
        job: &str,
        lease: Duration,
        words: mpsc::UnboundedReceiver<Word>,
        board: Arc<Board>,
    ) -> Result<Self, NetError> {
        let mut keeper = Self {
            job: job.into(),
            prefix: format!("/blindsum/{job}/members/").into_bytes(),
            seconds: lease.as_secs_f64().ceil() as i64,
            endpoint,
            words,
            board,
            members: BTreeMap::new(),
            idle: Vec::new(),
            session: None,
            answer_time: MIN_ANSWER_TIME.max(lease / 2),
        };
        let session = keeper.begin().await;
        let session = session.map_err(|reason| NetError::config("membership", reason))?;
        keeper.session = Some(session);
        info!(job, "leases are in etcd");
        Ok(keeper)
    }

    /// Keeps leases until there is no manager.
    pub async fn run(mut self) {
        loop {
            match &mut self.session {
                Some(_) => {
                    let Err(reason) = self.keep().await else {
                        return self.end().await;
                    };
                    self.session = None;
                    self.board.set_away(true);
                    warn!(job = %self.job, %reason, "etcd cannot be reached: until it is back leases run in this process");
                }
                None => match self.come_back().await {
                    Some(session) => {
                        self.session = Some(session);
                        self.board.set_away(false);
                        info!(job = %self.job, leases = self.members.len(), "etcd is back: leases are there again");
                    }
                    None => return,
                },
            }
        }
    }

    /// Until there is no manager any more, or etcd cannot be reached.
    async fn keep(&mut self) -> Result<(), String> {
        loop {
            match self.next().await {
                Next::End => return Ok(()),
                Next::Broken(reason) => return Err(reason),
                Next::Word(word) => self.carry_out(word).await?,
                Next::Seen(seen) => self.seen(seen)?,
                // What it says of a lease that has ended is seen at its key.
                Next::Renewed => self
                    .session
                    .iter_mut()
                    .for_each(|session| session.due = None),
            }
        }
    }

    async fn next(&mut self) -> Next {
        let Some(session) = &mut self.session else {
            return Next::Broken("there is no connection".into());
        };
        let Session {
            client,
            watch,
            renewals,
            due,
        } = session;
        let late = async {
            match *due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            seen = watch.heard.message() => heard(client, seen).map_or_else(Next::Broken, Next::Seen),
            renewed = renewals.heard.message() => {
                heard(client, renewed).map_or_else(Next::Broken, |_| Next::Renewed)
            }
            () = late => Next::Broken("it does not answer in time".into()),
            word = self.words.recv() => word.map_or(Next::End, Next::Word),
        }
    }

    async fn carry_out(&mut self, word: Word) -> Result<(), String> {
        let renewed = match &word {
            Word::Renew(name) => self.members.get(name).and_then(|kept| kept.lease),
            _ => None,
        };
        let granted = match &word {
            Word::Grant(name, _) => Some(name.clone()),
            _ => None,
        };
        self.note(word);
        let Some(session) = &mut self.session else {
            return Err("there is no connection".into());
        };
        if let Some(id) = renewed {
            // Where too many wait, etcd is slow: the next renewal comes long before the lease ends.
            let _ = (session.renewals.sender).try_send(pb::LeaseKeepAliveRequest { id });
            (session.due).get_or_insert(Instant::now() + self.answer_time);
        }
        if let Some(name) = granted {
            let key = key_of(&self.prefix, &name);
            let made = make(&mut session.client, key, self.seconds).await?;
            self.made(&name, made);
        }
        self.end_idle().await
    }

    /// What a word changes, whether etcd is there or not.
    fn note(&mut self, word: Word) {
        match word {
            Word::Grant(name, term) => {
                let kept = self.members.entry(name).or_default();
                kept.term = term;
                // The key moves to a new lease before the older one ends.
                self.idle.extend(kept.lease.take());
            }
            Word::Renew(_) => {}
            Word::Release(name) => {
                let kept = self.members.remove(&name);
                self.idle.extend(kept.and_then(|kept| kept.lease));
            }
        }
    }

    fn made(&mut self, name: &Arc<str>, (lease, revision): (i64, i64)) {
        if let Some(kept) = self.members.get_mut(name) {
            (kept.lease, kept.revision) = (Some(lease), revision);
        }
    }

    async fn end_idle(&mut self) -> Result<(), String> {
        while let (Some(id), Some(session)) = (self.idle.pop(), &mut self.session) {
            session.client.revoke(id).await?;
        }
        Ok(())
    }

    /// Keys that have gone: their members have failed.
    fn seen(&mut self, seen: pb::WatchResponse) -> Result<(), String> {
        if seen.canceled {
            let reason = foreign(&seen.cancel_reason);
            return Err(format!("it does not watch the keys any more: {reason}"));
        }
        let gone = |event: pb::Event| match event.r#type() {
            EventType::Delete => event.kv,
            EventType::Put => None,
        };
        for kv in seen.events.into_iter().filter_map(gone) {
            let Some(name) = name_in(&self.prefix, &kv.key) else {
                continue;
            };
            let is_this = |kept: &mut Kept| kept.lease.is_some() && kept.revision < kv.mod_revision;
            if self.members.get_mut(&name).is_some_and(is_this)
                && let Some(kept) = self.members.remove(&name)
            {
                self.board.is_lost(name, kept.term);
            }
        }
        Ok(())
    }

    /// A connection, once there is one; none where there is no manager any more.
    async fn come_back(&mut self) -> Option<Session> {
        let (mut pause, longest) = PAUSES;
        loop {
            {
                let mut over = pin!(sleep(Duration::from_secs_f64(pause)));
                loop {
                    tokio::select! {
                        word = self.words.recv() => match word {
                            Some(word) => self.note(word),
                            None => return None,
                        },
                        () = &mut over => break,
                    }
                }
            }
            // Who left meanwhile is not made a member again.
            while let Ok(word) = self.words.try_recv() {
                self.note(word);
            }
            if let Ok(session) = self.begin().await {
                return Some(session);
            }
            pause = longest.min(2.0 * pause);
        }
    }

    /// Connects, and makes what is not in etcd, or not any more.
    async fn begin(&mut self) -> Result<Session, String> {
        let (mut client, there) = self.endpoint.connect(&self.prefix).await?;
        let Members { leases, revision } = there;
        let watch = client
            .watch(&self.prefix, revision.saturating_add(1))
            .await?;
        let renewals = client.renewals().await?;
        for (name, kept) in &mut self.members {
            let has_key = kept.lease.is_some() && leases.get(name) == kept.lease.as_ref();
            if let Some(id) = kept.lease.filter(|_| has_key) {
                let _ = (renewals.sender).try_send(pb::LeaseKeepAliveRequest { id });
                continue;
            }
            let key = key_of(&self.prefix, name);
            let (lease, revision) = make(&mut client, key, self.seconds).await?;
            (kept.lease, kept.revision) = (Some(lease), revision);
        }
        while let Some(id) = self.idle.pop() {
            client.revoke(id).await?;
        }
        Ok(Session {
            client,
            watch,
            renewals,
            due: None,
        })
    }

    /// Nobody is a member any more: the keys go with their leases.
    async fn end(mut self) {
        let leases = self.members.values().filter_map(|kept| kept.lease);
        self.idle.extend(leases);
        // What etcd does not hear ends by itself.
        let _ = self.end_idle().await;
    }
}

/// Makes a lease and a key that lives as long; gives both, the key by the state of the keys.
async fn make(client: &mut Client, key: Vec<u8>, seconds: i64) -> Result<(i64, i64), String> {
    let lease = client.grant(seconds).await?;
    let revision = client.put(key, lease).await?;
    Ok((lease, revision))
}

/// What came over a stream, or why nothing comes any more.
fn heard<T>(client: &Client, message: Result<Option<T>, Status>) -> Result<T, String> {
    match message {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err("the stream has ended".into()),
        Err(status) => Err(client.words(&status)),
    }
}
