//! Evaluation of polynomials at the points of a coset and interpolation at roots of unity, eight polynomials at a time.
//!
//! Both walk the remainder tree X^m − c → (X^{m/2} − √c)(X^{m/2} + √c). Its node of size m holds a polynomial modulo
//! X^m − c, its leaves are values. A step down is one multiplication by √c for two coefficients. All rows below a node
//! share the factor √c, so vector instructions work on several polynomials without moving data. The evaluation leaves
//! out the top of the tree, where the polynomial (of degree < k) does not change, and the values at points that are not
//! asked for. The interpolation of any number k of values is the truncated inverse of van der Hoeven ("The truncated
//! Fourier transform and applications", 2004) in the form of Harvey ("A cache-friendly truncated FFT", 2009).
//!
//! Points come in bit-reversed order: the j-th point is the same whatever n or k is. No evaluation point is an
//! interpolation point, as the former lie in a coset by an element that is no square.
//!
//! Inside a call residues need not be canonical; the results are.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ifma;
mod kernel;
mod lanes;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[allow(unsafe_code)]
mod portable;
mod scalar;
#[cfg(test)]
mod tests;
mod tree;

use zeroize::DefaultIsZeroes;

use crate::MathError;
use crate::prime_field::NttField;
use lanes::{Factor, Job};
use tree::{Spine, Tree};

/// Log of [`MAX_POINTS`].
const LOG_MAX_POINTS: u32 = 14;

/// The largest number n of points: more levels could overflow the 52 bits that residues have between reductions.
pub const MAX_POINTS: usize = 1 << LOG_MAX_POINTS;

/// One coefficient or value of each of eight polynomials: representatives below p.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row(pub [u64; 8]);

impl DefaultIsZeroes for Row {}

/// An implementation of the transforms. All of them give the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// 64-bit integers: what the others are tested against.
    Scalar,
    /// `f64` with fused multiply-add: AVX2 or NEON, as the compiler makes it.
    Portable,
    /// AVX-512 with IFMA: one row a register.
    Ifma,
}

impl Backend {
    /// Every backend, the slowest first.
    pub const ALL: [Backend; 3] = [Backend::Scalar, Backend::Portable, Backend::Ifma];

    /// The name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Scalar => "scalar",
            Backend::Portable => "portable",
            Backend::Ifma => "ifma",
        }
    }

    /// Whether this machine can run it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Backend::Scalar => true,
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Backend::Portable => portable::is_available(),
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma => ifma::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The factor `value` as this backend wants it.
    fn factor<F: NttField>(self, value: F) -> Factor {
        let (value, modulus) = (value.to_canonical(), F::MODULUS);
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Backend::Portable => portable::factor(value, modulus),
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma => ifma::factor(value, modulus),
            _ => scalar::factor(value, modulus),
        }
    }

    /// Runs a job whose factors are this backend's.
    fn run<J: Job>(self, modulus: u64, job: J) {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Backend::Portable => portable::run(modulus, job),
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma => ifma::run(modulus, job),
            _ => scalar::run(modulus, job),
        }
    }
}

/// The backend that is used by default: the fastest that this machine can run.
#[must_use]
pub fn backend() -> Backend {
    let fastest = Backend::ALL.into_iter().rev().find(|b| b.is_available());
    fastest.unwrap_or(Backend::Scalar)
}

/// The values of polynomials of degree < k at n points of the coset `GENERATOR` · ⟨θ⟩.
pub struct CosetTransform<F> {
    tree: Tree,
    coefficients: usize,
    points: usize,
    backend: Backend,
    /// The roots of order 2, 4, .., N.
    roots: Vec<F>,
}

impl<F: NttField> CosetTransform<F> {
    /// Prepares the evaluation of `coefficients` = k coefficients at `points` = n points.
    ///
    /// # Errors
    /// [`MathError::TransformSize`] unless 1 ≤ k ≤ n ≤ [`MAX_POINTS`], [`MathError::RootOrder`] if the field has no root
    /// of unity for n points.
    pub fn new(coefficients: usize, points: usize) -> Result<Self, MathError> {
        Self::with_backend(coefficients, points, backend())
    }

    /// [`CosetTransform::new`] with a given backend, which this machine must be able to run. For comparisons.
    ///
    /// # Errors
    /// As [`CosetTransform::new`].
    #[doc(hidden)]
    pub fn with_backend(
        coefficients: usize,
        points: usize,
        backend: Backend,
    ) -> Result<Self, MathError> {
        check_size(coefficients, points)?;
        Ok(Self {
            // guard: ramp-points-off-the-words
            tree: Tree::new(F::GENERATOR, points, backend)?,
            roots: tree::roots_up_to(points)?,
            coefficients,
            points,
            backend,
        })
    }

