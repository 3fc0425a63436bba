//! `blindsumd`: a coordinator, or another server of a job, as a daemon.
//!
//! It reads its configuration, sets up logs, and runs until its jobs are over or a signal tells it to stop, even if it is
//! process 1 or was started with SIGINT ignored. On SIGTERM a coordinator lets the rounds under way end and begins none; a
//! second SIGTERM, or SIGINT, stops it at once. On SIGHUP it reads its certificates and the revocation list again, and takes
//! over limits and new jobs of its configuration; the log says what it did. The coordinator itself is in
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
mod health;
mod logs;
mod role;
mod signals;

use std::process::ExitCode;

use blindsum_net::coordinator::ConfigFile;
use blindsum_net::{JobError, NetError};
use clap::Parser;
use tokio::runtime::Runtime;
use tokio::signal::unix::Signal;
use tracing::{error, info};

use args::Args;
use role::Role;
use signals::{Stops, drained};

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
    let (stops, hangup) = {
        let _entered = runtime.enter();
        (Stops::new()?, signals::hangup()?)
    };
    run(Args::parse(), &runtime, stops, hangup)
}

fn run(args: Args, runtime: &Runtime, mut stops: Stops, hangup: Signal) -> Result<(), Failure> {
    let file = ConfigFile::read(args.config.as_deref(), &args.settings())?;
    let program = args::Program::read(&file.program)?;
    let role = Role::load(file.clone())?;
    logs::start(&program)?;
    if args.check {
        let jobs = role.check()?;
        println!("the configuration is fine: {jobs} jobs");
        return Ok(());
    }
    runtime.block_on(async {
        signals::settle().await;
        let health = match &program.health {
            Some(address) => Some(health::listen(address).await?),
            None => None,
        };
        let mut running = tokio::select! {
            biased;
            signal = stops.next() => {
                info!(signal, "stopping before the start");
                return Ok(());
            }
            started = role.start() => started?,
        };
        let health = health.map(|listener| health::serve(listener, running.jobs()));
        let control = running.control();
        if let Some(control) = &control {
            let path = args.config.as_deref();
            control.configured_by(path, args.settings(), file).await;
        }
        let rereading = signals::reread_on(hangup, control.clone(), running.reload());
        let rereading = tokio::spawn(rereading);
        tokio::select! {
            signal = stops.next() => stops.heed(signal, control.as_ref()).await,
            () = drained(control.as_ref()) => info!("drained by an operator's order"),
            () = running.finished() => info!("every job is over"),
        }
        let ended = running.stop().await;
        rereading.abort();
        if let Some(health) = health {
            health.abort();
        }
        if let Err(error) = &ended {
            error!(%error, "a job failed");
        }
        Ok(ended?)
    })
}
