//! `blindsumd`: a coordinator, or another server of a job, as a daemon.
//!
//! It reads its configuration, sets up logs, and runs until its jobs are over or SIGTERM or SIGINT tells it to stop,
//! even if it is process 1 or was started with SIGINT ignored. On SIGHUP it reads its certificate, its key, the CA and
//! the revocation list again; it also does so by itself when they change. The coordinator itself is in
//! `blindsum_net::coordinator`, the other servers in `blindsum_net::follower`.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | stopped as asked, or every job is done |
//! | 1 | a job failed, or the system did |
//! | 2 | the command line or the configuration is wrong |
//! | 3 | the address cannot be listened on |
//! | 4 | the store cannot be used |
#![forbid(unsafe_code)]

mod args;
mod logs;
mod role;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use blindsum_monitor::service::Notices;
use blindsum_net::coordinator::ConfigFile;
use blindsum_net::{JobError, NetError, Reload};
use clap::Parser;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use args::Args;
use role::Role;

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("blindsumd: {failure}");
            failure.code()
        }
    }
}

/// Why the daemon ends.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("program.{field}: {rule}")]
    Program { field: &'static str, rule: String },
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl Failure {
    fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Net(NetError::Listen { .. }) => 3,
            Failure::Net(NetError::Job(JobError::Store(_))) => 4,
            Failure::Net(
                NetError::Config { .. }
                | NetError::Job(JobError::Spec(_))
                | NetError::Credential { .. },
            )
            | Failure::Program { .. } => 2,
            Failure::Net(_) | Failure::System(_) => 1,
        })
    }
}

/// Takes the signals before anything else: one that comes in the first moment stops the daemon, too.
fn start() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let signals = {
        let _entered = runtime.enter();
        Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        }
    };
    run(&Args::parse(), &runtime, signals)
}

/// The signals that the daemon heeds.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

fn run(args: &Args, runtime: &Runtime, signals: Signals) -> Result<(), Failure> {
    let file = ConfigFile::read(args.config.as_deref(), &args.settings())?;
    let program = args::Program::read(&file.program)?;
    let shown = program.shown(&file)?;
    let role = Role::load(file)?;
    logs::start(&program)?;
    program.warn_of_old_words();
    if args.check {
        shown.check()?;
        let jobs = role.check()?;
        println!("the configuration is fine: {jobs} jobs");
        return Ok(());
    }
    runtime.block_on(async {
        let Signals {
            terminate,
            interrupt,
            hangup,
        } = signals;
        let mut stop = pin!(stop_signal(terminate, interrupt));
        // The runtime hands out signals that have come before it wakes timers.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let opened = shown.open().await?;
        let mut running = tokio::select! {
            biased;
            signal = &mut stop => {
                info!(signal, "stopping before the start");
                return Ok(());
            }
            started = role.start() => started?,
        };
        // It answers until the process ends.
        let _shown = opened.show(&running.watched());
        let notices = Notices::ready(running.watched());
        let reloading = tokio::spawn(reload_on(hangup, running.reload()));
        tokio::select! {
            signal = &mut stop => info!(signal, "stopping"),
            () = running.finished() => info!("every job is over"),
        }
        notices.stopping();
        let ended = running.stop().await;
        reloading.abort();
        if let Err(error) = &ended {
            error!(%error, "a job failed");
        }
        Ok(ended?)
    })
}

/// Reads certificates and the revocation list again whenever SIGHUP comes, which ends nothing.
async fn reload_on(mut hangup: Signal, reload: Reload) {
    while hangup.recv().await.is_some() {
        reload.reload();
    }
}

/// The name of the first signal to stop.
async fn stop_signal(mut terminate: Signal, mut interrupt: Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
