//! Vectors with noise: agreement with the slow model (`vectors/model/privacy_words.py`).

use blindsum_crypto::secret::Secret;
use blindsum_privacy::noise::NoiseSeed;
use blindsum_privacy::{Adjacency, Mechanism, Multiplier};
use serde::Deserialize;

use super::noise::{summed, words};
use super::{quantised, spec};
use crate::{ClipSpec, EncodingSpec, NoiseShare, Rounding, Seeds};

#[derive(Deserialize)]
struct Round {
    parties: usize,
    dim: usize,
    honest: usize,
    bits: u32,
    units: u32,
    rounding: String,
    mechanism: String,
    adjacency: String,
    width: u32,
    limit: u64,
    clip: String,
    vectors: Vec<Vector>,
    sum: Vec<u64>,
    mean: Vec<String>,
}

#[derive(Deserialize)]
struct Vector {
    values: Vec<String>,
    rounding_seed: String,
    noise_seed: String,
    words: Vec<u64>,
}

fn double(text: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(text, 16).unwrap())
}

fn secret(text: &str) -> Secret<32> {
    let byte = |place: usize| u8::from_str_radix(&text[2 * place..2 * place + 2], 16).unwrap();
    Secret::from(std::array::from_fn(byte))
}

#[test]
fn case_39_words_and_means_are_those_of_the_model() {
    let file = include_str!("../../../../vectors/privacy.json");
    let mut file: serde_json::Value = serde_json::from_str(file).unwrap();
    let rounds: Vec<Round> = serde_json::from_value(file["rounds"].take()).unwrap();
    assert!(rounds.len() > 5);
    for round in rounds {
        let rounding = match &round.rounding[..] {
            "stochastic" => Rounding::Stochastic,
            _ => Rounding::Nearest,
        };
        let kind = quantised(round.bits, ClipSpec::L2(double(&round.clip)), rounding);
        let noise = NoiseShare {
            honest: round.honest,
            mechanism: match &round.mechanism[..] {
                "skellam" => Mechanism::Skellam,
                _ => Mechanism::DiscreteGaussian,
            },
            adjacency: match &round.adjacency[..] {
                "replace" => Adjacency::Replace,
                _ => Adjacency::ZeroOut,
            },
            multiplier: Multiplier::of_units(round.units).unwrap(),
            wraps: true,
        };
        let encoding = EncodingSpec {
            noise: Some(noise),
            ..spec(round.dim, kind, round.parties, 1)
        };
        let encoding = encoding.validate().unwrap();
        assert_eq!(encoding.width().bits(), round.width);
        assert_eq!(encoding.noise().unwrap().limit(), round.limit);
        let mut sum = vec![0; round.dim];
        for vector in &round.vectors {
            let values: Vec<f64> = vector.values.iter().map(|text| double(text)).collect();
            let noise = NoiseSeed::from(secret(&vector.noise_seed));
            let seeds = Seeds::with_noise(secret(&vector.rounding_seed).into(), noise);
            let words = words(&encoding, &values, seeds);
            let got: Vec<u64> = (0..round.dim).map(|lane| words.get(lane)).collect();
            assert_eq!(got, vector.words);
            for (sum, word) in sum.iter_mut().zip(got) {
                *sum = (*sum + word) & encoding.width().mask();
            }
        }
        assert_eq!(sum, round.sum);
        let mut mean = vec![0.0; round.dim];
        let sum = summed(&encoding, &sum);
        encoding
            .decode_mean(&sum, round.vectors.len(), &mut mean)
            .unwrap();
        let expected: Vec<f64> = round.mean.iter().map(|text| double(text)).collect();
        assert_eq!(mean, expected);
    }
}
