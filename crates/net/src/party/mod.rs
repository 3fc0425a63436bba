//! A party of a job: joins a coordinator, gives one update in each round, and gets the mean.
//!
//! [`Party`] and [`RoundHandle`] have plain blocking calls. The network, the protocol's stages and reconnections run on
//! other threads while the caller trains.
//!
//! ```no_run
//! use blindsum_net::Credentials;
//! use blindsum_net::party::{Party, PartyConfig};
//!
//! # fn train(model: &blindsum_net::Model) -> Vec<f64> { model.values().iter().collect() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let read = std::fs::read_to_string;
//! let credentials = Credentials::new(read("party.pem")?, read("party.key")?, read("ca.pem")?);
//! let mut party = Party::join(PartyConfig::new("https://agg.example:9443", "job", credentials))?;
//! while let Some(mut round) = party.next_round()? {
//!     let update = train(round.model());
//!     round.submit(update, 1)?;
//!     let result = round.result()?;
//!     println!("{} parties", result.survivors.len());
//! }
//! # Ok(()) }
//! ```

mod attempts;
mod caller;
mod config;
mod driver;
mod holding;
mod ledger;
mod records;
mod renewal;
mod round;
mod uploads;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use blindsum_job::ledger::LedgerFile;
use blindsum_job::machine::Now;
pub use blindsum_job::party::{
    Absence, Clipped, Departure, Metrics, Policy, PrivacySpent, RoundResult, Settings, Timings,
    Update,
};
use blindsum_job::party::{Identity, Input, LinkId, PartyMachine};
use blindsum_job::records::Records;
use blindsum_protocol::{Job, Tag};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tracing::debug;

use crate::address::Address;
use crate::connect::Target;
use crate::drive::Drive;
use crate::system::{Clock, entropy};
use crate::tls::{OwnIdentity, Reload};
use crate::{JobError, Model, NetError, Room, Task, seconds};
use attempts::Attempts;
use caller::Caller;
pub use config::{MASK_MEMORY, PartyConfig};
use driver::Driver;
pub(crate) use driver::queued;
pub use holding::Holding;
pub use ledger::FileLedger;
pub(crate) use records::FileRecords;
pub use round::RoundHandle;
use uploads::Uploads;

/// Time for a party to say that it leaves, and for what it computes to end.
const GOODBYE: Duration = Duration::from_secs(2);

/// What the caller is told.
enum Notice {
    Joined(Arc<Job>),
    Round(Box<RoundHandle>),
    /// A round that the party refuses, or one from before it was started again, which counts its update; the next one
    /// may be better.
    Refused(NetError),
    /// Operators let no round begin, or let the job go on.
    Held,
    JobDone(Option<Model>, String),
    Failed(NetError),
}

/// A member of a job. Dropping it leaves the job; [`Party::leave`] also waits until the coordinator knows.
pub struct Party {
    name: String,
    job: Arc<Job>,
    reload: Reload,
    notices: Receiver<Notice>,
    commands: UnboundedSender<Input>,
    /// Whether the party was told that the caller waits for a round, and for which tag.
    asked: Option<Option<Tag>>,
    /// The round that the caller got last.
    handed: Option<u64>,
    over: bool,
    /// Why the party cannot go on, once it cannot.
    failed: Option<String>,
    final_model: Option<Model>,
    /// Why the job was done before its rounds were.
    done_early: String,
    holding: Holding,
    /// Why operators let no round begin, as the caller was told last.
    told_held: String,
    /// Runs the connection, which is a task; ended in the background when the party is dropped. None where others keep it.
    runtime: Option<(Runtime, JoinHandle<()>)>,
}

/// The result of [`Party::wait_round`].
pub enum NextRound {
    /// A round begins.
    Round(Box<RoundHandle>),
    /// A round begins without this party, because its policy or its state refuses the round. Or a round from before
    /// this process was started counts its update ([`JobError::Missed`]). The caller may wait for the next round.
    Refused(NetError),
    /// Operators of the coordinator let no round begin, for this reason in their words; empty where rounds begin again. The
    /// caller may wait for the next round.
    Held(String),
    /// No more rounds will come.
    JobDone,
    /// Nothing has happened yet.
    Waiting,
}

