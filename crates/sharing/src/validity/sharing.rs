//! Dealing a proof to verifiers, and answering a challenge with what was dealt.

use std::ops::Range;

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;
use blindsum_math::field::Field;
use blindsum_math::lagrange;
use blindsum_math::prime_field::NttField;
use blindsum_math::transform::{CosetTransform, Interpolation, MAX_POINTS};
use zeroize::Zeroizing;

use super::answer::{PointOf, Shares, answers};
use super::points::{F, Points, evaluate, inner};
use super::{
    Challenge, Layout, ProofShape, REPETITIONS, Statement, Test, ValidityError, ValidityParameters,
    Witness,
};
use crate::SharingError;
use crate::ramp::{Embedding, RampSharing, Residues, fill_uniform};

/// The seeds of a proof. A prover keeps them to deal a column once more; they must not serve for another vector.
pub struct ProofSeeds {
    /// Of the random elements of the rows of words.
    pub words: Secret<32>,
    /// Of those of all other rows.
    pub rows: Secret<32>,
    /// Of the masks of the tests.
    pub masks: Secret<32>,
}

/// The answer of a verifier about one prover: one element for each test and repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer(pub(super) Vec<F>);

/// A sharing of vectors with the proof that a statement holds for each of them. Holds tables, no secrets.
pub struct ValiditySharing {
    shape: ProofShape,
    pub(super) points: Points<F>,
    /// The vector, as it is summed.
    words: RampSharing,
    /// Rows of words, filled up behind the last word.
    word_rows: RampSharing,
    other_rows: RampSharing,
    /// What each verifier knows of its point.
    verifiers: Vec<PointOf<F>>,
}

impl ValiditySharing {
    /// Prepares the sharing.
    ///
    /// # Errors
    /// The rule that the statement breaks, or [`SharingError::Points`] for more parties than there are points.
    pub fn new(
        parameters: ValidityParameters,
        statement: Statement,
    ) -> Result<Self, ValidityError> {
        let shape = ProofShape::new(parameters, statement)?;
        let ramp = parameters.ramp();
        let of = |words| RampSharing::new(ramp, Embedding::Evaluations, Residues::Wide, words);
        let layout = shape.layout();
        let of_rows = |rows: Range<usize>| of(rows.len() * parameters.packing());
        let points = points(&parameters)?;
        Ok(Self {
            words: of(statement.words)?,
            word_rows: of_rows(layout.words())?,
            other_rows: of_rows(other_rows(layout))?,
            verifiers: verifiers(layout, &points)?,
            shape,
            points,
        })
    }

    /// Its parameters and sizes.
    pub fn shape(&self) -> &ProofShape {
        &self.shape
    }

    /// The parameters.
    pub fn parameters(&self) -> &ValidityParameters {
        self.shape.parameters()
    }

    /// The rows of a proof.
    pub fn layout(&self) -> &Layout {
        self.shape.layout()
    }

    /// The sharing of the vector alone. Its column is the beginning of a column of the proof.
    pub fn words(&self) -> &RampSharing {
        &self.words
    }

