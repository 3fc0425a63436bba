//! The cost of a piece of work: CPU time of a thread or of the process, and the most memory held.

use std::time::Duration;

/// Which CPU time is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Of the calling thread: right for work that stays on it.
    Thread,
    /// Of the whole process: right for work that is spread over a pool while nothing else runs.
    Process,
}

impl Clock {
    /// Runs `work`; gives its result and the CPU time it took.
    pub(crate) fn measure<T>(self, work: impl FnOnce() -> T) -> (T, Duration) {
        let before = self.now();
        let result = work();
        (result, self.now().saturating_sub(before))
    }

    #[cfg(unix)]
    fn now(self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        let clock = match self {
            Clock::Thread => ClockId::ThreadCPUTime,
            Clock::Process => ClockId::ProcessCPUTime,
        };
        let time = clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        Duration::new(seconds, nanoseconds)
    }

    /// Wall time, where the system has no such clocks that we know of.
    #[cfg(not(unix))]
    fn now(self) -> Duration {
        use std::{sync::OnceLock, time::Instant};
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// The most memory that the process has ever held, in bytes; 0 if the system does not tell.
pub fn peak_rss_bytes() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return 0;
    };
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|value| value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin() -> u64 {
        (0..2_000_000u64).fold(1, |hash, i| {
            std::hint::black_box(hash.wrapping_mul(6364136223846793005) ^ i)
        })
    }

    #[test]
    fn work_costs_and_sleep_does_not() {
        for clock in [Clock::Thread, Clock::Process] {
            let (_, work) = clock.measure(spin);
            assert!(work > Duration::ZERO);
        }
        #[cfg(unix)]
        {
            let nap = Duration::from_millis(20);
            let (_, asleep) = Clock::Thread.measure(|| std::thread::sleep(nap));
            assert!(asleep < nap);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn peak_grows_with_memory() {
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        assert!(peak_rss_bytes() >= block.len() as u64);
    }
}
