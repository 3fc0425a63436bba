//! The log of the daemon: on standard error, as its configuration says.

use blindsum_net::NetError;
use blindsum_net::coordinator::ConfigFile;
use blindsum_net::logs::{Lines, change, to_stderr};
use tracing::{error, warn};

use crate::Failure;
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
    let read = || -> Result<String, Failure> {
        let file = ConfigFile::read(args.config.as_deref(), &args.settings())?;
        Ok(Program::read(&file.program)?.log_level)
    };
    match read() {
        Ok(level) if level == *known => {}
        Ok(level) => match change(LEVEL, &level) {
            Ok(()) => {
                warn!(from = %known, to = %level, "the filter of the log has changed");
                *known = level;
            }
            Err(error) => error!(%error, "the filter of the log stays as it is"),
        },
        Err(error) => {
            error!(%error, "the configuration cannot be read again: the filter of the log stays as it is")
        }
    }
}
