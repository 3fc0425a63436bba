//! Which lines of a log are wanted, as commands take it.

use crate::NetError;

/// The valid levels.
pub const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Checks a level, or a list of levels of parts of the program, as in `warn,blindsum_net=debug`. A word that is no level
/// would be taken for the name of a part.
///
/// # Errors
/// [`NetError::Config`] in the field of this name, with the levels there are.
pub fn check_log_levels(field: &str, text: &str) -> Result<(), NetError> {
    let is_level = |word: &str| {
        LOG_LEVELS
            .iter()
            .any(|level| word.eq_ignore_ascii_case(level))
    };
    let is_one = |directive: &str| match directive.split_once('=') {
        None => is_level(directive),
        Some((part, level)) => {
            let is_name = |part: &str| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b))
            };
            is_name(part) && is_level(level)
        }
    };
    if text.split(',').all(|directive| is_one(directive.trim())) {
        return Ok(());
    }
    let rule = format!(
        "{text:?} must be one of {}, or a list as in warn,blindsum_net=debug",
        LOG_LEVELS.join(", ")
    );
    Err(NetError::config(field, rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_one_of_six() {
        for good in [
            "warn",
            "INFO",
            "off",
            "trace",
            "warn,blindsum_net=debug",
            "warn, blindsum_net::party=trace",
        ] {
            assert!(check_log_levels("log", good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "x",
            "verbose",
            "blindsum_net",
            "blindsum_net=x",
            "=debug",
            "warn,",
            "1",
            "a b=info",
            "[span]=info",
        ] {
            let error = check_log_levels("log", bad).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{bad:?}")) && error.contains("off, error, warn"),
                "{error}"
            );
        }
    }
}
