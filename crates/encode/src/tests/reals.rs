//! Vectors in the precision of a job.

use super::{quantised, spec};
use crate::{ClipSpec, EncodeError, EncodingKind, Precision, Reals, Rounding};

#[test]
fn the_precision_holds_the_bits_of_a_value() {
    let of = |kind| spec(3, kind, 2, 1).validate().unwrap().precision();
    let bits = |bits| quantised(bits, ClipSpec::Tensor(1.0), Rounding::Nearest);
    assert_eq!(of(bits(24)), Precision::Single);
    assert_eq!(of(bits(25)), Precision::Double);
    assert_eq!(of(EncodingKind::Fixed64 { clip: 1.0 }), Precision::Double);
    assert_eq!(of(EncodingKind::Integers { bits: 8 }), Precision::Double);
}

#[test]
fn doubles_beyond_singles_become_infinite() {
    let double = Reals::from(vec![1.0_f64, 1e300]);
    let narrowed = double.in_precision(Precision::Single);
    assert_eq!(
        narrowed.check_finite(),
        Err(EncodeError::NotFinite { index: 1 })
    );
}

#[test]
fn bytes_and_back() {
    for values in [Reals::from(vec![1.5_f32, -0.0]), vec![0.1_f64, -3.0].into()] {
        let (precision, bytes) = (values.precision(), values.to_bytes());
        assert_eq!(bytes.len(), 2 * precision.bytes());
        assert_eq!(Reals::from_bytes(precision, &bytes), Some(values));
        assert_eq!(Reals::from_bytes(precision, &bytes[1..]), None);
    }
}
