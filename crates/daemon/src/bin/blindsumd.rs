//! `blindsumd`: see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    blindsum_daemon::main(std::env::args_os()).into()
}
