//! What is logged and where: structured lines on standard error, or a feed for the log of another language. A line has names,
//! sizes and times, never a value of an update or a key. Which lines are wanted can change while the program runs.

mod feed;
mod levels;

use std::sync::OnceLock;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

pub use feed::{Feed, Logged};
pub use levels::{LOG_LEVELS, check_log_levels};

use crate::NetError;

/// The filter of this process's log, once there is one.
static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Lines of the feed that wait at most; more are counted and left out.
const WAITING: usize = 4096;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// For people.
    Text {
        /// Whether levels have colours, as on a terminal.
        colours: bool,
    },
    /// A JSON object a line.
    Json,
}

impl Lines {
    /// How lines look by this name, `text` or `json`.
    ///
    /// # Errors
    /// [`NetError::Config`] in the field of this name: there is no such format.
    pub fn of(field: &str, name: &str, colours: bool) -> Result<Self, NetError> {
        match name {
            "text" => Ok(Self::Text { colours }),
            "json" => Ok(Self::Json),
            other => Err(NetError::config(
                field,
                format!("must be text or json, not {other:?}"),
            )),
        }
    }
}

/// Writes lines to standard error from now on. `filter` is a level, or a list as in `warn,blindsum_net=debug`.
///
/// # Errors
/// [`NetError::Config`] in the field of this name: there is no such level, or this process has a log already.
pub fn to_stderr(field: &str, filter: &str, lines: Lines) -> Result<(), NetError> {
    let written = fmt::layer().with_writer(std::io::stderr);
    match lines {
        Lines::Text { colours } => begin(field, filter, written.with_ansi(colours)),
        Lines::Json => begin(field, filter, written.json().flatten_event(true)),
    }
}

/// Sends lines from now on to the returned feed.
///
/// # Errors
/// As [`to_stderr`].
pub fn to_feed(field: &str, filter: &str) -> Result<Feed, NetError> {
    let (layer, feed) = feed::channel(WAITING);
    begin(field, filter, layer)?;
    Ok(feed)
}

fn begin(
    field: &str,
    filter: &str,
    lines: impl Layer<Registry> + Send + Sync,
) -> Result<(), NetError> {
    let (filter, handle) = reload::Layer::new(read(field, filter)?);
    let taken = |_| NetError::config(field, "this process has a log already: change its levels");
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(taken)?;
    // Nobody else has set it: that would have been the log of this process.
    let _ = FILTER.set(handle);
    Ok(())
}

/// Changes which lines are logged from now on.
///
/// # Errors
/// [`NetError::Config`] in the field of this name: there is no such level, or this process has no log.
pub fn change(field: &str, filter: &str) -> Result<(), NetError> {
    let filter = read(field, filter)?;
    let none = || {
        NetError::config(
            field,
            "this process writes no log, so it has no levels to change",
        )
    };
    let handle = FILTER.get().ok_or_else(none)?;
    handle.reload(filter).map_err(NetError::system)
}

fn read(field: &str, filter: &str) -> Result<Targets, NetError> {
    check_log_levels(field, filter)?;
    filter
        .parse()
        .map_err(|error| NetError::config(field, format!("{filter:?}: {error}")))
}
