//! Times in text, for people.

/// Seconds since 1970-01-01 00:00 UTC.
pub type UnixSeconds = u64;

/// A time as a date, as in `2026-11-22 01:42:22 UTC`; the seconds themselves where they are beyond the year 9999.
pub fn utc(seconds: UnixSeconds) -> String {
    let time = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| time::OffsetDateTime::from_unix_timestamp(seconds).ok());
    let Some(time) = time else {
        return format!("{seconds} seconds after 1970");
    };
    let (hour, minute, second) = time.to_hms();
    format!(
        "{:04}-{:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC",
        time.year(),
        u8::from(time.month()),
        time.day()
    )
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn times_are_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(utc(253_402_300_799), "9999-12-31 23:59:59 UTC");
        assert_eq!(utc(u64::MAX), format!("{} seconds after 1970", u64::MAX));
    }
}
