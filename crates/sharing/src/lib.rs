//! Threshold secret sharing: a secret is split among n holders so that any t of them can rebuild it and any t − 1
//! learn nothing about it.
//!
//! [`shamir`] shares short secrets of 32 bytes, such as keys and seeds.

#![forbid(unsafe_code)]

mod error;
pub mod shamir;

pub use error::SharingError;
pub use shamir::{
    Point, Reconstructor, SECRET_LEN, SHARE_LEN, Share, reconstruct, robust_reconstruct, share,
};
