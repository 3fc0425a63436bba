//! Errors of the system in plain words, without its numbers.

use std::io;

/// What failed in reading or writing, in words.
pub(crate) fn system_words(error: &io::Error) -> String {
    use io::ErrorKind as K;
    let known = match error.kind() {
        K::NotFound => "there is no such file or folder",
        K::PermissionDenied => "this user may not do that there",
        K::AlreadyExists => "it exists already",
        K::IsADirectory => "it is a folder",
        K::NotADirectory => "a part of its path is no folder",
        K::StorageFull | K::QuotaExceeded => "there is no room left on the disk",
        K::ReadOnlyFilesystem => "the disk is read-only",
        K::ConnectionRefused => "nothing listens there: start it, or correct host and port",
        K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe => {
            "the other side has closed the connection"
        }
        K::HostUnreachable | K::NetworkUnreachable => {
            "no way leads to that host: check the network"
        }
        K::AddrInUse => "another program uses that address",
        K::AddrNotAvailable => "this machine has no such address",
        K::TimedOut => "no answer came in time",
        K::UnexpectedEof => "it ends too early",
        K::InvalidData if error.raw_os_error().is_none() => return error.to_string(),
        _ => return without_number(&error.to_string()),
    };
    let is_closed = matches!(
        error.kind(),
        K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe
    );
    match error.raw_os_error() {
        // An error that was made here has words of its own; a library's of a connection are not shown.
        None if error.get_ref().is_some() && !is_closed => error.to_string(),
        _ => known.into(),
    }
}

/// The system's words, without its number.
fn without_number(text: &str) -> String {
    match text.rsplit_once(" (os error ") {
        Some((words, _)) => lower_first(words),
        None => text.into(),
    }
}

fn lower_first(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(rest).collect()
    })
}
