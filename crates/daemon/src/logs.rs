//! Structured logs on standard error: names, sizes and times, never a value of an update or a key.

use blindsum_net::check_log_levels;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::Failure;
use crate::args::Program;

/// Starts logging.
pub fn start(program: &Program) -> Result<(), Failure> {
    check_log_levels("program.log_level", &program.log_level)?;
    let filter: Result<Targets, ParseError> = program.log_level.parse();
    let filter = filter.map_err(|e| Failure::Program {
        field: "log_level",
        rule: e.to_string(),
    })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match program.log_format.as_str() {
        "text" => lines.with_ansi(false).boxed(),
        "json" => lines.json().flatten_event(true).boxed(),
        other => {
            return Err(Failure::Program {
                field: "log_format",
                rule: format!("must be text or json, not {other:?}"),
            });
        }
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
    Ok(())
}
