//! The tests of a proof: which polynomial each one opens, and what an honest one is like.

use std::fmt;

use super::{RangeProof, Statement};

/// A test of the proof. Every test opens one polynomial, masked, which only an honest prover's rows make right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// Every row is a polynomial of degree below k.
    Degree,
    /// The bits of words are 0 or 1.
    InputBit,
    /// A word is the sum of its bits.
    InputBound,
    /// The squares are those of the words.
    Quadratic,
    /// The bits of the norm are 0 or 1.
    NormBit,
    /// The norm is the sum of the squares, and of its bits.
    Norm,
    /// The bits of projections are 0 or 1.
    ProjectionBit,
    /// Projections are the sum of their bits.
    Projection,
}

/// What the values of an honest polynomial at the places of words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Anything.
    Any,
    /// All zero.
    Zero,
    /// Their sum is zero.
    ZeroSum,
}

impl Test {
    /// All tests.
    pub const ALL: [Test; 8] = [
        Test::Degree,
        Test::InputBit,
        Test::InputBound,
        Test::Quadratic,
        Test::NormBit,
        Test::Norm,
        Test::ProjectionBit,
        Test::Projection,
    ];
    /// The tests where words have bits and the norm has no bound.
    const OF_BITS: &[Test] = &[Test::Degree, Test::InputBit, Test::InputBound];
    /// The tests where words have bits and the norm has a bound.
    const OF_BITS_AND_NORM: &[Test] = &[
        Test::Degree,
        Test::InputBit,
        Test::InputBound,
        Test::Quadratic,
        Test::NormBit,
        Test::Norm,
    ];
    /// The tests where projections are in the place of bits of words.
    const OF_NORM: &[Test] = &[
        Test::Degree,
        Test::Quadratic,
        Test::NormBit,
        Test::Norm,
        Test::ProjectionBit,
        Test::Projection,
    ];

    /// The tests of a statement, in the order of answers.
    pub fn of(statement: &Statement) -> &'static [Test] {
        match (statement.range, statement.norm) {
            (RangeProof::Bits, None) => Self::OF_BITS,
            (RangeProof::Bits, Some(_)) => Self::OF_BITS_AND_NORM,
            (RangeProof::Projections, _) => Self::OF_NORM,
        }
    }

    /// The name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Test::Degree => "degree",
            Test::InputBit => "input-bit",
            Test::InputBound => "input-bound",
            Test::Quadratic => "quadratic",
            Test::NormBit => "norm-bit",
            Test::Norm => "norm",
            Test::ProjectionBit => "projection-bit",
            Test::Projection => "projection",
        }
    }

    /// Coefficients of the polynomial: its degree is below this number, where rows have k coefficients and l words.
    pub fn coefficients(self, k: usize, l: usize) -> usize {
        match self {
            Test::Degree | Test::InputBound => k,
            // guard: masks-have-the-degree-of-products
            Test::InputBit | Test::Quadratic | Test::NormBit | Test::ProjectionBit => 2 * k - 1,
            Test::Norm | Test::Projection => k + l - 1,
        }
    }

    /// What its values at the places of words must be.
    pub fn shape(self) -> Shape {
        match self {
            Test::Degree => Shape::Any,
            Test::InputBit
            | Test::InputBound
            | Test::Quadratic
            | Test::NormBit
            | Test::ProjectionBit => Shape::Zero,
            Test::Norm | Test::Projection => Shape::ZeroSum,
        }
    }

    /// Random elements that its mask has: the dimension of the space of all honest polynomials.
    pub fn freedom(self, k: usize, l: usize) -> usize {
        let coefficients = self.coefficients(k, l);
        match self.shape() {
            Shape::Any => coefficients,
            Shape::Zero => coefficients - l,
            Shape::ZeroSum => coefficients - 1,
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
