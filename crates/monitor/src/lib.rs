//! What an operator, and an operator's programs, see of a coordinator or of another server: numbers for Prometheus, whether
//! it lives and is ready, a page for people, and notices for the service manager of the system.
//!
//! It listens on addresses of its own, speaks plain HTTP, and changes nothing: [`Watched`](blindsum_net::watched::Watched)
//! says what there is. `pages` answers programs. `numbers` writes the page of metrics (`totals` those of jobs, `now` those of
//! this moment, `process` those of the process), `health` says who is ready. `dashboard` is the page for people, and
//! [`service`] speaks with systemd. `docs/metrics.md` describes every metric.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod dashboard;
mod health;
mod http;
mod listening;
mod metrics;
mod now;
mod numbers;
mod pages;
mod process;
pub mod service;
mod settings;
mod totals;

pub use settings::{Opened, Settings, Shown};
