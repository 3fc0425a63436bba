//! Secret sharing: a secret is split among n holders so that enough of them can rebuild it and too few of them
//! learn nothing about it.
//!
//! * [`shamir`] shares short secrets of 32 bytes, such as keys and seeds.
//! * [`ramp`] shares long vectors, many words in one share.
//! * [`validity`] proves of vectors that are shared by [`ramp`] that their words and norms are in bounds.
//! * [`replicated`] shares long vectors among three servers, of which any two have all.

#![forbid(unsafe_code)]

mod error;
pub mod ramp;
pub mod replicated;
pub mod shamir;
pub mod validity;

pub use error::SharingError;
pub use shamir::{
    Locator, Point, Reconstructor, SECRET_LEN, SHARE_LEN, Share, reconstruct, robust_reconstruct,
    share,
};
