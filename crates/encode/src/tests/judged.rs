//! Updates are judged once, and again only where they are encoded by another encoding.

use std::sync::Arc;

use super::{quantised, seed, spec};
use crate::verdict::JUDGED;
use crate::{ClipSpec, EncodeError, Encoder, Encoding, EncodingKind, Judged, Rounding, Update};

fn of_reals() -> Arc<Encoding> {
    let kind = quantised(8, ClipSpec::Tensor(1.0), Rounding::Stochastic);
    Arc::new(spec(3, kind, 4, 5).validate().unwrap())
}

fn of_integers() -> Arc<Encoding> {
    let kind = EncodingKind::Integers { bits: 4 };
    Arc::new(spec(3, kind, 4, 5).validate().unwrap())
}

/// What a call gives, and how often a vector was judged in it.
fn counted<T>(call: impl FnOnce() -> T) -> (T, u32) {
    let before = JUDGED.get();
    let given = call();
    (given, JUDGED.get() - before)
}

#[test]
fn an_update_is_judged_once() {
    let updates = [
        (of_reals(), Update::from(vec![0.5_f32, -2.0, 0.0])),
        (of_reals(), Update::from(vec![0.5_f64, -2.0, 0.0])),
        (of_integers(), Update::from(vec![1_u32, 2, 15])),
        (of_integers(), Update::from(vec![1_u64, 2, 15])),
    ];
    for (encoding, update) in updates {
        let (judged, times) = counted(|| Judged::new(&encoding, update, 5).unwrap());
        assert_eq!(times, 1);
        // The encoding of a round is another value, and says the same.
        let of_round = Encoding::clone(&encoding);
        let (encoder, times) = counted(|| judged.encoder(&of_round, seed(1)));
        assert!(encoder.is_ok());
        assert_eq!(times, 0);
    }
}

#[test]
fn an_update_is_judged_again_under_other_bounds() {
    let (encoding, values) = (of_reals(), vec![0.5_f32, -2.0, 0.25]);
    let judged = Judged::new(&encoding, values.clone().into(), 1).unwrap();
    let narrow = encoding.with_clips(&[0.375]).unwrap();
    let (encoder, times) = counted(|| judged.encoder(&narrow, seed(1)).unwrap());
    assert_eq!((times, encoder.report().clipped), (1, 2));
    let expected = Encoder::new(&narrow, &values[..], 1, seed(1)).unwrap();
    assert_eq!(encoder.report(), expected.report());
}

#[test]
fn what_another_encoding_refuses_is_refused() {
    let judged = Judged::new(&of_reals(), vec![0.5_f32; 3].into(), 5).unwrap();
    let kind = quantised(8, ClipSpec::Tensor(1.0), Rounding::Stochastic);
    let refused = |dim, most| {
        let other = spec(dim, kind, 4, most).validate().unwrap();
        judged.encoder(&other, seed(1)).err()
    };
    assert_eq!(refused(2, 5), Some(EncodeError::Dim { got: 3, dim: 2 }));
    let (weight, max_weight) = (5, 4);
    assert_eq!(
        refused(3, 4),
        Some(EncodeError::Weight { weight, max_weight })
    );
    assert_eq!(
        judged.encoder(&of_integers(), seed(1)).err(),
        Some(EncodeError::Reals)
    );
}

#[test]
fn no_bad_value_is_judged_good() {
    let reals = |values: Vec<f32>, weight| Judged::new(&of_reals(), values.into(), weight).err();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = reals(vec![0.0, bad, 0.0], 1);
        assert_eq!(error, Some(EncodeError::NotFinite { index: 1 }));
    }
    assert_eq!(
        reals(vec![0.0; 4], 1),
        Some(EncodeError::Dim { got: 4, dim: 3 })
    );
    let max_weight = 5;
    for weight in [0, 6] {
        assert_eq!(
            reals(vec![0.0; 3], weight),
            Some(EncodeError::Weight { weight, max_weight })
        );
    }
    let large = Judged::new(&of_integers(), vec![0_u64, 16, 0].into(), 1).err();
    assert_eq!(large, Some(EncodeError::Value { index: 1, bits: 4 }));
    let other_kind = Judged::new(&of_integers(), vec![0.0_f32; 3].into(), 1).err();
    assert_eq!(other_kind, Some(EncodeError::Reals));
    let other_kind = Judged::new(&of_reals(), vec![0_u32; 3].into(), 1).err();
    assert_eq!(other_kind, Some(EncodeError::Integers));
}
