//! Packed secret sharing as the literature describes it, for tests and benches of Blindsum to compare with. No product
//! depends on this crate: [`PaperSharing`] gives a secret away, and [`PaperParameters`] wastes most of a polynomial.

#![forbid(unsafe_code)]

mod parameters;
mod sharing;

pub use parameters::PaperParameters;
pub use sharing::PaperSharing;
