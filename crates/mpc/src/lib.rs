//! Three servers that compute together on vectors that none of them knows.
//!
//! A value x of Z_2^w is split in three components, x = x_0 + x_1 + x_2, each of which alone is random. Server i holds x_i
//! and x_{i+1}, counted modulo 3: *replicated secret sharing* (Araki et al. 2016). Any two servers have all of x, one has
//! nothing. Bits are split alike, with exclusive or in place of the sum.
//!
//! Sums, and products with public numbers, each server computes by itself. Everything else takes rounds, which decide
//! how long it takes: in one round every server sends a message to each of the others and gets one from each. A
//! server's side is sequential code that waits for its rounds ([`mod@line`]); parts of it that run side by side
//! share their rounds. The code here has no sockets, clocks or threads of its own.
//!
//! A server that does not follow the protocol can change the result. It sees no more for it than the others' next
//! messages, which are masked.

#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod arithmetic;
mod bits;
mod checks;
mod circuits;
mod convert;
mod double;
mod engine;
mod error;
mod gate;
#[allow(unsafe_code)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod gram;
mod join;
mod keys;
mod ledger;
pub mod line;
mod noise;
mod output;
#[allow(unsafe_code)]
mod project;
mod ring;
pub mod rules;
mod scalar;
mod select;
mod server;
mod shares;
mod sort;
mod stock;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod truncate;
mod vectors;
mod verify;

pub use bits::Bits;
pub use engine::Mpc;
pub use error::MpcError;
pub use gate::{DIRECTION_BITS, Gate};
pub use join::{join, join_all, join3};
pub use keys::{Agreed, PairKeys};
pub use noise::{Gaussian, NoiseKeys};
pub use output::{Part, put_together};
pub use project::{ROWS, project};
pub use ring::Ring;
pub use scalar::{FRACTION, Inverse, InverseRoot};
pub use server::ServerIndex;
pub use shares::Shares;
pub use vectors::Vectors;
