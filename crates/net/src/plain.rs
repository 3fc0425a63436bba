//! Errors of the system and of libraries, in plain words: no numbers of the system, and no names of a library's types.

use std::error::Error;
use std::io;

/// What a connection says that ended without a reason of its own.
pub(crate) const ENDED: &str = "the connection was closed before an answer came";

/// An error of reading or writing in words.
#[must_use]
pub fn io_words(error: &io::Error) -> String {
    use io::ErrorKind as K;
    let known = match error.kind() {
        K::NotFound => "there is no such file or folder",
        K::PermissionDenied => "this user may not do that there",
        K::AlreadyExists => "it exists already",
        K::IsADirectory => "it is a folder",
        K::NotADirectory => "a part of its path is no folder",
        K::StorageFull | K::QuotaExceeded => "there is no room left on the disk: make room there",
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
        K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::UnexpectedEof
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

/// What a gRPC status says that another side has sent; [`ENDED`] where the connection has no more to say.
pub(crate) fn status_words(status: &tonic::Status) -> String {
    if let Some(cause) = status.source() {
        return cause_words(cause);
    }
    let message = status.message();
    let of_library = [
        "h2 protocol error",
        "transport error",
        "error reading a body",
    ];
    match message {
        "" => status.code().description().to_owned(),
        broken if of_library.iter().any(|words| broken.starts_with(words)) => ENDED.into(),
        message => message.to_owned(),
    }
}

/// What the system says behind an error of a library; [`ENDED`] where it says nothing.
pub(crate) fn cause_words(error: &(dyn Error + 'static)) -> String {
    let mut found = Some(error);
    while let Some(error) = found {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return match error.kind() {
                // A library's own words, with a link to its documentation.
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted => ENDED.into(),
                _ => io_words(error),
            };
        }
        found = error.source();
    }
    ENDED.into()
}

/// An error of TOML in words. The line comes first, if the text is given.
#[must_use]
pub fn toml_words(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().and_then(|span| text.get(..span.start));
    let line = line.map(|before| before.matches('\n').count() + 1);
    let shown = error.to_string();
    let key = shown
        .lines()
        .find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let what = setting_words(error.message());
    let what = key.map_or(what.clone(), |key| format!("{key}: {what}"));
    match line {
        Some(line) if error.span().is_some_and(|span| span.end > 0) => {
            format!("line {line}: {what}")
        }
        _ => what,
    }
}

/// The words of a library on a setting, in others.
fn setting_words(message: &str) -> String {
    let quoted = |text: &str| -> Vec<String> {
        let parts = text.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let (first, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let names = quoted(expected).join(", ");
    if let Some(name) = first
        .strip_prefix("unknown field ")
        .or(first.strip_prefix("unknown variant "))
    {
        return format!("{name} is unknown here; there are: {names}").replace('`', "\"");
    }
    if let Some(name) = first.strip_prefix("missing field ") {
        return format!("{name} is missing: set it").replace('`', "\"");
    }
    let found = first
        .strip_prefix("invalid type: ")
        .or(first.strip_prefix("invalid value: "));
    match found {
        Some(found) => {
            format!("is {found}, and must be {}", type_words(expected)).replace('`', "\"")
        }
        None => message
            .trim()
            .lines()
            .collect::<Vec<_>>()
            .join("; ")
            .replace('`', "\""),
    }
}

/// A type of this program as what may be written for it.
fn type_words(name: &str) -> String {
    let whole = |most: &str| format!("a whole number from 0 to {most}");
    match name {
        "u8" => whole("255"),
        "u16" => whole("65535"),
        "u32" => whole("4294967295"),
        "u64" | "usize" => whole("2^63 - 1"),
        "f64" | "f32" => "a number".into(),
        "a sequence" => "a list, as in [\"a\", \"b\"]".into(),
        "a map" => "a table".into(),
        "a string" | "path string" => "text in quotes".into(),
        "a boolean" => "true or false".into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_no_numbers() {
        // Numbers of Linux: no such file, connection refused, too many links, no child processes.
        for (number, expected) in [
            (2, "there is no such file or folder"),
            (
                111,
                "nothing listens there: start it, or correct host and port",
            ),
            (31, "too many links"),
            (10, "no child processes"),
        ] {
            assert_eq!(io_words(&io::Error::from_raw_os_error(number)), expected);
        }
        let own = io::Error::other("a sum has more than 64 bits");
        assert_eq!(io_words(&own), "a sum has more than 64 bits");
        let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof");
        assert_eq!(io_words(&cut), "it ends too early");
    }

    #[test]
    fn settings_are_told_in_other_words() {
        let unknown = "unknown field `lst`, expected one of `listen`, `ca`";
        assert_eq!(
            setting_words(unknown),
            "\"lst\" is unknown here; there are: listen, ca"
        );
        let negative = "invalid value: integer `-1`, expected u32";
        assert_eq!(
            setting_words(negative),
            "is integer \"-1\", and must be a whole number from 0 to 4294967295"
        );
        let text = "a = 1\nb = = 2\n";
        let error = text.parse::<toml::Table>().unwrap_err();
        assert!(toml_words(&error, text).starts_with("line 2: "));
    }

    #[test]
    fn what_a_library_says_of_a_connection_is_not_shown() {
        let gone = io::Error::other("the connection has ended");
        let status = tonic::Status::from_error(Box::new(gone));
        assert_eq!(status_words(&status), "the connection has ended");
        let message = "h2 protocol error: error reading a body from connection";
        assert_eq!(status_words(&tonic::Status::internal(message)), ENDED);
        let said = tonic::Status::not_found("there is no job \"x\" here");
        assert_eq!(status_words(&said), "there is no job \"x\" here");
    }
}