impl Party {
    /// Connects to the coordinator and learns the job.
    ///
    /// # Errors
    /// Credentials that cannot be used; a coordinator that cannot be reached, is not trusted, or refuses this party; a
    /// job that breaks the policy.
    pub fn join(config: PartyConfig) -> Result<Self, NetError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("blindsum-party")
            .enable_all()
            .build()
            .map_err(NetError::system)?;
        let (mut party, task) = Self::join_on(config, runtime.handle())?;
        party.runtime = Some((runtime, task));
        Ok(party)
    }

    /// The same on threads that somebody else keeps, until the task has ended.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn join_on(
        config: PartyConfig,
        threads: &Handle,
    ) -> Result<(Self, JoinHandle<()>), NetError> {
        config.check()?;
        let identity = config.credentials.identity()?;
        let side = identity.side.clone();
        let tls = side.current().config.clone();
        let server_name = config.server_name.as_deref();
        let (address, keepalive) = (
            Address::parse("url", &config.url)?,
            seconds(config.keepalive),
        );
        let target = Target::coordinator(address, server_name, tls, keepalive)?;
        let (commands, received) = tokio::sync::mpsc::unbounded_channel();
        let uploads = Uploads::new(&config, side.current().to_servers.clone(), commands.clone())?;
        let has_servers = uploads.has_servers();
        let (sender, notices) = channel();
        let name = identity.name.clone();
        let clock = Clock::new(side.clock().clone());
        let holding = Holding::default();
        let driver = Driver {
            drive: Drive::new(
                machine(&config, &identity, clock.now())?,
                clock,
                identity.name.clone(),
            ),
            attempts: Attempts::new(config.give_up_after),
            config,
            identity,
            target,
            uploads,
            received,
            caller: Caller::new(sender, commands.clone(), holding.clone()),
            link: LinkId::default(),
            outbox: None,
            gave_up: None,
        };
        let (ends, ended) = channel::<()>();
        let task = threads.spawn(async move {
            driver.run().await;
            drop(ends);
        });
        threads.spawn(side.clone().watch());
        let job = joined(&notices).inspect_err(|_| {
            // The coordinator is told why this party refuses the job.
            let _ = ended.recv_timeout(GOODBYE);
        })?;
        let needs_servers = job.computing_servers().next().is_some();
        if needs_servers != has_servers {
            let reason = "its list of servers does not fit the job".into();
            let _ = commands.send(Input::Leave(Departure::Failed(reason)));
            let _ = ended.recv_timeout(GOODBYE);
            let rule = match needs_servers {
                true => {
                    "must be the URLs of the three servers, in order: parties of this job upload to all of them"
                }
                false => {
                    "the coordinator's job has no other servers, so updates are not split among three; if that \
                     is the agreed job, give only the coordinator's URL"
                }
            };
            return Err(NetError::config("servers", rule));
        }
        if let Err(error) = Room::now().check(&job, Task::Party) {
            let reason = "it has too little memory for the job".into();
            let _ = commands.send(Input::Leave(Departure::Failed(reason)));
            let _ = ended.recv_timeout(GOODBYE);
            return Err(error);
        }
        let party = Self {
            name,
            job,
            reload: Reload::of(side),
            notices,
            commands,
            asked: None,
            handed: None,
            over: false,
            failed: None,
            final_model: None,
            done_early: String::new(),
            holding,
            told_held: String::new(),
            runtime: None,
        };
        Ok((party, task))
    }

    /// The party's name, as in its certificate.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The job, as the coordinator announced it. The policy allows it.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Gives a way to make the party read its certificate, its key, the CA and the revocation list again, if they come
    /// from files. It also does so by itself, within seconds of a change of one of the files. A new revocation list
    /// counts from the next round on. A new certificate is shown over a new connection as soon as the party is in no
    /// round.
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// The job's last model, once [`Party::next_round`] has said that no more rounds will come. `None` if the
    /// coordinator does not know it and this party missed the last round.
    pub fn final_model(&self) -> Option<&Model> {
        self.final_model.as_ref()
    }

    /// The coordinator's reason why the job was done before its last round; empty before the end, and if all rounds
    /// were done.
    pub fn done_early(&self) -> &str {
        &self.done_early
    }

    /// Gives a way to see why operators of the coordinator let no round begin, if they do.
    pub fn holding(&self) -> Holding {
        self.holding.clone()
    }

    /// Waits for the next round; `None` if there will be no more. A party takes part in a round only when it waits for
    /// one.
    ///
    /// # Errors
    /// The connection is lost for longer than `give_up_after`, or the coordinator refuses this party or cannot be
    /// trusted; every later call gives [`NetError::Ended`] with the same reason. A round that this party refuses or
    /// misses is an error, too, as [`NextRound::Refused`] says; more rounds may come after it.
    pub fn next_round(&mut self) -> Result<Option<RoundHandle>, NetError> {
        loop {
            match self.wait_round(Duration::from_secs(3600))? {
                NextRound::Round(round) => return Ok(Some(*round)),
                NextRound::Refused(error) => return Err(error),
                NextRound::JobDone => return Ok(None),
                NextRound::Held(_) | NextRound::Waiting => {}
            }
        }
    }

    /// Waits for the next round, but for at most `timeout`.
    ///
    /// # Errors
    /// Those of [`Party::next_round`].
    pub fn wait_round(&mut self, timeout: Duration) -> Result<NextRound, NetError> {
        self.wait_tag(None, timeout)
    }

    /// The same for a round with this tag, where the host of the job gives its rounds tags: rounds of earlier tags are passed
    /// over. With `None` it is any round.
    ///
    /// # Errors
    /// Those of [`Party::next_round`]. [`NextRound::Refused`] with [`JobError::OtherTag`](crate::JobError::OtherTag) where a
    /// round of a later tag is offered, or one without a tag.
    pub fn wait_tag(&mut self, tag: Option<Tag>, timeout: Duration) -> Result<NextRound, NetError> {
        let until = Instant::now() + timeout;
        if self.over {
            return Ok(NextRound::JobDone);
        }
        if let Some(reason) = self.failed.clone() {
            return Err(NetError::Ended { reason });
        }
        if self.asked != Some(tag) {
            self.asked = Some(tag);
            // Whoever asks for the next round wants no more of the one before.
            if let Some(number) = self.handed.take() {
                let _ = self.commands.send(Input::Took(number));
            }
            self.want(tag);
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.notices.recv_timeout(left) {
                Ok(Notice::Round(mut round)) => match round.over_already() {
                    Some(error) => {
                        debug!(round = round.number(), %error, "over before it was looked at");
                        self.want(tag);
                    }
                    // It came when the caller waited for another one.
                    None if tag.is_some_and(|tag| !tag.takes(round.tag())) => {
                        drop(round);
                        self.want(tag);
                    }
                    None => {
                        self.asked = None;
                        self.handed = Some(round.number());
                        return Ok(NextRound::Round(round));
                    }
                },
                // It is of the tag for which the caller waited before.
                Ok(Notice::Refused(NetError::Job(
                    JobError::OtherTag { wanted, .. } | JobError::AboutOther { tag: wanted, .. },
                ))) if tag.is_none_or(|tag| tag.number != wanted) => {}
                Ok(Notice::Refused(error)) => {
                    self.asked = None;
                    return Ok(NextRound::Refused(error));
                }
                Ok(Notice::Held) => {
                    let reason = self.holding.announced();
                    if reason != self.told_held {
                        self.told_held.clone_from(&reason);
                        return Ok(NextRound::Held(reason));
                    }
                }
                Ok(Notice::JobDone(model, reason)) => {
                    self.over = true;
                    (self.final_model, self.done_early) = (model, reason);
                    return Ok(NextRound::JobDone);
                }
                Ok(Notice::Failed(error)) => {
                    self.failed = Some(error.to_string());
                    return Err(error);
                }
                Ok(Notice::Joined(_)) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(NextRound::Waiting),
                Err(RecvTimeoutError::Disconnected) => return Err(NetError::Left),
            }
        }
    }

    fn want(&self, tag: Option<Tag>) {
        let _ = self
            .commands
            .send(tag.map_or(Input::WantRound, Input::WantTag));
    }

    /// Leaves the job, and sends the coordinator the reason. Waits until it is sent, at most two seconds. A round
    /// under way in which no update is out goes on without this party.
    pub fn leave(mut self, departure: Departure) {
        let _ = self.commands.send(Input::Leave(departure));
        if let Some(runtime) = self.runtime.take() {
            let (said, heard) = channel();
            std::thread::spawn(move || say_goodbye(runtime, said));
            let _ = heard.recv_timeout(GOODBYE);
        }
    }
}

