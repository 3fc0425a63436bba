//! The encoder: any specification and any numbers. What it accepts decodes to the clipped input, or to the very
//! integers.
#![no_main]

use arbitrary::Arbitrary;
use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{ClipSpec, Encoder, EncodingKind, EncodingSpec, Rounding, TensorSpec};
use blindsum_math::words::Words;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Case {
    values: Vec<f32>,
    bits: u8,
    clip: f64,
    by_norm: bool,
    nearest: bool,
    fixed: bool,
    weight: u32,
    max_weight: u32,
    tells_reach: bool,
    parties: u32,
    tensors: Vec<(u8, f64)>,
    dim: Option<u64>,
    integers: Option<Vec<u64>>,
}

fuzz_target!(|case: Case| {
    if let Some(values) = &case.integers {
        return encode_integers(&case, values);
    }
    let clip = if case.by_norm {
        ClipSpec::L2(case.clip)
    } else {
        ClipSpec::Tensor(case.clip)
    };
    let rounding = if case.nearest {
        Rounding::Nearest
    } else {
        Rounding::Stochastic
    };
    let kind = match case.fixed {
        true => EncodingKind::Fixed64 { clip: case.clip },
        false => EncodingKind::Quantised {
            bits: case.bits.into(),
            clip,
            rounding,
        },
    };
    let tensors = case
        .tensors
        .iter()
        .map(|&(len, clip)| TensorSpec {
            len: len.into(),
            clip,
        })
        .collect();
    let spec = EncodingSpec {
        dim: case.dim.map_or(case.values.len(), |dim| dim as usize),
        kind,
        max_weight: case.max_weight,
        parties: case.parties as usize,
        tensors,
        tells_reach: case.tells_reach,
        metrics: Vec::new(),
        noise: None,
    };
    let Ok(encoding) = spec.validate() else {
        return;
    };
    let seed = MaskSeed::from(Secret::from([5; 32]));
    let Ok(encoder) = Encoder::new(&encoding, &case.values[..], case.weight, seed) else {
        return;
    };
    let mut words = Words::zeros(encoding.width(), encoding.lanes());
    encoder
        .encode_tile(0, words.tile_mut(0..encoding.lanes()))
        .expect("the whole vector");
    let mut mean = vec![0f64; encoding.dim()];
    encoding
        .decode_mean(&words, 1, &mut mean)
        .expect("the sum of one vector");
    if !case.by_norm && case.tensors.is_empty() {
        for (&value, mean) in case.values.iter().zip(mean) {
            let clipped = f64::from(value).clamp(-case.clip, case.clip);
            assert!(
                (mean - clipped).abs() <= encoding.max_error(),
                "{value} became {mean}"
            );
        }
    }
});

fn encode_integers(case: &Case, values: &[u64]) {
    let spec = EncodingSpec {
        dim: case.dim.map_or(values.len(), |dim| dim as usize),
        kind: EncodingKind::Integers {
            bits: case.bits.into(),
        },
        max_weight: case.max_weight,
        parties: case.parties as usize,
        tensors: Vec::new(),
        tells_reach: false,
        metrics: Vec::new(),
        noise: None,
    };
    let Ok(encoding) = spec.validate() else {
        return;
    };
    let seed = MaskSeed::from(Secret::from([5; 32]));
    let Ok(encoder) = Encoder::new(&encoding, values, case.weight, seed) else {
        return;
    };
    let mut words = Words::zeros(encoding.width(), encoding.lanes());
    encoder
        .encode_tile(0, words.tile_mut(0..encoding.lanes()))
        .expect("the whole vector");
    let mut sums = vec![0; encoding.dim()];
    encoding
        .decode_sums(&words, 1, &mut sums)
        .expect("the sum of one vector");
    for (&value, sum) in values.iter().zip(sums) {
        assert_eq!(sum, u128::from(value) * u128::from(case.weight));
    }
}
