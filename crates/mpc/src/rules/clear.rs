//! Rules in the clear, and how far the servers' result may be from that.
//!
//! Sums, distances, ranks and medians of whole numbers are exact. Weights are fixed-point numbers with 28 bits behind the
//! point, in whose last places, *units*, the bounds are:
//!
//! * a truncation is less than a unit off. An inverse root is too small by a part of 2^-20, or 256 units, at most, and too
//!   large by 6 units of it.
//! * a clipping weight W = clip/‖x‖ is off by 256·W + 2, or by 9 where that is more. Vectors that are short enough have the
//!   weight 1 exactly.
//! * the trust T of FLTrust is off by 256·T + 2r + 9, where r = ‖x‖₁/‖x‖, as coordinates of the root are rounded to 2^-26;
//!   the weight of x/‖x‖ by 512·T + 2r + 16, and by 4 more where the servers divide.
//! * a cosine c is off by 512·c + 16.
//!
//! The last bits of a sum are hidden: by numbers of each component, from −½ to ½ of what is 1 in the result, and of 1/S where
//! there is a sum of weights S. Where S is below 2^-6 the result is 0, but for these bits if nobody knows S.
//!
//! If Y/S becomes (Y + y)/(S + s), it moves by (y − s·Y/S)/(S + s).

use super::krum::kept_of;
use super::{MIN_TOTAL, Rule, Trusted};
use crate::FRACTION;

/// 2^-28.
const UNIT: f64 = 1.0 / (1u64 << FRACTION) as f64;
/// By what part an inverse root may be too small.
const ROOT: f64 = 1.0 / (1u64 << 20) as f64;
/// By how much hidden bits move a number: half of 1 for each component, and a little for how 1 is rounded to a power of 2.
const HIDDEN: f64 = 1.5;
/// What the servers add to each weight of the cosine rule, so that none is negative.
const MARGIN: f64 = 1.0 / (1u64 << 24) as f64;
/// Cosines below this are rounding errors.
const MIN_TRUST: f64 = 1.0 / (1u64 << 40) as f64;

/// A result in the clear.
#[derive(Clone, Debug, PartialEq)]
pub struct Clear {
    /// The numbers, as many as in a vector.
    pub mean: Vec<f64>,
    /// By how much a number of the servers' result may differ.
    pub error: f64,
}

impl Rule<'_> {
    /// Computes the rule on known vectors: at least one, all of one length. The trusted vector is [`Trusted::Known`].
    pub fn in_the_clear(&self, vectors: &[Vec<i64>]) -> Clear {
        let known = Known::of(vectors);
        let mut clear = match self {
            Self::Mean => known.middle(0),
            Self::Clipped { clip } => known.clipped(*clip as f64),
            Self::FlTrust {
                trusted,
                hide_total,
            } => known.fltrust(trusted, *hide_total),
            Self::Krum { bad, keep } => {
                let keep = kept_of(vectors.len(), *bad, *keep);
                known.nearest(vectors, *bad, keep)
            }
            Self::Unlike => known.unlike(),
            Self::Median { .. } => known.middle(vectors.len().saturating_sub(1) / 2),
            Self::Trimmed { trim, .. } => known.middle(*trim),
        };
        let longest = known.norms.iter().fold(0.0, |most: f64, it| most.max(*it));
        clear.error += (known.length + vectors.len() + 8) as f64 * f64::EPSILON * longest;
        clear
    }
}

/// Vectors with their norms.
struct Known {
    length: usize,
    vectors: Vec<Vec<f64>>,
    norms: Vec<f64>,
}

impl Known {
    fn of(vectors: &[Vec<i64>]) -> Self {
        let doubles = |row: &Vec<i64>| row.iter().map(|it| *it as f64).collect::<Vec<f64>>();
        let vectors: Vec<Vec<f64>> = vectors.iter().map(doubles).collect();
        Self {
            length: vectors.first().map_or(0, Vec::len),
            norms: vectors.iter().map(|it| norm(it)).collect(),
            vectors,
        }
    }

    /// Σ weight · x, and the same of absolute values.
    fn weighted(&self, weights: &[f64], value: fn(f64) -> f64) -> Vec<f64> {
        let mut sum = vec![0.0; self.length];
        for (weight, row) in weights.iter().zip(&self.vectors) {
            for (sum, x) in sum.iter_mut().zip(row) {
                *sum += weight * value(*x);
            }
        }
        sum
    }

    fn clipped(&self, clip: f64) -> Clear {
        let n = self.norms.len() as f64;
        let is_long = |norm: f64| norm > clip;
        let weight = |norm: &f64| if is_long(*norm) { clip / norm } else { 1.0 };
        let weights: Vec<f64> = self.norms.iter().map(|it| weight(it) / n).collect();
        let error = |norm: &f64| match is_long(*norm) {
            true => (weight(norm) * ROOT + 2.0 * UNIT).max(9.0 * UNIT) / n,
            false => 0.0,
        };
        let errors: Vec<f64> = self.norms.iter().map(error).collect();
        Clear {
            mean: self.weighted(&weights, |x| x),
            error: largest(&self.weighted(&errors, f64::abs)) + HIDDEN / n,
        }
    }