/// The job, once the party has joined it.
fn joined(notices: &Receiver<Notice>) -> Result<Arc<Job>, NetError> {
    match notices.recv() {
        Ok(Notice::Joined(job)) => Ok(job),
        Ok(Notice::Failed(error)) => Err(error),
        _ => Err(NetError::Left),
    }
}

/// The party of a job, with its records in the state folder.
fn machine(
    config: &PartyConfig,
    identity: &OwnIdentity,
    now: Now,
) -> Result<PartyMachine, NetError> {
    let records = match &config.state_dir {
        None => None,
        Some(folder) => {
            let records = FileRecords::open(folder, &config.job)?;
            Some(Arc::new(records) as Arc<dyn Records>)
        }
    };
    let (unit, witness) = (&config.policy.privacy.privacy_unit, &config.ledger_witness);
    let ledger = config.state_dir.as_ref().map(|folder| {
        let file = FileLedger::of(folder, unit, witness.clone());
        Arc::new(file) as Arc<dyn LedgerFile>
    });
    let settings = Settings {
        job: config.job.clone(),
        policy: config.policy.clone(),
        mask_memory: config.mask_memory,
        location: config.location.clone(),
        job_memory: Arc::default(),
        ledger,
        initial: config.initial.clone(),
    };
    let identity = Identity {
        name: identity.name.clone(),
        key: identity.key.clone(),
        anchor: identity.anchor.clone(),
        ca: config.credentials.ca_fingerprint()?,
    };
    let party = PartyMachine::open(settings, identity, records, now, entropy()?);
    Ok(party)
}

impl Drop for Party {
    fn drop(&mut self) {
        let _ = self.commands.send(Input::Leave(Departure::default()));
        if let Some(runtime) = self.runtime.take() {
            // The goodbye goes out on the runtime's own thread; the caller does not wait for it.
            std::thread::spawn(move || say_goodbye(runtime, channel().0));
        }
    }
}

/// Lets a party that leaves send its last frame, and then ends its threads.
fn say_goodbye((runtime, task): (Runtime, JoinHandle<()>), said: Sender<()>) {
    let goodbye = async { tokio::time::timeout(GOODBYE, task).await };
    let _ = runtime.block_on(goodbye);
    // Nobody may wait for it.
    let _ = said.send(());
    runtime.shutdown_timeout(GOODBYE);
}
