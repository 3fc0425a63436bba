//! Checks of the numbers that the coordinator has announced: a party derives none, and checks those on which its
//! privacy rests.

use super::{Bounds, Chosen, GraphParameters, LOG2_SECURITY, ParameterError};
use crate::core::round_parameters::{as_asked, broken};
use crate::protocols::secagg::tails::Hypergeometric;
use crate::{FaultKind, JobSpec};

/// A probability counts as below 2^-40 up to 2^(-40 + 10^-6). In doubles log2 of a tail comes out wrong by less than
/// 10^-8 for 10,000 parties, however it is computed, so that two programs that both compute in doubles never disagree
/// about numbers that one of them has chosen. It costs less than a millionth of the bound.
const TOLERANCE: f64 = 1e-6;

impl GraphParameters {
    /// The numbers that the coordinator has announced, for a roster of so many parties. Whether enough holders survive is
    /// not asked: without them the round has no result, and nobody learns anything.
    ///
    /// # Errors
    /// [`FaultKind::Number`]: the number and the rule that it breaks.
    pub(in crate::protocols::secagg) fn announced(
        spec: &JobSpec,
        parties: usize,
        numbers: Chosen,
    ) -> Result<Self, FaultKind> {
        let tails = Hypergeometric::new(parties);
        let bounds = Bounds {
            log2_security: LOG2_SECURITY + TOLERANCE,
            ..Bounds::new(spec, parties, &tails)
        };
        bounds.check_degree(numbers.neighbours)?;
        as_asked("threshold", numbers.threshold, bounds.threshold)?;
        let announced = Self::of_round(parties, numbers);
        let least = |bounds: &Bounds<'_>| {
            // guard: graphs-that-are-told-hold-together
            bounds.check_graph(announced.neighbours)?;
            let least = bounds.least_threshold(announced.neighbours);
            // guard: thresholds-that-are-told-are-safe
            bounds.check_threshold(announced.holders(), least, announced.threshold)
        };
        match least(&bounds) {
            Ok(()) => Ok(announced),
            Err(ParameterError { field, rule }) => broken(field, rule),
        }
    }
}

impl Bounds<'_> {
    /// There is such a graph, and it is the one that the job asks for.
    fn check_degree(&self, announced: u32) -> Result<(), FaultKind> {
        let (n, neighbours) = (self.parties, announced as usize);
        if n < 2 || !(1..n).contains(&neighbours) {
            let rule = format!(
                "neighbours is {announced} and must be at least 1 and below {n}, the parties in the round"
            );
            return broken("neighbours", rule);
        }
        if neighbours % 2 == 1 && n % 2 == 1 {
            let rule =
                format!("neighbours * parties in the round = {announced} * {n} must be even");
            return broken("neighbours", rule);
        }
        let asked = match (self.complete, self.neighbours) {
            (true, _) => n - 1,
            (false, 0) => 0,
            (false, chosen) => self.drawable(chosen),
        };
        as_asked("neighbours", announced, asked)
    }
}
