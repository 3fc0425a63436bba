//! What the log says of TLS handshakes that are refused: one line a second at most, with how many there were, however many
//! come. A party whose own certificate is refused is named, each name once a minute.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blindsum_job::totals::RefusedBecause;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::audit::{Entry, Guest, Times};
use crate::observers::Observers;
use crate::tls::RefusedCertificate;

/// Time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Time between two lines of one name.
const NAME_EVERY: Duration = Duration::from_secs(60);
/// Names that are remembered at most.
const MAX_NAMES: usize = 4096;

/// Why a handshake is refused, and whose certificate was shown, where the CA has signed it.
pub(crate) struct Refusal {
    pub reason: String,
    pub certificate: Option<RefusedCertificate>,
}

impl Refusal {
    /// The same, with the door at which somebody knocked.
    pub fn at(self, door: &str) -> Self {
        Self {
            reason: format!("at {door}: {}", self.reason),
            ..self
        }
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self {
            reason,
            certificate: None,
        }
    }
}

/// What was refused lately. Copies share it.
#[derive(Clone)]
pub(crate) struct Refusals {
    lately: Arc<Mutex<Lately>>,
    observers: Observers,
}

#[derive(Default)]
struct Lately {
    /// When the next line may be written.
    next: Option<Instant>,
    /// The latest refusal that no line tells yet, and how many there are.
    untold: Option<(SocketAddr, String, u64)>,
    /// By name: when the latest line was written, and how many there were since then.
    names: BTreeMap<String, (Instant, u64)>,
}

/// What is to be done about a refusal.
#[derive(Debug, PartialEq)]
enum Line {
    /// Write a line of this name: it has come so many times since the latest one.
    Name(u64),
    /// Write a line.
    Now,
    /// Write one of all that come until then.
    At(Instant),
    /// There will be a line.
    None,
}

impl Refusals {
    /// Of nobody yet. Each is counted, too, and the name of a certificate of the CA is in the audit trail.
    pub fn new(observers: Observers) -> Self {
        Self {
            lately: Arc::default(),
            observers,
        }
    }

    /// A handshake was refused.
    pub fn note(&self, address: SocketAddr, refusal: Refusal) {
        let Refusal {
            reason,
            certificate,
        } = refusal;
        self.observers.counts.refuse(match &certificate {
            None => RefusedBecause::Handshake,
            Some(shown) if shown.is_revoked => RefusedBecause::Revoked,
            Some(_) => RefusedBecause::Certificate,
        });
        let name = certificate.as_ref().map(|certificate| &*certificate.name);
        if let Some(name) = name {
            self.observers.audit.note(|| Entry::HandshakeRefused {
                who: Guest::new(name, address),
                reason: reason.clone(),
                times: Times::default(),
            });
        }
        match self.lock().line(Instant::now(), address, &reason, name) {
            Line::Name(times) => {
                if let Some(shown) = certificate {
                    let (name, advice) = (&shown.name, advice(&shown));
                    warn!(name = %name, %address, %reason, times, "TLS handshake refused; {advice}");
                }
            }
            Line::Now => info!(%address, %reason, "TLS handshake refused"),
            Line::At(time) => {
                let of = self.clone();
                tokio::spawn(async move {
                    sleep(time - Instant::now()).await;
                    of.tell(Instant::now());
                });
            }
            Line::None => {}
        }
    }

