//! What sums of sparse rounds are divided by.

use super::sparse::{layers, words};
use crate::{Divisor, EncodeError};

#[test]
fn a_mean_over_all_parties_counts_those_that_did_not_send() {
    let encoding = layers(16, 4, &[(2, 1.0)]);
    let one = words(&encoding, &[65535, 2 * 65535]);
    let decode = |divisor| {
        let mut mean = [0.0_f64; 2];
        let decoded = encoding.decode_sparse_mean(&one, &[1, 2], (1, divisor), &mut mean);
        decoded.map(|_| mean)
    };
    assert_eq!(decode(Divisor::Senders), Ok([1.0, 1.0]));
    assert_eq!(decode(Divisor::Parties(4)), Ok([0.25, 0.5]));
    // More senders than parties.
    let (survivors, parties) = (2, 1);
    let refused = EncodeError::Survivors { survivors, parties };
    assert_eq!(decode(Divisor::Parties(1)), Err(refused));
}
