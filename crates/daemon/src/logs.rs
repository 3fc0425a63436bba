//! The log of the daemon: on standard error, as its configuration says.

use blindsum_net::NetError;
use blindsum_net::coordinator::ConfigFile;
use blindsum_net::logs::{Lines, change, to_stderr};
use tracing::{error, warn};

use crate::args::{Args, Program};

/// The field of the filter.
const LEVEL: &str = "program.log_level";

/// Starts logging.
pub fn start(program: &Program) -> Result<(), NetError> {
    let lines = Lines::of("program.log_format", &program.log_format, false)?;
    to_stderr(LEVEL, &program.log_level, lines)
}

/// Reads the filter in the configuration again, and takes it where it is another one.
pub fn read_again(args: &Args, known: &mut String) {
    let file = ConfigFile::read(args.config.as_deref(), &args.settings());
    let changed = match file {
        Ok(file) => take_over(&file, known),
        Err(error) => Err(format!(
            "the configuration cannot be read again: the filter of the log stays as it is: {error}"
        )),
    };
    match changed {
        Ok(Some(done)) => warn!("reloaded: {done}"),
        Ok(None) => {}
        Err(reason) => error!("not reloaded: {reason}"),
    }
}

/// Takes the filter of a configuration over; says so where it is another one.
///
/// # Errors
/// Why the filter stays as it is.
pub fn take_over(file: &ConfigFile, known: &mut String) -> Result<Option<String>, String> {
    let stays =
        |error: &dyn std::fmt::Display| format!("the filter of the log stays as it is: {error}");
    let level = Program::read(&file.program)
        .map_err(|error| stays(&error))?
        .log_level;
    if level == *known {
        return Ok(None);
    }
    change(LEVEL, &level).map_err(|error| stays(&error))?;
    let done = format!("the filter of the log has changed: {LEVEL}: {known} → {level}");
    *known = level;
    Ok(Some(done))
}
