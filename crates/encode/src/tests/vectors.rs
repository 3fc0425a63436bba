//! Agreement with the slow model: `vectors/model/encoding.py`. Real numbers stand in the file as the bits of
//! doubles in hexadecimal.

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use serde::Deserialize;

use crate::{
    ClipSpec, EncodeReport, Encoder, Encoding, EncodingKind, EncodingSpec, Rounding, TensorSpec,
    Values,
};

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
    integers: Vec<IntegerCase>,
}

/// Numbers that a double cannot hold stand in the file as text.
#[derive(Deserialize)]
struct IntegerCase {
    spec: IntegerSpec,
    width: u32,
    parties: Vec<IntegerParty>,
    sum: Vec<String>,
    total_weight: u64,
    sums: Vec<String>,
    mean: Vec<String>,
}

#[derive(Deserialize)]
struct IntegerSpec {
    dim: usize,
    bits: u32,
    max_weight: u32,
    parties: usize,
}

#[derive(Deserialize)]
struct IntegerParty {
    values: Vec<String>,
    weight: u32,
    words: Vec<String>,
}

#[derive(Deserialize)]
struct Case {
    spec: Spec,
    width: u32,
    precision: String,
    parties: Vec<Party>,
    sum: Vec<u64>,
    total_weight: u64,
    mean: Vec<String>,
    most: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Spec {
    dim: usize,
    kind: String,
    bits: u32,
    clip: String,
    clipping: String,
    max_norm: String,
    rounding: String,
    max_weight: u32,
    parties: usize,
    tensors: Vec<Tensor>,
}

#[derive(Deserialize)]
struct Tensor {
    len: usize,
    clip: String,
}

#[derive(Deserialize)]
struct Party {
    values: Vec<String>,
    weight: u32,
    seed: String,
    words: Vec<u64>,
    clipped: u64,
    scaled_norm: Option<String>,
}

pub(super) fn double(text: &str) -> f64 {
    assert_eq!(text.len(), 16);
    f64::from_bits(u64::from_str_radix(text, 16).unwrap())
}

pub(super) fn seed(text: &str) -> MaskSeed {
    assert_eq!(text.len(), 64);
    let mut bytes = [0; 32];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
    }
    MaskSeed::from(Secret::from(bytes))
}

impl Spec {
    pub(super) fn validate(&self) -> Encoding {
        let (clip, max_norm) = (double(&self.clip), double(&self.max_norm));
        let kind = match self.kind.as_str() {
            "fixed64" => EncodingKind::Fixed64 { clip },
            "quantised" => EncodingKind::Quantised {
                bits: self.bits,
                clip: match self.clipping.as_str() {
                    "tensor" if max_norm > 0.0 => ClipSpec::Sent { clip, max_norm },
                    "tensor" => ClipSpec::Tensor(clip),
                    "l2" => ClipSpec::L2(clip),
                    other => panic!("clipping {other}"),
                },
                rounding: match self.rounding.as_str() {
                    "nearest" => Rounding::Nearest,
                    "stochastic" => Rounding::Stochastic,
                    other => panic!("rounding {other}"),
                },
            },
            other => panic!("kind {other}"),
        };
        let tensor = |tensor: &Tensor| TensorSpec {
            len: tensor.len,
            clip: double(&tensor.clip),
        };
        let spec = EncodingSpec {
            dim: self.dim,
            kind,
            max_weight: self.max_weight,
            parties: self.parties,
            tensors: self.tensors.iter().map(tensor).collect(),
            tells_reach: false,
            metrics: Vec::new(),
            noise: None,
        };
        spec.validate().unwrap()
    }
}

/// The words of a party and its report.
fn encode(encoding: &Encoding, values: Values<'_>, party: &Party) -> (Words, EncodeReport) {
    let encoder = Encoder::new(encoding, values, party.weight, seed(&party.seed)).unwrap();
    let mut words = Words::zeros(encoding.width(), encoding.lanes());
    encoder
        .encode_tile(0, words.tile_mut(0..encoding.lanes()))
        .unwrap();
    (words, encoder.report())
}

fn numbers<T: std::str::FromStr<Err: std::fmt::Debug>>(texts: &[String]) -> Vec<T> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn load() -> Vectors {
    let text = include_str!("../../../../vectors/encoding.json");
    let vectors: Vectors =
        serde_json::from_str(text).expect("the file is what vectors/make.py writes");
    assert!(!vectors.cases.is_empty() && !vectors.integers.is_empty());
    vectors
}

#[test]
fn integers_and_their_sums_are_those_of_the_model() {
    for case in load().integers {
        let IntegerSpec {
            dim,
            bits,
            max_weight,
            parties,
        } = case.spec;
        let kind = EncodingKind::Integers { bits };
        let encoding = super::spec(dim, kind, parties, max_weight)
            .validate()
            .unwrap();
        assert_eq!(encoding.width().bits(), case.width);
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        for party in &case.parties {
            let values: Vec<u64> = numbers(&party.values);
            let words = super::encode(&encoding, &values[..], party.weight, 0).unwrap();
            let expected: Vec<u64> = numbers(&party.words);
            assert_eq!(words.iter().collect::<Vec<_>>(), expected);
            sum.add(&words).unwrap();
        }
        let expected: Vec<u64> = numbers(&case.sum);
        assert_eq!(sum.iter().collect::<Vec<_>>(), expected);
        let mut sums = vec![0; dim];
        let decoded = encoding.decode_sums(&sum, case.parties.len(), &mut sums);
        assert_eq!(decoded, Ok(case.total_weight));
        assert_eq!(sums, numbers::<u128>(&case.sums));
        let mut mean = vec![0.0_f64; dim];
        let decoded = encoding.decode_mean(&sum, case.parties.len(), &mut mean);
        assert_eq!(decoded, Ok(case.total_weight));
        let bits = |mean: &f64| mean.to_bits();
        let expected: Vec<u64> = case.mean.iter().map(|mean| bits(&double(mean))).collect();
        assert_eq!(mean.iter().map(bits).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn words_and_means_are_those_of_the_model() {
    for case in load().cases {
        let encoding = case.spec.validate();
        assert_eq!(encoding.width().bits(), case.width);
        let most = encoding.squared_norm().map(|bound| bound.most);
        assert_eq!(most, case.most);
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        for party in &case.parties {
            let values: Vec<f64> = party.values.iter().map(|text| double(text)).collect();
            let (words, report) = match case.precision.as_str() {
                "f64" => encode(&encoding, values[..].into(), party),
                "f32" => {
                    let single: Vec<f32> = values.iter().map(|&value| value as f32).collect();
                    encode(&encoding, single[..].into(), party)
                }
                other => panic!("precision {other}"),
            };
            assert_eq!(words.iter().collect::<Vec<_>>(), party.words);
            let scaled_norm = party.scaled_norm.as_deref().map(double);
            assert_eq!(
                (report.clipped, report.scaled_norm),
                (party.clipped, scaled_norm)
            );
            assert_eq!(report.scaled_by.is_some(), scaled_norm.is_some());
            sum.add(&words).unwrap();
        }
        assert_eq!(sum.iter().collect::<Vec<_>>(), case.sum);
        let mut mean = vec![0.0_f64; encoding.dim()];
        let decoded = encoding.decode_mean(&sum, case.parties.len(), &mut mean);
        assert_eq!(decoded, Ok(case.total_weight));
        let expected: Vec<u64> = case
            .mean
            .iter()
            .map(|text| double(text).to_bits())
            .collect();
        assert_eq!(
            mean.iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
            expected
        );
    }
}
