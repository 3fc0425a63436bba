//! Names of files and folders in configurations, checked before anything is read, made or listened on; and text files.

use std::path::Path;

use crate::NetError;

/// Refuses an empty or blank name: it would mean the folder in which the program runs, or a file of nobody's choice.
///
/// # Errors
/// [`NetError::Config`] in the field of this name.
pub(crate) fn check_path(field: &str, path: &Path) -> Result<(), NetError> {
    let text = path.as_os_str().to_string_lossy();
    // guard: stores-have-names-of-something
    if !text.trim().is_empty() {
        return Ok(());
    }
    let rule = format!(
        "{text:?} must name a file or folder, not be empty: give one, or leave it out (a variable that is not set?)"
    );
    Err(NetError::config(field, rule))
}

/// The same for a store, if there is one: neither may SQLite read the name as something else than a file, which would keep nothing.
///
/// # Errors
/// [`NetError::Config`] in the field `store`.
pub(crate) fn check_store(path: Option<&Path>) -> Result<(), NetError> {
    let Some(path) = path else {
        return Ok(());
    };
    check_path("store", path)?;
    let is_special =
        |name: &str| name.starts_with(':') || name.to_ascii_lowercase().starts_with("file:");
    let last = path.file_name().unwrap_or_default();
    // guard: stores-have-names-of-files
    if is_special(&path.to_string_lossy()) || is_special(&last.to_string_lossy()) {
        let rule = format!(
            "{:?} must be the name of a file, not a URI and not a name with \":\" in front, such as of a store \
             in memory: give a file such as job.sqlite",
            path.display().to_string()
        );
        return Err(NetError::config("store", rule));
    }
    Ok(())
}

/// Refuses an audit trail that names nothing, or the file of the store.
///
/// # Errors
/// [`NetError::Config`] in the field `audit`.
pub(crate) fn check_audit(path: Option<&Path>, store: Option<&Path>) -> Result<(), NetError> {
    let Some(path) = path else {
        return Ok(());
    };
    check_path("audit", path)?;
    match store == Some(path) {
        true => Err(NetError::config(
            "audit",
            format!("{} is the store: name another file", path.display()),
        )),
        false => Ok(()),
    }
}

/// Reads a text file, UTF-8 whatever the locale, without a byte order mark.
///
/// # Errors
/// [`NetError::Config`] in the field of this name: the file cannot be read, or it is no UTF-8.
pub(crate) fn read_text(field: &str, path: &Path) -> Result<String, NetError> {
    let wrong = |why: String| NetError::config(field, format!("{}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| wrong(crate::io_words(&error)))?;
    if bytes.contains(&0) {
        return Err(wrong(
            "is no UTF-8 text: save it as UTF-8, not as UTF-16".into(),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        wrong(format!(
            "is no UTF-8 text at byte {place}: save it as UTF-8"
        ))
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_30_a_store_is_a_file_that_stays() {
        for good in [
            "job.sqlite",
            "/var/lib/blindsum/a b.db",
            "./x",
            "profile:x",
            "größe.db",
        ] {
            assert!(check_store(Some(Path::new(good))).is_ok(), "{good}");
        }
        for bad in [
            "",
            " ",
            "\t\n",
            ":memory:",
            "/tmp/:memory:",
            "file:x.db",
            "FILE:x.db?mode=memory",
            "file::memory:?cache=shared",
            "/tmp/file:x.db?mode=memory",
        ] {
            let error = check_store(Some(Path::new(bad))).unwrap_err();
            assert!(
                matches!(&error, NetError::Config { field, .. } if field == "store"),
                "{error}"
            );
            assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
        }
    }

    #[test]
    fn text_is_utf_8_with_or_without_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read_text("configuration", &path).map_err(|error| error.to_string())
        };
        assert_eq!(read("größe".as_bytes()).unwrap(), "größe");
        assert_eq!(read("\u{feff}größe".as_bytes()).unwrap(), "größe");
        assert!(read(b"gr\xf6\xdfe").unwrap_err().contains("at byte 2"));
        assert!(read(b"\xff\xfea\0b\0").unwrap_err().contains("UTF-16"));
    }
}
