//! Real numbers on their way into words with noise.

use blindsum_crypto::Zeroizing;
use blindsum_crypto::mask::{MaskKey, MaskSeed, MaskStream, Sign, apply_masks};
use blindsum_math::simd;
use blindsum_math::words::TileMut;
use blindsum_privacy::noise::NoiseSeed;
use blindsum_privacy::{Sampler, Sizes};

use crate::lanes::{self, Lane};
use crate::levels::Rounding;
use crate::values::Real;
use crate::verdict::Verdict;
use crate::whole::{Rounded, WholeScale, WithNoise};
use crate::{EncodeError, EncodeReport, Encoding, MetricLevels, Values};

/// The seeds of one vector. Two vectors must not share any.
pub struct Seeds {
    rounding: MaskSeed,
    noise: Option<NoiseSeed>,
}

impl Seeds {
    /// Of a vector with noise.
    pub fn with_noise(rounding: MaskSeed, noise: NoiseSeed) -> Self {
        Self {
            rounding,
            noise: Some(noise),
        }
    }

    /// The seed of rounding, for an encoding without noise.
    ///
    /// # Errors
    /// [`EncodeError::NoNoise`] if there is one of noise.
    pub(crate) fn rounding(self) -> Result<MaskSeed, EncodeError> {
        match self.noise {
            None => Ok(self.rounding),
            Some(_) => Err(EncodeError::NoNoise),
        }
    }
}

impl From<MaskSeed> for Seeds {
    /// Of a vector without noise.
    fn from(rounding: MaskSeed) -> Self {
        Self {
            rounding,
            noise: None,
        }
    }
}

/// Numbers at a time: four blocks of noise, as many words as a tile has.
const PIECE: usize = 4096;

/// New roundings before the vector itself is scaled down.
const ROUNDINGS: u32 = 8;

/// How much shorter vectors are than their bound before rounding: more than arithmetic can lengthen them.
const SHORTER: f64 = 1.0 - 1.0 / (1_u64 << 40) as f64;

/// One vector with noise.
pub(crate) struct NoisedWords<'a> {
    encoding: &'a Encoding,
    values: Values<'a>,
    report: EncodeReport,
    scale: WholeScale,
    /// The random bits of the rounding that was accepted.
    rounding: MaskStream,
    sampler: Sampler,
    noise: MaskKey,
    /// 2^(b−1): what stands for 0.
    middle: i64,
    tail: Zeroizing<Vec<u64>>,
}

impl<'a> NoisedWords<'a> {
    pub(crate) fn new(
        encoding: &'a Encoding,
        values: Values<'a>,
        verdict: Verdict,
        (rounding, sizes): (Rounding, Sizes),
        seeds: Seeds,
    ) -> Result<Self, EncodeError> {
        // guard: no-vector-goes-without-its-noise
        let noise = seeds.noise.ok_or(EncodeError::NoiseSeed)?;
        let factor = verdict.factor() * SHORTER;
        let within = Within {
            scale: factor * (sizes.largest() as f64 / encoding.widest_clip()),
            largest: sizes.largest(),
            rounding,
            bound: sizes.squared_norm(),
        };
        let (scale, rounding) = within.rounded(values, &MaskKey::new(seeds.rounding));
        Ok(Self {
            encoding,
            values,
            report: verdict.report(),
            scale,
            rounding,
            sampler: Sampler::new(sizes.spec().mechanism, sizes.variance())?,
            noise: noise.key(),
            middle: 1 << (sizes.width() - 1),
            tail: encoding.tail(1, &[], &MetricLevels::default()),
        })
    }

    pub(crate) fn report(&self) -> EncodeReport {
        self.report
    }

    pub(crate) fn lanes(&self) -> usize {
        self.encoding.lanes()
    }

    pub(crate) fn with_metrics(self, metrics: &MetricLevels) -> Self {
        Self {
            tail: self.encoding.tail(1, &[], metrics),
            ..self
        }
    }

    pub(crate) fn encode_tile(
        &self,
        first_lane: usize,
        tile: TileMut<'_>,
    ) -> Result<(), EncodeError> {
        lanes::check_tile(self.encoding, first_lane, &tile)?;
        match (self.values, tile) {
            (Values::Integers(_), _) => return Err(EncodeError::Integers),
            (Values::F32(values), TileMut::W32(lanes)) => self.encode(values, first_lane, lanes),
            (Values::F64(values), TileMut::W32(lanes)) => self.encode(values, first_lane, lanes),
            (Values::F32(values), TileMut::W64(lanes)) => self.encode(values, first_lane, lanes),
            (Values::F64(values), TileMut::W64(lanes)) => self.encode(values, first_lane, lanes),
        }
        Ok(())
    }

