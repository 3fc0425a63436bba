//! Structured logs on standard error: names, sizes and times, never a value of an update or a key.

use tracing_subscriber::EnvFilter;

use crate::Failure;
use crate::args::Program;

/// Starts logging.
pub fn start(program: &Program) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&program.log_level).map_err(|e| Failure::Program {
        field: "log_level",
        rule: e.to_string(),
    })?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match program.log_format.as_str() {
        "text" => logs.with_ansi(false).init(),
        "json" => logs.json().flatten_event(true).init(),
        other => {
            return Err(Failure::Program {
                field: "log_format",
                rule: format!("must be text or json, not {other:?}"),
            });
        }
    }
    Ok(())
}