    /// Writes the line of those that came meanwhile.
    fn tell(&self, now: Instant) {
        if let Some((address, reason, times)) = self.lock().told(now) {
            info!(%address, %reason, times, "TLS handshakes refused; address and reason are those of the latest");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lately> {
        self.lately.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lately {
    fn line(
        &mut self,
        now: Instant,
        address: SocketAddr,
        reason: &str,
        name: Option<&str>,
    ) -> Line {
        if let Some(name) = name {
            return self.line_of(now, name);
        }
        if let Some((latest, why, times)) = &mut self.untold {
            (*latest, *why) = (address, reason.to_owned());
            *times += 1;
            return Line::None;
        }
        // guard: refused-handshakes-fill-no-log
        match self.next.filter(|next| *next > now) {
            None => {
                self.next = Some(now + LINE_EVERY);
                Line::Now
            }
            Some(next) => {
                self.untold = Some((address, reason.to_owned(), 1));
                Line::At(next)
            }
        }
    }

    fn line_of(&mut self, now: Instant, name: &str) -> Line {
        if let Some((latest, times)) = self.names.get_mut(name) {
            *times += 1;
            if now < *latest + NAME_EVERY {
                return Line::None;
            }
            let told = *times;
            (*latest, *times) = (now, 0);
            return Line::Name(told);
        }
        if self.names.len() >= MAX_NAMES {
            self.names
                .retain(|_, (latest, _)| now < *latest + NAME_EVERY);
        }
        if self.names.len() >= MAX_NAMES {
            return Line::None;
        }
        self.names.insert(name.to_owned(), (now, 0));
        Line::Name(1)
    }

    fn told(&mut self, now: Instant) -> Option<(SocketAddr, String, u64)> {
        let untold = self.untold.take();
        if untold.is_some() {
            self.next = Some(now + LINE_EVERY);
        }
        untold
    }
}

/// What an operator does about a party that is refused.
fn advice(shown: &RefusedCertificate) -> &'static str {
    match (shown.is_revoked, shown.is_elsewhere) {
        (true, _) => {
            "it is revoked and goes on trying: its operator should stop it, or ask the CA for a new certificate"
        }
        (_, true) => {
            "a party's certificate at the operators' address: it must join at the address of parties"
        }
        _ => "check the clocks of both machines, and its certificate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 1).into()
    }

    #[test]
    fn case_31_ten_thousand_refusals_are_two_lines() {
        let (mut lately, start) = (Lately::default(), Instant::now());
        let line = |lately: &mut Lately, now| lately.line(now, address(), "no TLS", None);
        assert_eq!(line(&mut lately, start), Line::Now);
        let next = start + LINE_EVERY;
        assert_eq!(line(&mut lately, start), Line::At(next));
        for _ in 0..9_998 {
            assert_eq!(line(&mut lately, start), Line::None);
        }
        let (_, reason, times) = lately.told(next).unwrap();
        assert_eq!((&*reason, times), ("no TLS", 9_999));
        assert_eq!(lately.told(next), None);
        // That line counts, too.
        assert_eq!(line(&mut lately, next), Line::At(next + LINE_EVERY));
        lately.told(next + LINE_EVERY);
        let later = next + 3 * LINE_EVERY;
        assert_eq!(line(&mut lately, later), Line::Now);
    }

    #[test]
    fn a_revoked_party_is_named_once_a_minute_with_how_often_it_came() {
        let (mut lately, start) = (Lately::default(), Instant::now());
        let line = |lately: &mut Lately, now, name| {
            lately.line(now, address(), "its certificate is revoked", Some(name))
        };
        assert_eq!(line(&mut lately, start, "a"), Line::Name(1));
        assert_eq!(line(&mut lately, start, "b"), Line::Name(1));
        for _ in 0..41 {
            assert_eq!(line(&mut lately, start, "a"), Line::None);
        }
        assert_eq!(line(&mut lately, start + NAME_EVERY, "a"), Line::Name(42));
        // Strangers do not hide it, nor it them.
        let stranger = lately.line(start, address(), "no TLS", None);
        assert_eq!(stranger, Line::Now);
    }

    #[test]
    fn case_31_names_fill_no_memory() {
        let (mut lately, start) = (Lately::default(), Instant::now());
        for number in 0..2 * MAX_NAMES {
            let name = number.to_string();
            lately.line(start, address(), "revoked", Some(&name));
        }
        assert_eq!(lately.names.len(), MAX_NAMES);
        let line = lately.line(start + NAME_EVERY, address(), "revoked", Some("new"));
        assert_eq!((line, lately.names.len()), (Line::Name(1), 1));
    }
}