    fn encode<R: Real, L: Lane>(&self, values: &[R], first: usize, lanes: &mut [L]) {
        let (mut lanes, coordinates) = lanes::split_tail(self.encoding, &self.tail, first, lanes);
        let mut buffers = Buffers::new();
        let mut noise = Zeroizing::new([0; PIECE]);
        let mut start = coordinates.start;
        while start < coordinates.end {
            // Pieces end with a block of noise.
            let end = coordinates.end.min((start / PIECE + 1) * PIECE);
            let (piece, rest) = lanes.split_at_mut(end - start);
            let values = &values[start..end];
            buffers.round(values, start, self.scale, &self.rounding);
            let noise = &mut noise[..values.len()];
            // guard: noise-is-of-the-place
            self.sampler.draw(&self.noise, start as u64, noise);
            simd::run(WithNoise {
                numbers: &buffers.numbers[..values.len()],
                noise,
                middle: self.middle,
                lanes: piece,
            });
            (start, lanes) = (end, rest);
        }
    }
}

/// A bound that a vector of whole numbers must meet.
struct Within {
    /// The factor of a coordinate.
    scale: f64,
    /// M.
    largest: u64,
    rounding: Rounding,
    /// T.
    bound: u64,
}

impl Within {
    /// Rounds until the sum of squares is at most T, in whole numbers, and gives the last rounding. Random bits of rounding k,
    /// from 0 on, are in the stream with the nonce k, 12 bytes big-endian. From the 9th new rounding on the vector is scaled by
    /// 1 − 2^-6 each time.
    fn rounded(&self, values: Values<'_>, key: &MaskKey) -> (WholeScale, MaskStream) {
        let (mut scale, mut number) = (self.scale, 0_u32);
        loop {
            let mut nonce = [0; 12];
            nonce[8..].copy_from_slice(&number.to_be_bytes());
            let stream = key.stream(nonce, Sign::Add);
            let whole = WholeScale::new(scale, self.largest, self.rounding);
            // guard: squares-of-whole-numbers-are-bounded
            if squares(values, whole, &stream) <= u128::from(self.bound) {
                return (whole, stream);
            }
            number += 1;
            if number > ROUNDINGS {
                scale *= 1.0 - 1.0 / 64.0;
            }
        }
    }
}

/// The sum of squares of a vector, rounded.
fn squares(values: Values<'_>, scale: WholeScale, stream: &MaskStream) -> u128 {
    match values {
        Values::F32(values) => squares_of(values, scale, stream),
        Values::F64(values) => squares_of(values, scale, stream),
        Values::Integers(_) => 0,
    }
}

fn squares_of<R: Real>(values: &[R], scale: WholeScale, stream: &MaskStream) -> u128 {
    let mut buffers = Buffers::new();
    let pieces = values.chunks(PIECE).zip((0..).step_by(PIECE));
    pieces
        .map(|(values, start)| buffers.round(values, start, scale, stream))
        .sum()
}

/// Memory for a piece: random bits and whole numbers.
struct Buffers {
    random: Zeroizing<[u32; PIECE]>,
    numbers: Zeroizing<[i64; PIECE]>,
}

impl Buffers {
    fn new() -> Self {
        Self {
            random: Zeroizing::new([0; PIECE]),
            numbers: Zeroizing::new([0; PIECE]),
        }
    }

    /// Rounds the coordinates from `start` on, at most [`PIECE`]; gives the sum of their squares.
    fn round<R: Real>(
        &mut self,
        values: &[R],
        start: usize,
        scale: WholeScale,
        stream: &MaskStream,
    ) -> u128 {
        let random = &mut self.random[..values.len()];
        random.fill(0);
        apply_masks(
            std::slice::from_ref(stream),
            start as u64,
            TileMut::W32(random),
        );
        simd::run(Rounded {
            values,
            random,
            scale,
            numbers: &mut self.numbers[..values.len()],
        })
    }
}

#[cfg(test)]
mod tests {
    use blindsum_crypto::secret::Secret;

    use super::*;

    /// Bounds below the length of a vector, which no bound of a job is: rounded again, and then scaled down.
    #[test]
    fn case_39_vectors_are_rounded_until_they_meet_their_bound() {
        let values: Vec<f64> = (0..3000).map(|i| f64::from(i % 7) - 3.0).collect();
        let squares_of_all: f64 = values.iter().map(|x| x * x).sum();
        for rounding in [Rounding::Stochastic, Rounding::Nearest] {
            for part in [2.0, 1.0, 0.999, 0.5, 0.01, 0.0] {
                let bound = (squares_of_all * part) as u64;
                let within = Within {
                    scale: 1.0 - 1e-3,
                    largest: 10,
                    rounding,
                    bound,
                };
                let key = MaskKey::new(MaskSeed::from(Secret::from([3; 32])));
                let values = Values::F64(&values);
                let (scale, stream) = within.rounded(values, &key);
                assert!(
                    squares(values, scale, &stream) <= u128::from(bound),
                    "{rounding:?} {part}"
                );
            }
        }
    }
}
