//! How large everything in a proof is, without the tables that it takes to deal one.

use blindsum_math::field::Field;

use super::points::F;
use super::{Layout, REPETITIONS, Statement, Test, ValidityError, ValidityParameters};

/// The parameters of a proof and the sizes that follow from them.
#[derive(Clone, Copy, Debug)]
pub struct ProofShape {
    parameters: ValidityParameters,
    layout: Layout,
}

impl ProofShape {
    /// The shape of a proof of this statement.
    ///
    /// # Errors
    /// The rule that the statement breaks.
    pub fn new(
        parameters: ValidityParameters,
        statement: Statement,
    ) -> Result<Self, ValidityError> {
        let layout = Layout::new(statement, parameters.packing(), F::MODULUS)?;
        Ok(Self { parameters, layout })
    }

    /// The parameters.
    pub fn parameters(&self) -> &ValidityParameters {
        &self.parameters
    }

    /// The rows.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tests.
    pub fn tests(&self) -> &'static [Test] {
        Test::of(self.layout.statement())
    }

    /// Bytes of a column: the shares of all rows and of all masks that one verifier gets.
    pub fn column_len(&self) -> usize {
        self.layout.rows() * F::ENCODED_LEN + self.answer_len()
    }

    /// Bytes of the beginning of a column that is shares of the vector.
    pub fn words_len(&self) -> usize {
        self.layout.blocks() * F::ENCODED_LEN
    }

    /// Bytes of an answer about one prover: one element for each test and repetition.
    pub fn answer_len(&self) -> usize {
        REPETITIONS * self.tests().len() * F::ENCODED_LEN
    }
}