    /// The tests.
    pub fn tests(&self) -> &'static [Test] {
        self.shape.tests()
    }

    /// The point at which the verifier of this rank holds its shares.
    pub fn share_point(&self, rank: usize) -> Option<F> {
        self.points.shares.get(rank).copied()
    }

    /// Bytes of a column: the shares of all rows and of all masks that one verifier gets.
    pub fn column_len(&self) -> usize {
        self.shape.column_len()
    }

    /// Bytes of an answer about one prover.
    pub fn answer_len(&self) -> usize {
        self.shape.answer_len()
    }

    /// Deals a vector: writes the shares of its words, [`ProofShape::words_len`] bytes, to the beginning of the column of each
    /// verifier j, `columns[j]`, unless that is `None`. The same seeds and rows give the same shares.
    ///
    /// # Errors
    /// [`SharingError::Columns`] unless there are n columns of [`ValiditySharing::column_len`] bytes.
    pub fn deal_words(
        &self,
        seeds: &ProofSeeds,
        witness: &Witness,
        columns: &mut [Option<&mut [u8]>],
    ) -> Result<(), ValidityError> {
        self.check_columns(columns)?;
        let len = self.shape.words_len();
        let mut parts = parts(columns, 0..len);
        share_rows(
            &self.word_rows,
            &seeds.words,
            witness,
            self.layout().words(),
            &mut parts,
        )
    }

    /// Deals the proof of a vector: writes the rest of each column, as [`ValiditySharing::deal_words`] does its beginning.
    ///
    /// # Errors
    /// As there.
    pub fn deal_proof(
        &self,
        seeds: &ProofSeeds,
        witness: &Witness,
        columns: &mut [Option<&mut [u8]>],
    ) -> Result<(), ValidityError> {
        self.check_columns(columns)?;
        let start = self.shape.words_len();
        let end = start + self.other_rows.column_len();
        self.deal_masks(&seeds.masks, &mut parts(columns, end..self.column_len()));
        let mut parts = parts(columns, start..end);
        share_rows(
            &self.other_rows,
            &seeds.rows,
            witness,
            other_rows(self.layout()),
            &mut parts,
        )
    }

    fn check_columns(&self, columns: &[Option<&mut [u8]>]) -> Result<(), ValidityError> {
        let (parties, need) = (self.parameters().parties(), self.column_len());
        let fits = columns.iter().flatten().all(|column| column.len() == need);
        match columns.len() == parties && fits {
            true => Ok(()),
            false => Err(SharingError::Columns { parties, need }.into()),
        }
    }

    /// The masks, a random honest polynomial for each test and repetition. Their elements come from the mask stream of the
    /// seed, those of test t in repetition ρ from byte (8·ρ + t)·2^35 on.
    fn deal_masks(&self, seed: &Secret<32>, columns: &mut [Option<&mut [u8]>]) {
        let (k, l) = (self.parameters().threshold(), self.parameters().packing());
        let stream = [MaskStream::new(
            MaskSeed::from(Secret::from(seed.expose())),
            Sign::Add,
        )];
        for repetition in 0..REPETITIONS {
            for (place, &test) in self.tests().iter().enumerate() {
                let mut drawn = Zeroizing::new(vec![0; test.freedom(k, l)]);
                fill_uniform::<F>(&stream, 8 * repetition as u64 + test as u64, &mut drawn);
                let element = |&value: &u64| F::from_canonical(value).unwrap_or(F::ZERO);
                let freedom = Zeroizing::new(drawn.iter().map(element).collect::<Vec<F>>());
                let mask = self.points.mask(test, &freedom);
                let at = (repetition * self.tests().len() + place) * F::ENCODED_LEN;
                for (column, &point) in columns.iter_mut().zip(&self.points.shares) {
                    if let Some(column) = column {
                        evaluate(&mask, point).write_to(&mut column[at..at + F::ENCODED_LEN]);
                    }
                }
            }
        }
    }

    /// The challenge expanded from a seed.
    pub fn challenge(&self, seed: [u8; 32]) -> Challenge<F> {
        Challenge::new(seed, self.layout())
    }

    /// The answer of the verifier of rank `verifier` about the prover that dealt it a column. The seed is that of the prover's
    /// projections; it does not matter where there are none.
    ///
    /// # Errors
    /// [`SharingError::Holders`] for a rank beyond n, [`SharingError::ColumnLength`], [`SharingError::ColumnElement`] for
    /// an element that is not canonical.
    pub fn answer(
        &self,
        challenge: &Challenge<F>,
        verifier: usize,
        column: &[u8],
        seed: [u8; 32],
    ) -> Result<Answer, ValidityError> {
        let point = self.verifiers.get(verifier).ok_or(SharingError::Holders {
            threshold: 1,
            parties: self.parameters().parties(),
        })?;
        let elements = self.read_column(column)?;
        let (rows, masks) = elements.split_at(self.layout().rows());
        let shares = Shares { rows, masks };
        let found = answers(self.layout(), self.tests(), challenge, point, &shares, seed);
        Ok(Answer(found))
    }

    /// Whether this is a column.
    ///
    /// # Errors
    /// [`SharingError::ColumnLength`], [`SharingError::ColumnElement`] for an element that is not canonical.
    pub fn check_column(&self, column: &[u8]) -> Result<(), ValidityError> {
        self.read_column(column).map(drop)
    }

    fn read_column(&self, column: &[u8]) -> Result<Zeroizing<Vec<F>>, ValidityError> {
        let (got, need) = (column.len(), self.column_len());
        match got == need {
            true => Ok(Zeroizing::new(read_elements(column)?)),
            false => Err(SharingError::ColumnLength { got, need }.into()),
        }
    }

    /// The part of a column that is shares of the vector: a column of [`ValiditySharing::words`].
    ///
    /// # Errors
    /// [`SharingError::ColumnLength`].
    pub fn words_of<'a>(&self, column: &'a [u8]) -> Result<&'a [u8], ValidityError> {
        let need = self.column_len();
        match column.get(..self.words.column_len()) {
            Some(words) if column.len() == need => Ok(words),
            _ => {
                let got = column.len();
                Err(SharingError::ColumnLength { got, need }.into())
            }
        }
    }

    /// Writes an answer, [`ValiditySharing::answer_len`] bytes.
    pub fn write_answer(&self, answer: &Answer) -> Vec<u8> {
        let mut bytes = vec![0; self.answer_len()];
        let places = bytes.chunks_exact_mut(F::ENCODED_LEN);
        for (place, element) in places.zip(&answer.0) {
            element.write_to(place);
        }
        bytes
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// [`SharingError::ColumnLength`], [`SharingError::ColumnElement`] for an element that is not canonical.
    pub fn read_answer(&self, bytes: &[u8]) -> Result<Answer, ValidityError> {
        let (got, need) = (bytes.len(), self.answer_len());
        if got != need {
            return Err(SharingError::ColumnLength { got, need }.into());
        }
        Ok(Answer(read_elements(bytes)?))
    }
}