    /// The number k of coefficients.
    #[must_use]
    pub fn coefficients(&self) -> usize {
        self.coefficients
    }

    /// The number n of points.
    #[must_use]
    pub fn points(&self) -> usize {
        self.points
    }

    /// The rows that [`CosetTransform::evaluate`] needs: 2^⌈log2 n⌉.
    #[must_use]
    pub fn scratch_rows(&self) -> usize {
        self.tree.size()
    }

    /// The point η_j = `GENERATOR` · θ^bitrev(j), for j < 2^⌈log2 n⌉, where θ is the root of unity of this order.
    ///
    /// # Panics
    /// If j is not below this order.
    #[must_use]
    pub fn point(&self, j: usize) -> F {
        // guard: ramp-share-points-are-no-word-points
        F::GENERATOR * tree::leaf(&self.roots, j)
    }

    /// Replaces the coefficients in `rows[..k]`, constant term first, by the values in `rows[..n]`, that of η_j in row j.
    ///
    /// The contents of the other rows do not matter before the call and mean nothing after it. The caller wipes the
    /// rows.
    ///
    /// # Panics
    /// If there are fewer than [`CosetTransform::scratch_rows`] rows.
    pub fn evaluate(&self, rows: &mut [Row]) {
        assert!(rows.len() >= self.scratch_rows(), "rows for the whole tree");
        let job = kernel::Evaluate {
            tree: &self.tree,
            coefficients: self.coefficients,
            points: self.points,
            rows,
        };
        self.backend.run(F::MODULUS, job);
    }
}

/// The polynomials of degree < k with given values at k roots of unity of order 2^⌈log2 k⌉.
pub struct Interpolation<F> {
    tree: Tree,
    spine: Spine,
    coefficients: usize,
    backend: Backend,
    /// The roots of order 2, 4, .., N.
    roots: Vec<F>,
}

impl<F: NttField> Interpolation<F> {
    /// Prepares the interpolation of `coefficients` = k values.
    ///
    /// # Errors
    /// [`MathError::TransformSize`] unless 1 ≤ k ≤ [`MAX_POINTS`].
    pub fn new(coefficients: usize) -> Result<Self, MathError> {
        Self::with_backend(coefficients, backend())
    }

    /// [`Interpolation::new`] with a given backend, which this machine must be able to run. For comparisons.
    ///
    /// # Errors
    /// As [`Interpolation::new`].
    #[doc(hidden)]
    pub fn with_backend(coefficients: usize, backend: Backend) -> Result<Self, MathError> {
        check_size(coefficients, coefficients)?;
        Ok(Self {
            tree: Tree::inverse::<F>(coefficients, backend)?,
            roots: tree::roots_up_to(coefficients)?,
            spine: Spine::new::<F>(coefficients, backend)?,
            coefficients,
            backend,
        })
    }

    /// The number k of coefficients and of values.
    #[must_use]
    pub fn coefficients(&self) -> usize {
        self.coefficients
    }

    /// The rows that [`Interpolation::interpolate`] needs: 2^⌈log2 k⌉.
    #[must_use]
    pub fn scratch_rows(&self) -> usize {
        self.tree.size()
    }

    /// The point ω^bitrev(e), for e < 2^⌈log2 k⌉, where ω is the root of unity of this order.
    ///
    /// # Panics
    /// If e is not below this order.
    #[must_use]
    pub fn point(&self, e: usize) -> F {
        tree::leaf(&self.roots, e)
    }

    /// Replaces the values in `rows[..k]`, that at point e in row e, by the coefficients, constant term first.
    ///
    /// The contents of the other rows do not matter before the call and mean nothing after it. The caller wipes the
    /// rows.
    ///
    /// # Panics
    /// If there are fewer than [`Interpolation::scratch_rows`] rows.
    pub fn interpolate(&self, rows: &mut [Row]) {
        assert!(rows.len() >= self.scratch_rows(), "rows for the whole tree");
        let job = kernel::Interpolate {
            tree: &self.tree,
            spine: &self.spine,
            rows,
        };
        self.backend.run(F::MODULUS, job);
    }
}

fn check_size(coefficients: usize, points: usize) -> Result<(), MathError> {
    if 1 <= coefficients && coefficients <= points && points <= MAX_POINTS {
        Ok(())
    } else {
        Err(MathError::TransformSize {
            coefficients,
            points,
            largest: MAX_POINTS,
        })
    }
}
