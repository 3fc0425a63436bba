//! Proofs on packed shares that a vector is valid: that its words are in range, and that its norm is bounded.
//!
//! A prover shares its vector among n verifiers, as in [`ramp`](crate::ramp), and beside it what makes the statement easy to
//! check: the squares of the words, the bits of the words, the bits of the norm. Every *row* of these is one polynomial of
//! degree below k that packs l numbers. The statement holds if all rows are such polynomials (test `degree`), all bits are
//! 0 or 1 (`input-bit`, `norm-bit`), every word is the sum of its bits (`input-bound`), every square is that of its word
//! (`quadratic`), and the squares add up to what the bits of the norm say (`norm`). The largest numbers that the bits can
//! say are the bounds. Where the bound of the norm alone is wanted, bits of a few random projections of the vector take the place
//! of the bits of words (tests `projection-bit`, `projection`): see [`projection`].
//!
//! A [`Challenge`], unknown until every prover has dealt its shares, combines all rows at random, so that each test opens
//! one polynomial. Each verifier answers with that polynomial's value at its own point, which it computes from its own
//! shares alone. The values are a word of a Reed–Solomon code: [`ValiditySharing::judge`] corrects what up to c verifiers
//! answered wrongly, and says which they are. Each polynomial is masked by one that runs through all polynomials that an
//! honest prover can have, so that it shows nothing else ([`Test::freedom`]). All tests are repeated with masks and
//! factors of their own, as the field has only 47 bits.
//!
//! After the input validation of the PSS thesis (§IV), which names the tests. The polynomials, the masks and the bits are
//! ours: a mask of degree below k leaves the upper coefficients of products in the clear, and a bound that is tested for
//! the sum of a block lets two words err in opposite directions. Tests show both.

mod answer;
mod bounded;
mod challenge;
mod error;
mod layout;
mod parameters;
mod points;
pub mod projection;
mod shape;
mod sharing;
mod statement;
mod test;
mod verdict;
mod witness;

pub use challenge::Challenge;
pub use error::ValidityError;
pub use layout::Layout;
pub use parameters::{ValidityParameters, ValidityRequest};
pub use shape::ProofShape;
pub use sharing::{Answer, ProofSeeds, ValiditySharing};
pub use statement::{NormBound, RangeProof, Statement};
pub use test::{Shape, Test};
pub use verdict::Verdict;
pub use witness::Witness;

/// How often all tests are done, each time with factors and masks of their own.
pub const REPETITIONS: usize = 2;

#[cfg(test)]
mod tests;