/// The points of words and of shares.
fn points(parameters: &ValidityParameters) -> Result<Points<F>, ValidityError> {
    let (k, l, n) = (
        parameters.threshold(),
        parameters.packing(),
        parameters.parties(),
    );
    let too_many = |_| SharingError::Points {
        parties: n,
        most: MAX_POINTS,
    };
    let words = Interpolation::<F>::new(k).map_err(too_many)?;
    let shares = CosetTransform::<F>::new(k, n).map_err(too_many)?;
    Ok(Points::new(
        (0..l).map(|slot| words.point(slot)).collect(),
        (0..n).map(|rank| shares.point(rank)).collect(),
        2 * k,
    ))
}

fn read_elements(bytes: &[u8]) -> Result<Vec<F>, SharingError> {
    let elements = bytes.chunks_exact(F::ENCODED_LEN).map(F::read_from);
    elements
        .collect::<Result<_, _>>()
        .map_err(|_| SharingError::ColumnElement)
}

/// All rows but those of words.
fn other_rows(layout: &Layout) -> Range<usize> {
    layout.words().end..layout.rows()
}

/// A part of every column that is there.
fn parts<'a>(
    columns: &'a mut [Option<&mut [u8]>],
    range: Range<usize>,
) -> Vec<Option<&'a mut [u8]>> {
    let parts = columns.iter_mut();
    parts
        .map(|column| Some(&mut column.as_mut()?[range.clone()]))
        .collect()
}

fn share_rows(
    sharing: &RampSharing,
    seed: &Secret<32>,
    witness: &Witness,
    rows: Range<usize>,
    columns: &mut [Option<&mut [u8]>],
) -> Result<(), ValidityError> {
    let read = |first: usize, out: &mut [u64]| {
        witness.read(&rows, first, out);
        Ok::<(), SharingError>(())
    };
    let seed = MaskSeed::from(Secret::from(seed.expose()));
    Ok(sharing.share(seed, read, columns)?)
}

/// What verifiers know of their points: the values of the polynomials that are 1 in one slot, and of those whose values in all
/// slots are the weights of bits of the norm.
fn verifiers<E: NttField>(
    layout: &Layout,
    points: &Points<E>,
) -> Result<Vec<PointOf<E>>, ValidityError> {
    let no_points = |_| SharingError::Points {
        parties: points.shares.len(),
        most: MAX_POINTS,
    };
    let matrix = lagrange::values_matrix(&points.words, &points.shares).map_err(no_points)?;
    let packing = layout.packing();
    let of_row = |row: usize| {
        let weight =
            move |slot| E::from_canonical(layout.norm_weight(row, slot)).unwrap_or(E::ZERO);
        (0..packing).map(weight).collect::<Vec<E>>()
    };
    let weights: Vec<Vec<E>> = (0..layout.norm_bits().len()).map(of_row).collect();
    let of_point = |basis: &[E]| PointOf {
        norm_weights: weights.iter().map(|row| inner(basis, row)).collect(),
        basis: basis.to_vec(),
    };
    let values = matrix.entries().chunks_exact(packing);
    Ok(values.map(of_point).collect())
}
