//! Lines of the log as data, for the log of another language: that one takes them on a thread of its own, so no thread of this
//! program ever waits for it.

use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// The part of the program, as in `blindsum_net::coordinator`.
    pub part: &'static str,
    /// The event with its fields, as in `round done job=tumour round=3`.
    pub text: String,
    /// Number of lines left out just before, because they were not read in time.
    pub left_out: u64,
}

/// The receiver of log lines.
pub struct Feed(Mutex<Receiver<Logged>>);

impl Feed {
    /// The next line; none where none came in time.
    pub fn next(&self, time: Duration) -> Option<Logged> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It never ends: whoever writes lives as long as the process.
        lines.recv_timeout(time).ok()
    }
}

/// What writes lines, and where they are taken; so many wait at most.
pub(super) fn channel(waiting: usize) -> (Writer, Feed) {
    let (sender, lines) = sync_channel(waiting);
    let writer = Writer {
        lines: sender,
        left_out: AtomicU64::new(0),
    };
    (writer, Feed(Mutex::new(lines)))
}

pub(super) struct Writer {
    lines: SyncSender<Logged>,
    left_out: AtomicU64,
}

impl<S: Subscriber> Layer<S> for Writer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        let line = Logged {
            level: name(*event.metadata().level()),
            part: event.metadata().target(),
            text: text.whole(),
            left_out,
        };
        if self.lines.try_send(line).is_err() {
            self.left_out.fetch_add(left_out + 1, Ordering::Relaxed);
        }
    }
}

/// The message of an event and its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn whole(self) -> String {
        self.message + &self.fields
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn lines_that_nobody_takes_are_counted() {
        let (writer, feed) = channel(2);
        let registry = tracing_subscriber::registry().with(writer);
        tracing::subscriber::with_default(registry, || {
            tracing::info!(job = "tumour", round = 3, "round done");
            tracing::warn!("second");
            tracing::warn!("third");
            tracing::warn!("fourth");
            let first = feed.next(Duration::ZERO).unwrap();
            assert_eq!(
                (first.level, &*first.text),
                ("info", "round done job=\"tumour\" round=3")
            );
            assert!(first.part.ends_with("logs::feed::tests"));
            assert_eq!(feed.next(Duration::ZERO).unwrap().text, "second");
            tracing::error!("fifth");
        });
        let fifth = feed.next(Duration::ZERO).unwrap();
        assert_eq!(
            (&*fifth.text, fifth.left_out, fifth.level),
            ("fifth", 2, "error")
        );
        assert_eq!(feed.next(Duration::ZERO), None);
    }
}
