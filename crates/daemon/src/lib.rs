//! `blindsumd`: a coordinator, or another server of a job, as a daemon.
//!
//! It reads its configuration, sets up logs, and runs until its jobs are over or a signal tells it to stop, even if it is
//! process 1 or was started with SIGINT ignored. On SIGTERM a coordinator lets the rounds under way end and begins none; a
//! second SIGTERM, or SIGINT, stops it at once. On SIGHUP it reads its certificates and the revocation list again, and takes
//! over limits, new jobs and the filter of the log of its configuration; the log says what it did. The coordinator itself is in
//! `blindsum_net::coordinator`, the other servers in `blindsum_net::follower`.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | stopped as asked, or every job is done |
//! | 1 | a job failed, or the system did |
//! | 2 | the command line or the configuration is wrong |
//! | 3 | the address cannot be listened on |
//! | 4 | the store cannot be used |
//!
//! It is a library so that the Python module can run it: the wheel then has the command without a second copy of the code.
#![forbid(unsafe_code)]

mod args;
mod logs;
mod role;
mod signals;

use std::ffi::OsString;

use blindsum_monitor::service::Notices;
use blindsum_net::coordinator::{ConfigFile, check_apart};
use blindsum_net::{JobError, NetError};
use clap::Parser;
use tokio::runtime::Runtime;
use tokio::signal::unix::Signal;
use tracing::{error, info};

use args::Args;
use role::Role;
use signals::{Stops, drained};

/// Runs the daemon until it ends, and gives its exit code. The first word of the command line is the program's name.
///
/// It takes SIGTERM, SIGINT and SIGHUP of the whole process, and keeps them.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    match start(words) {
        Ok(()) => 0,
        Err(Failure::Words(answer)) => {
            // Help and the version come this way, too. If nobody can be shown them there is nobody to tell that.
            let _ = answer.print();
            u8::try_from(answer.exit_code()).unwrap_or(2)
        }
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
    #[error("{field}: {rule}")]
    Program { field: &'static str, rule: String },
    #[error("{0}")]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Words(#[from] clap::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Failure::Net(NetError::Listen { .. }) => 3,
            Failure::Net(NetError::Job(JobError::Store(_))) => 4,
            Failure::Net(
                NetError::Config { .. }
                | NetError::Job(JobError::Spec(_))
                | NetError::Credential { .. },
            )
            | Failure::Program { .. }
            | Failure::Words(_) => 2,
            Failure::Net(_) | Failure::System(_) => 1,
        }
    }
}

/// Takes the signals before anything else: one that comes in the first moment stops the daemon, too.
fn start(words: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let (stops, hangup) = {
        let _entered = runtime.enter();
        (Stops::new()?, signals::hangup()?)
    };
    run(Args::try_parse_from(words)?, &runtime, stops, hangup)
}

fn run(args: Args, runtime: &Runtime, mut stops: Stops, hangup: Signal) -> Result<(), Failure> {
    let file = ConfigFile::read(args.config.as_deref(), &args.settings())?;
    let program = args::Program::read(&file.program)?;
    let shown = program.shown(&file)?;
    check_apart(&[
        ("listen", Some(&file.listen)),
        ("admin", file.admin.as_deref()),
        ("metrics", shown.metrics.as_deref()),
        ("dashboard", shown.dashboard.as_deref()),
    ])?;
    let role = Role::load(file.clone())?;
    logs::start(&program)?;
    program.warn_of_old_words();
    if args.check {
        shown.check()?;
        let jobs = role.check()?;
        let jobs = match jobs {
            1 => "1 job".to_owned(),
            jobs => format!("{jobs} jobs"),
        };
        println!("the configuration is fine: {jobs}");
        return Ok(());
    }
    runtime.block_on(async {
        signals::settle().await;
        let opened = shown.open().await?;
        let mut running = tokio::select! {
            biased;
            signal = stops.next() => {
                info!(signal, "stopping before the start");
                return Ok(());
            }
            started = role.start() => started?,
        };
        // It answers until the process ends.
        let _shown = opened.show(&running.watched());
        let notices = Notices::ready(running.watched());
        let control = running.control();
        if let Some(control) = &control {
            let path = args.config.as_deref();
            let mut level = program.log_level.clone();
            let also = move |file: &ConfigFile| logs::take_over(file, &mut level);
            let settings = args.settings();
            control
                .configured_by(path, settings, file, Box::new(also))
                .await;
        }
        let again = signals::Again {
            control: control.clone(),
            files: running.reload(),
            level: program.log_level.clone(),
            args,
        };
        let rereading = signals::reread_on(hangup, again);
        let rereading = tokio::spawn(rereading);
        tokio::select! {
            signal = stops.next() => stops.heed(signal, control.as_ref()).await,
            () = drained(control.as_ref()) => info!("drained by an operator's order"),
            () = running.finished() => info!("every job is over"),
        }
        notices.stopping();
        let ended = running.stop().await;
        rereading.abort();
        if let Err(error) = &ended {
            error!(%error, "a job failed");
        }
        Ok(ended?)
    })
}
