//! The log: on the test's output where `RUST_LOG` asks for it, and counted by the party that a line is about.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Fields in which a character stands that a terminal would act on.
static ACTING: Mutex<Vec<String>> = Mutex::new(Vec::new());
static LINES: Mutex<BTreeMap<(String, String), usize>> = Mutex::new(BTreeMap::new());

/// Begins to log.
pub fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let asked = std::env::var("RUST_LOG").unwrap_or_default();
        let filter: Targets = asked.parse().unwrap();
        let shown = tracing_subscriber::fmt::layer().with_test_writer();
        let _ = tracing_subscriber::registry()
            .with(shown.with_filter(filter))
            .with(Counting.with_filter(LevelFilter::INFO))
            .try_init();
    });
}

/// How many lines that say `message` of this party there were in this process, above those for finding faults.
pub fn lines(party: &str, message: &str) -> usize {
    let key = (party.to_owned(), message.to_owned());
    LINES.lock().unwrap().get(&key).copied().unwrap_or(0)
}

/// How many lines there were of this party that begin so.
pub fn lines_about(party: &str, beginning: &str) -> usize {
    let lines = LINES.lock().unwrap();
    let of = |(of, message): &&(String, String)| of == party && message.starts_with(beginning);
    let lines = lines.iter().filter(|(key, _)| of(key));
    lines.map(|(_, count)| count).sum()
}

/// What was logged in this process with this text and with a control character beside it.
pub fn acting(text: &str) -> Vec<String> {
    let acting = ACTING.lock().unwrap();
    let said = acting.iter().filter(|field| field.contains(text));
    said.cloned().collect()
}

struct Counting;

impl<S: Subscriber> Layer<S> for Counting {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let mut lines = LINES.lock().unwrap();
        *lines.entry((line.party, line.message)).or_default() += 1;
    }
}

#[derive(Default)]
struct Line {
    party: String,
    message: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        if text.chars().any(char::is_control) {
            ACTING.lock().unwrap().push(text);
        }
        match field.name() {
            // Who is refused by its certificate need be no party.
            "party" | "name" => self.party = format!("{value:?}"),
            "message" => self.message = format!("{value:?}"),
            _ => {}
        }
    }
}
