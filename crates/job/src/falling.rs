//! Clipping bounds that fall round by round, which the operator and the party are warned of.
//!
//! A bound that follows from earlier rounds falls where the updates of all parties are small. That may be what training does, a
//! fault of it, or a `clip` that is far too wide.

use blindsum_protocol::{JobSpec, Round, RoundKind};

/// So many rounds in a row.
const ROUNDS: u32 = 5;
/// To less than this part of what the bound was before them.
const PART: f64 = 1.0 / 8.0;

/// The bounds of every tensor, round by round.
#[derive(Default)]
pub(crate) struct Falling(Vec<Run>);

/// Rounds in a row in which a bound fell.
struct Run {
    /// The bound before them.
    from: f64,
    latest: f64,
    rounds: u32,
    /// So many rounds since had the same bound.
    still: u32,
}

impl Falling {
    /// Observes the bounds of a round; gives a warning for every tensor whose bound fell in [`ROUNDS`] rounds in a row to
    /// less than [`PART`] of it, or again as far since the last warning. A few rounds with the bound of the one before, as those
    /// have that repeat it after a loss, are no end of the row.
    pub fn observe(&mut self, round: &Round) -> Vec<String> {
        if round.job().new_history().is_none() || round.kind() == RoundKind::KeySetup {
            return Vec::new();
        }
        let bounds: Vec<f64> = round.encoding().tensors().map(|(_, clip)| clip).collect();
        let fallen = self.fallen(&bounds).into_iter();
        fallen
            .map(|(tensor, from, to, rounds)| {
                let name = name_of(round.job().spec(), tensor);
                format!(
                    "the clipping bound of {name} fell in {rounds} rounds in a row, from {from:.3e} to {to:.3e}: the \
                     updates of all parties are that small; clipping = tensor keeps the bound"
                )
            })
            .collect()
    }

    /// The tensors whose bounds have fallen, from which to which, in so many rounds.
    fn fallen(&mut self, bounds: &[f64]) -> Vec<(usize, f64, f64, u32)> {
        if self.0.len() != bounds.len() {
            self.0 = bounds.iter().copied().map(Run::at).collect();
            return Vec::new();
        }
        let mut fallen = Vec::new();
        for (tensor, (run, &bound)) in self.0.iter_mut().zip(bounds).enumerate() {
            if bound == run.latest {
                run.still += 1;
            }
            if bound > run.latest || run.still == ROUNDS {
                *run = Run::at(bound);
            }
            if bound == run.latest {
                continue;
            }
            (run.latest, run.rounds, run.still) = (bound, run.rounds + 1, 0);
            if run.rounds >= ROUNDS && bound < PART * run.from {
                fallen.push((tensor, run.from, bound, run.rounds));
                *run = Run::at(bound);
            }
        }
        fallen
    }

    /// Whether no bound falls any more.
    pub fn is_steady(&self) -> bool {
        self.0.iter().all(|run| run.rounds == 0)
    }
}

impl Run {
    fn at(bound: f64) -> Self {
        Self {
            from: bound,
            latest: bound,
            rounds: 0,
            still: 0,
        }
    }
}

/// What a tensor is called.
fn name_of(spec: &JobSpec, tensor: usize) -> String {
    match spec
        .encoding
        .tensors()
        .get(tensor)
        .map(|it| it.name.as_str())
    {
        None => "all coordinates".into(),
        Some("") => format!("tensor {tensor}"),
        Some(name) => format!("tensor {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fallen(bounds: &[f64]) -> Vec<(f64, f64, u32)> {
        let mut falling = Falling::default();
        let each = bounds
            .iter()
            .flat_map(|&bound| falling.fallen(&[1.0, bound]));
        each.map(|(tensor, from, to, rounds)| {
            assert_eq!(tensor, 1);
            (from, to, rounds)
        })
        .collect()
    }

    #[test]
    fn bounds_that_fall_far_for_long_are_told_once_each_time() {
        let halves: Vec<f64> = (0..12).map(|round| f64::powi(0.5, round)).collect();
        let told = fallen(&halves);
        assert_eq!(told, [(1.0, halves[5], 5), (halves[5], halves[10], 5)]);
        // Not far enough yet after five rounds.
        let slowly: Vec<f64> = (0..12).map(|round| f64::powi(0.8, round)).collect();
        assert_eq!(fallen(&slowly), [(1.0, slowly[10], 10)]);
        // Not in a row.
        let mut bumpy = halves.clone();
        bumpy[3] = 0.3;
        assert_eq!(fallen(&bumpy[..8]), []);
        assert_eq!(fallen(&[1.0, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01]), []);
    }

    /// A round that is lost is repeated with the same bounds.
    #[test]
    fn lost_rounds_hide_no_fall() {
        let twice: Vec<f64> = (0..12).map(|round| f64::powi(0.5, round / 2)).collect();
        assert_eq!(fallen(&twice), [(1.0, twice[10], 5)]);
    }

    #[test]
    fn bounds_that_stand_still_are_steady() {
        let mut falling = Falling::default();
        falling.fallen(&[1.0, 1.0]);
        falling.fallen(&[1.0, 0.5]);
        for _ in 0..ROUNDS {
            assert!(!falling.is_steady());
            falling.fallen(&[1.0, 0.5]);
        }
        assert!(falling.is_steady());
    }
}