    fn fltrust(&self, trusted: &Trusted<'_>, hide_total: bool) -> Clear {
        let root = match trusted {
            Trusted::Known(root) => *root,
            // Nobody knows it.
            Trusted::Uploaded { .. } => &[],
        };
        let length = norm(root);
        let each = self.vectors.iter().zip(&self.norms);
        let trust = each.map(|(x, norm)| {
            let cosine = dot(x, root) / (norm * length);
            // Not where the vector is 0.
            if cosine >= MIN_TRUST { cosine } else { 0.0 }
        });
        let trust: Vec<f64> = trust.collect();
        let total: f64 = trust.iter().sum();
        let over_norms = |values: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let each = self.norms.iter().enumerate();
            let over = |value: f64, norm: f64| if norm > 0.0 { value / norm } else { 0.0 };
            each.map(|(i, norm)| over(values(i) * length, *norm))
                .collect()
        };
        let mean = match total >= MIN_TOTAL {
            true => self.weighted(&over_norms(&|i| trust[i] / total), |x| x),
            false => vec![0.0; self.length],
        };
        let rounded = |i: usize| {
            let sum: f64 = self.vectors[i].iter().map(|x| x.abs()).sum();
            if sum > 0.0 {
                sum / self.norms[i] * 2.0 * UNIT
            } else {
                0.0
            }
        };
        let of_trust = |i: usize| trust[i] * ROOT + rounded(i) + 9.0 * UNIT;
        let of_weight = |i: usize| 2.0 * trust[i] * ROOT + rounded(i) + 16.0 * UNIT;
        let all: f64 = (0..trust.len()).map(of_trust).sum();
        let left = total - all;
        // No weight is much more than three times its trust, so no coordinate is beyond four norms of the root.
        let most = 5.0 * length + HIDDEN / MIN_TOTAL;
        // The servers may see it on the other side of what counts.
        if (total - MIN_TOTAL).abs() <= all {
            return Clear { mean, error: most };
        }
        if total < MIN_TOTAL {
            // Where all know the sum they take 0; where nobody does, hidden bits of 0 are shown.
            let error = if hide_total { HIDDEN } else { 0.0 };
            return Clear { mean, error };
        }
        if left <= 0.0 {
            return Clear { mean, error: most };
        }
        let mut moved = self.weighted(&over_norms(&of_weight), f64::abs);
        for (moved, mean) in moved.iter_mut().zip(&mean) {
            *moved += all * mean.abs();
        }
        let divided = match hide_total {
            true => largest(&self.weighted(&over_norms(&|_| 4.0 * UNIT), f64::abs)),
            false => 0.0,
        };
        let by = if hide_total { 1.0 } else { left };
        let error = (largest(&moved) / left + divided + HIDDEN / by).min(most);
        Clear { mean, error }
    }

    fn nearest(&self, vectors: &[Vec<i64>], bad: usize, keep: usize) -> Clear {
        let n = vectors.len();
        let score = |i: usize| {
            let others = (0..n).filter(|j| *j != i);
            let mut all: Vec<i128> = others.map(|j| distance(&vectors[i], &vectors[j])).collect();
            all.sort_unstable();
            all.iter().take(n.saturating_sub(bad + 2)).sum::<i128>()
        };
        let scores: Vec<i128> = (0..n).map(score).collect();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|i| scores[*i]);
        let mut weights = vec![0.0; n];
        for kept in order.into_iter().take(keep) {
            weights[kept] = 1.0 / keep as f64;
        }
        Clear {
            mean: self.weighted(&weights, |x| x),
            error: 0.0,
        }
    }

    fn unlike(&self) -> Clear {
        let n = self.vectors.len();
        let cosine = |i: usize, j: usize| {
            dot(&self.vectors[i], &self.vectors[j]) / (self.norms[i] * self.norms[j])
        };
        let weight = |i: usize| {
            let others = (0..n).filter(|j| *j != i);
            let most = others.map(|j| cosine(i, j)).fold(0.0, f64::max);
            1.0 + MARGIN - most.min(1.0)
        };
        let weights: Vec<f64> = (0..n).map(weight).collect();
        let total: f64 = weights.iter().sum();
        let counts = total >= MIN_TOTAL;
        let part = |weight: &f64| if counts { weight / total } else { 0.0 };
        let parts: Vec<f64> = weights.iter().map(part).collect();
        let mean = self.weighted(&parts, |x| x);
        let errors: Vec<f64> = weights
            .iter()
            .map(|weight| (1.0 - weight).max(0.0) * 2.0 * ROOT + 16.0 * UNIT)
            .collect();
        // The result lies among the vectors, whatever the weights are.
        let at = |d: usize| self.vectors.iter().map(move |row| row[d]);
        let (mut spread, mut moved) = (0.0f64, 0.0f64);
        for (d, mean) in mean.iter().enumerate() {
            let least = at(d).fold(f64::INFINITY, f64::min);
            spread = spread.max(at(d).fold(f64::NEG_INFINITY, f64::max) - least);
            let off = errors.iter().zip(at(d));
            moved = moved.max(off.map(|(error, x)| error * (x - mean).abs()).sum());
        }
        let of_total = errors.iter().sum::<f64>();
        let left = total - of_total;
        let longest = self.norms.iter().fold(0.0, |most: f64, it| most.max(*it));
        let error = match ((total - MIN_TOTAL).abs() <= of_total, counts) {
            (true, _) => longest + HIDDEN / MIN_TOTAL,
            (false, true) => spread.min(moved / left) + HIDDEN / left,
            (false, false) => 0.0,
        };
        Clear { mean, error }
    }

    fn middle(&self, trim: usize) -> Clear {
        let at = |d: usize| {
            let mut all: Vec<f64> = self.vectors.iter().map(|row| row[d]).collect();
            all.sort_by(f64::total_cmp);
            let kept = all.len().saturating_sub(2 * trim);
            all.iter().skip(trim).take(kept).sum::<f64>() / kept as f64
        };
        Clear {
            mean: (0..self.length).map(at).collect(),
            error: 0.0,
        }
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, it| most.max(*it))
}

fn distance(x: &[i64], y: &[i64]) -> i128 {
    let square = |(x, y): (&i64, &i64)| (i128::from(*x) - i128::from(*y)).pow(2);
    x.iter().zip(y).map(square).sum()
}
