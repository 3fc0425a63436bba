//! Numbers of the process, by the names that all programs use for them. They come from `/proc`: where there is none, as on
//! macOS, they are left out.

use std::fmt;
use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use crate::numbers::{Labels, Page};

/// What is read of a process.
struct Process {
    cpu_seconds: f64,
    start_time: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
    open_files: f64,
}

/// Writes them.
pub(crate) fn write(page: &mut Page<'_>) -> fmt::Result {
    let Some(process) = read() else {
        return Ok(());
    };
    page.counters(
        "process_cpu_seconds",
        "Seconds of processor time that were used.",
        [(Labels::new(), process.cpu_seconds)],
    )?;
    let mut gauge = |name, help, value| page.gauges(name, help, [(Labels::new(), value)]);
    gauge(
        "process_start_time_seconds",
        "When the process was started, in seconds since 1970-01-01 00:00 UTC.",
        process.start_time,
    )?;
    gauge(
        "process_virtual_memory_bytes",
        "Bytes of address space.",
        process.virtual_bytes,
    )?;
    gauge(
        "process_resident_memory_bytes",
        "Bytes in memory.",
        process.resident_bytes,
    )?;
    gauge(
        "process_open_fds",
        "Files and connections that are open.",
        process.open_files,
    )?;
    match getrlimit(Resource::Nofile).current {
        None => Ok(()),
        Some(most) => gauge(
            "process_max_fds",
            "Files and connections that may be open.",
            most as f64,
        ),
    }
}

fn read() -> Option<Process> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let booted = fs::read_to_string("/proc/stat").ok()?;
    let booted = booted.lines().find_map(|line| line.strip_prefix("btime "));
    let booted: f64 = booted?.trim().parse().ok()?;
    let open_files = fs::read_dir("/proc/self/fd").ok()?.count();
    let (ticks, page) = (clock_ticks_per_second() as f64, page_size() as f64);
    // The name of the program, in brackets, may have spaces in it.
    let fields: Vec<f64> = fields(&stat)?;
    let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
    Some(Process {
        cpu_seconds: (field(14)? + field(15)?) / ticks,
        start_time: booted + field(22)? / ticks,
        virtual_bytes: field(23)?,
        resident_bytes: field(24)? * page,
        open_files: open_files as f64,
    })
}

/// The fields behind the name, from the third on (`proc(5)`); what is no number is 0.
fn fields(stat: &str) -> Option<Vec<f64>> {
    let (_, behind) = stat.rsplit_once(')')?;
    let fields = behind.split_whitespace();
    Some(
        fields
            .map(|field| field.parse().unwrap_or_default())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_shift_no_field() {
        let fields = fields("12 (a) b) c) S 1 2 3").unwrap();
        assert_eq!(fields, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(super::fields("nothing"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_files() {
        let process = read().unwrap();
        assert!(process.resident_bytes > 100_000.0 && process.open_files >= 3.0);
        assert!(process.virtual_bytes >= process.resident_bytes);
        assert!(process.start_time > 1e9 && process.cpu_seconds >= 0.0);
    }
}
