//! What vectors add up to, by nothing but arithmetic: no encoder and no decoder has a part in it.

use blindsum_encode::{Encoding, Integers, Values};
use blindsum_protocol::JobSpec;

/// The sum of vectors times their weights, `[dim]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Weighted {
    /// Of real vectors, clipped.
    Reals(Vec<f64>),
    Integers(Vec<u128>),
}

impl Weighted {
    /// The sum of no vectors of this job.
    pub fn nothing(spec: &JobSpec) -> Self {
        let dim = spec.dim as usize;
        match spec.encoding.integer_bits() {
            Some(_) => Self::Integers(vec![0; dim]),
            None => Self::Reals(vec![0.0; dim]),
        }
    }

    /// Adds a vector times its weight, clipped as the encoding says; to `cut` what clipping takes off it.
    pub fn add(
        &mut self,
        encoding: &Encoding,
        values: Values<'_>,
        weight: u32,
        cut: Option<&mut Vec<f64>>,
    ) {
        match (values, self) {
            (Values::F32(values), Self::Reals(sums)) => {
                add_clipped(encoding, values, weight, sums, cut)
            }
            (Values::F64(values), Self::Reals(sums)) => {
                add_clipped(encoding, values, weight, sums, cut)
            }
            (Values::Integers(Integers::U32(values)), Self::Integers(sums)) => {
                add(values, weight, sums)
            }
            (Values::Integers(Integers::U64(values)), Self::Integers(sums)) => {
                add(values, weight, sums)
            }
            _ => unreachable!("the encoder refused the other kind of numbers"),
        }
    }

    /// Adds other vectors of the same job.
    pub fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Reals(sums), Self::Reals(others)) => {
                sums.iter_mut().zip(others).for_each(|(sum, x)| *sum += x)
            }
            (Self::Integers(sums), Self::Integers(others)) => {
                sums.iter_mut().zip(others).for_each(|(sum, n)| *sum += n)
            }
            _ => unreachable!("the vectors of a job are of one kind"),
        }
    }
}

/// Adds integers times their weight.
fn add<N: Copy + Into<u128>>(values: &[N], weight: u32, sums: &mut [u128]) {
    let weight = u128::from(weight);
    sums.iter_mut()
        .zip(values)
        .for_each(|(sum, value)| *sum += (*value).into() * weight);
}

fn add_clipped<R: Copy + Into<f64>>(
    encoding: &Encoding,
    values: &[R],
    weight: u32,
    sums: &mut [f64],
    cut: Option<&mut Vec<f64>>,
) {
    let weight = f64::from(weight);
    each_clipped(encoding, values, |d, _, clipped| {
        sums[d] += clipped * weight
    });
    if let Some(cut) = cut {
        each_clipped(encoding, values, |d, value, clipped| {
            cut[d] += (value - clipped) * weight;
        });
    }
}

/// Calls `visit` with the place of every coordinate, its value, and the value clipped as the encoding says.
pub(crate) fn each_clipped<R: Copy + Into<f64>>(
    encoding: &Encoding,
    values: &[R],
    mut visit: impl FnMut(usize, f64, f64),
) {
    let factor = encoding.norm_bound().map_or(1.0, |bound| {
        let squares = values.iter().map(|value| (*value).into().powi(2));
        (bound / squares.sum::<f64>().sqrt()).min(1.0)
    });
    for (tensor, clip) in encoding.tensors() {
        for (d, value) in tensor.clone().zip(&values[tensor]) {
            let value = (*value).into();
            visit(d, value, (value * factor).clamp(-clip, clip));
        }
    }
}
