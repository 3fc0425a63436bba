//! Which code computes with large numbers.

#[cfg(target_arch = "x86_64")]
use super::ifma::{self, Ifma};
use super::kernel::{Arithmetic, On};
use super::portable::Portable;

/// An implementation of the arithmetic modulo N², p² and q². All of them give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `crypto-bigint`, one number at a time.
    Portable,
    /// AVX-512 with IFMA: eight numbers side by side.
    Ifma,
}

impl Backend {
    /// Every backend, the slowest first.
    pub const ALL: [Backend; 2] = [Backend::Portable, Backend::Ifma];

    /// The name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Portable => "portable",
            Backend::Ifma => "ifma",
        }
    }

    /// Whether this machine can run it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Backend::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma => ifma::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Backend::Ifma => false,
        }
    }

    /// The fastest backend that this machine can run.
    #[must_use]
    pub fn fastest() -> Self {
        match Backend::Ifma.is_available() {
            true => Backend::Ifma,
            false => Backend::Portable,
        }
    }

    /// Arithmetic modulo an odd number of 32, 48, 64 or 96 words.
    ///
    /// # Panics
    /// If the modulus is even or has another length, or the machine cannot.
    pub(super) fn modulo(self, modulus: &[u64]) -> Box<dyn Arithmetic> {
        match (self, modulus.len()) {
            (Backend::Portable, 32) => Box::new(On(Portable::<32>::new(modulus))),
            (Backend::Portable, 48) => Box::new(On(Portable::<48>::new(modulus))),
            (Backend::Portable, 64) => Box::new(On(Portable::<64>::new(modulus))),
            (Backend::Portable, 96) => Box::new(On(Portable::<96>::new(modulus))),
            #[cfg(target_arch = "x86_64")]
            (Backend::Ifma, 32) => Box::new(On(Ifma::<40, 32>::new(modulus))),
            #[cfg(target_arch = "x86_64")]
            (Backend::Ifma, 48) => Box::new(On(Ifma::<60, 48>::new(modulus))),
            #[cfg(target_arch = "x86_64")]
            (Backend::Ifma, 64) => Box::new(On(Ifma::<79, 64>::new(modulus))),
            #[cfg(target_arch = "x86_64")]
            (Backend::Ifma, 96) => Box::new(On(Ifma::<119, 96>::new(modulus))),
            (backend, words) => panic!("{} with {words} words", backend.name()),
        }
    }
}
