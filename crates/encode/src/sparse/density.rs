//! What part of the coordinates is sent, round by round.

use crate::EncodeError;

/// The density of a round, which is the part of every tensor's coordinates that is sent. It falls exponentially
/// from `first` to `last` in `steps` steps of `rounds_per_step` rounds each and then stays (Lin et al., Deep
/// Gradient Compression; FLASHE §6.4):
///
/// ```text
/// s  =  min(steps, ⌊rounds done / rounds_per_step⌋)
/// density  =  first * (last / first)^(s / steps)            and `last` where steps = 0
/// ```
///
/// FLASHE's example, 20, 60, 80 and 90 % of the coordinates left out, 10 rounds each, is first = 0.8,
/// last = 0.1, steps = 3, rounds_per_step = 10.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DensitySchedule {
    first: f64,
    last: f64,
    steps: u32,
    rounds_per_step: u32,
}

impl DensitySchedule {
    /// Checks every rule.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] unless `0 < last <= first <= 1` and `rounds_per_step` is at least 1.
    pub fn new(
        first: f64,
        last: f64,
        steps: u32,
        rounds_per_step: u32,
    ) -> Result<Self, EncodeError> {
        if !(0.0 < last && last <= first && first <= 1.0) {
            let rule = format!("0 < last density = {last} <= first density = {first} <= 1");
            return Err(EncodeError::spec("density", rule));
        }
        if rounds_per_step < 1 {
            let rule = "1 <= rounds_per_step = 0";
            return Err(EncodeError::spec("rounds_per_step", rule));
        }
        Ok(Self {
            first,
            last,
            steps,
            rounds_per_step,
        })
    }

    /// The density of a round, from the number of finished rounds before it.
    pub fn density(&self, rounds_done: u64) -> f64 {
        let step = rounds_done / u64::from(self.rounds_per_step);
        if step >= u64::from(self.steps) {
            return self.last;
        }
        let part = step as f64 / f64::from(self.steps);
        self.first * (self.last / self.first).powf(part)
    }

    /// How many coordinates of a tensor of length `len` are sent: ⌈density · len⌉, and at least 1. A product that is at
    /// most 10⁻⁹ of itself above an integer counts as that integer, because as an `f64` 0.1 is a little more than a
    /// tenth.
    pub fn kept(&self, rounds_done: u64, len: usize) -> usize {
        let product = self.density(rounds_done) * len as f64;
        let below = product.floor();
        let kept = below as usize + usize::from(product - below > 1e-9 * product);
        kept.clamp(1, len)
    }
}
