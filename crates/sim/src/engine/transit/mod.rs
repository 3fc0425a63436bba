//! What is on its way: frames on connections, letters on lines, uploads, and all else that is still to happen.

mod lines;
mod links;
mod uploads;

use std::time::Duration;

use blindsum_job::machine::{Now, Time};

use super::conditions::Conditions;
use super::event::{Event, Micros, Who};
use crate::agenda::Agenda;
use crate::cohort::NOW;
use lines::Lines;
pub(super) use links::Connection;
use links::Links;
use uploads::Uploads;

/// What is on its way, and the time.
#[derive(Default)]
pub(crate) struct Transit {
    pub(super) agenda: Agenda<Event>,
    links: Links,
    lines: Lines,
    uploads: Uploads,
}

impl Transit {
    /// The time.
    pub fn time(&self) -> Micros {
        self.agenda.time()
    }

    /// The time, as machines want to know it.
    pub fn now(&self) -> Now {
        Now {
            time: Time(Duration::from_micros(self.time())),
            unix_millis: NOW * 1000 + self.time() / 1000,
        }
    }

    /// A machine is started after so long.
    pub fn start_after(&mut self, pause: Micros, who: Who) {
        self.agenda.after(pause, Event::Start(who));
    }

    /// A party, or another server, makes a connection after a while.
    pub(super) fn connect_later(&mut self, by: &mut impl Conditions, host: Who) {
        self.agenda.after(by.pause(), Event::Connect(host));
    }
}
