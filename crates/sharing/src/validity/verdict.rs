//! Judging provers by what verifiers answered.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_math::field::Field;
use blindsum_math::lagrange;
use blindsum_math::reed_solomon::ReedSolomon;
use rand_core::CryptoRng;

use super::points::{F, Points, inner};
use super::{Answer, REPETITIONS, Test, ValiditySharing};

/// The verdict on a prover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They fit each other but for those of these verifiers, and the tests hold. If there are any, either the prover dealt
    /// such a verifier another column than the others, or the verifier answered wrongly; its column shows which. If there
    /// are more than c, the prover has lied, and not all tests were done.
    Fits(BTreeSet<usize>),
    /// The prover has lied: this test fails, whatever up to c verifiers answered.
    Fails(Test),
}

/// Random combinations of all provers' answers that are tested first.
const COMBINATIONS: usize = 2;

impl ValiditySharing {
    /// Judges provers by the answers of these verifiers, given by rank: `about[i][j]` is what verifier j of `verifiers`
    /// answered about prover i, or nothing where it could not. Answers of verifiers about themselves count like others.
    ///
    /// An honest prover fails no test, and fits but for verifiers that answered wrongly, as long as no more than c answers
    /// are wrong or missing. Where a prover fits, the columns that all other verifiers were dealt are shares of rows for
    /// which the statement holds, but for a probability below (3n/p)^2 for each prover.
    ///
    /// Tests random combinations of all first: where everybody is honest nothing else is done.
    pub fn judge(
        &self,
        verifiers: &[usize],
        about: &[Vec<Option<&Answer>>],
        rng: &mut dyn CryptoRng,
    ) -> Vec<Verdict> {
        let everybody: Vec<usize> = (0..verifiers.len()).collect();
        let complete = |of: &Vec<Option<&Answer>>| of.iter().all(Option::is_some);
        let whole: Vec<&Vec<Option<&Answer>>> = about.iter().filter(|of| complete(of)).collect();
        if whole.len() == about.len() && self.all_fit(verifiers, &whole, rng) {
            return about
                .iter()
                .map(|_| Verdict::Fits(BTreeSet::new()))
                .collect();
        }
        let mut codes = BTreeMap::new();
        let judged = about.iter().map(|of| {
            let places = everybody.iter().copied();
            let there: Vec<usize> = places
                .filter(|&j| of.get(j).is_some_and(Option::is_some))
                .collect();
            let ranks: Vec<usize> = there
                .iter()
                .filter_map(|&j| verifiers.get(j).copied())
                .collect();
            let codes = codes
                .entry(ranks.clone())
                .or_insert_with(|| self.codes(&ranks));
            let answers: Vec<&Answer> = there
                .iter()
                .filter_map(|&j| of.get(j).copied().flatten())
                .collect();
            self.verdict(codes, &ranks, &answers)
        });
        judged.collect()
    }

    /// Whether random combinations of all provers' answers pass all tests without a wrong answer.
    fn all_fit(
        &self,
        verifiers: &[usize],
        about: &[&Vec<Option<&Answer>>],
        rng: &mut dyn CryptoRng,
    ) -> bool {
        let codes = self.codes(verifiers);
        let mut factors = vec![F::ZERO; about.len()];
        for _ in 0..COMBINATIONS {
            // guard: wrong-answers-do-not-cancel
            F::fill_random(&mut factors, rng);
            let combined: Vec<Answer> = (0..verifiers.len())
                .map(|j| {
                    let mut sum = vec![F::ZERO; REPETITIONS * self.tests().len()];
                    for (of, &factor) in about.iter().zip(&factors) {
                        let answer = of.get(j).copied().flatten();
                        let terms = answer.into_iter().flat_map(|answer| &answer.0);
                        for (sum, &term) in sum.iter_mut().zip(terms) {
                            *sum += factor * term;
                        }
                    }
                    Answer(sum)
                })
                .collect();
            let verdict = self.verdict(&codes, verifiers, &combined.iter().collect::<Vec<_>>());
            if verdict != Verdict::Fits(BTreeSet::new()) {
                return false;
            }
        }
        true
    }

    /// One code for each test, on the points of these verifiers; none where they are too few for it.
    fn codes(&self, verifiers: &[usize]) -> Vec<Option<Code>> {
        let (k, l) = (self.parameters().threshold(), self.parameters().packing());
        let point = |&rank: &usize| self.points.shares.get(rank).copied();
        let points: Vec<F> = verifiers.iter().filter_map(point).collect();
        let code =
            |test: &Test| Code::new(test.coefficients(k, l), points.clone(), &self.points.words);
        self.tests().iter().map(code).collect()
    }

    fn verdict(&self, codes: &[Option<Code>], ranks: &[usize], answers: &[&Answer]) -> Verdict {
        let mut wrong = BTreeSet::new();
        for (place, (&test, code)) in self.tests().iter().zip(codes).enumerate() {
            let Some(code) = code else {
                return Verdict::Fails(test);
            };
            for repetition in 0..REPETITIONS {
                let at = repetition * self.tests().len() + place;
                let value = |answer: &&Answer| answer.0.get(at).copied().unwrap_or(F::ZERO);
                let word: Vec<F> = answers.iter().map(value).collect();
                match code.decode(&word, &self.points.words) {
                    Some((errors, values)) if Points::fits(test, &values) => {
                        wrong.extend(errors.into_iter().filter_map(|j| ranks.get(j).copied()));
                    }
                    _ => return Verdict::Fails(test),
                }
                // More than may lie: the prover has, and what other tests would say does not matter.
                if wrong.len() > self.parameters().corrupt() {
                    return Verdict::Fits(wrong);
                }
            }
        }
        Verdict::Fits(wrong)
    }
}

/// The code that honest answers of one test are words of.
struct Code {
    dimension: usize,
    points: Vec<F>,
    code: ReedSolomon<F>,
    /// From the first k answers, of a word without errors, to the values at the places of words: a row for each.
    values: Vec<F>,
}

impl Code {
    /// The code of a dimension on these points; none where they are too few.
    fn new(dimension: usize, points: Vec<F>, words: &[F]) -> Option<Self> {
        let code = ReedSolomon::new(dimension, points.clone()).ok()?;
        let values = lagrange::values_matrix(points.get(..dimension)?, words).ok()?;
        Some(Self {
            dimension,
            points,
            code,
            values: values.entries().to_vec(),
        })
    }

    /// The wrong answers of a word, and the polynomial's values at the places of words; none where too many are wrong.
    fn decode(&self, word: &[F], words: &[F]) -> Option<(Vec<usize>, Vec<F>)> {
        let errors = self.code.locate(word).ok()?;
        if errors.is_empty() {
            return Some((errors, products(&self.values, word.get(..self.dimension)?)));
        }
        let right = (0..word.len()).filter(|j| !errors.contains(j));
        let right: Vec<usize> = right.take(self.dimension).collect();
        let of = |list: &[F]| -> Option<Vec<F>> {
            right.iter().map(|&j| list.get(j).copied()).collect()
        };
        let values = lagrange::values_matrix(&of(&self.points)?, words).ok()?;
        let word = of(word)?;
        Some((errors, products(values.entries(), &word)))
    }
}

/// A matrix, row by row, times a vector.
fn products(matrix: &[F], vector: &[F]) -> Vec<F> {
    matrix
        .chunks_exact(vector.len())
        .map(|row| inner(row, vector))
        .collect()
}
