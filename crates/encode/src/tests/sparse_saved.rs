//! What sparse rounds keep between processes: read again, or refused.

use super::sparse::{constant, layers};
use crate::{EncodeError, Sent, Sparsifier};

#[test]
fn damaged_residuals_are_refused() {
    let encoding = layers(8, 4, &[(3, 1.0)]);
    let party = Sparsifier::new(&encoding, constant(0.5)).unwrap();
    let bytes = party.to_bytes();
    let read = |bytes: &[u8]| Sparsifier::from_bytes(&encoding, constant(0.5), bytes).err();
    assert_eq!(read(&bytes), None);
    let mut changed = [(0, 1), (8, 4), (16, 0x7f)].map(|(at, byte)| {
        let mut bytes = bytes.to_vec();
        bytes[at] = byte;
        bytes
    });
    changed[2][15] = 0xf0;
    for bytes in changed {
        assert!(matches!(read(&bytes), Some(EncodeError::State { .. })));
    }
    assert!(matches!(read(&bytes[1..]), Some(EncodeError::State { .. })));
}

#[test]
fn what_was_sent_is_read_again_and_nothing_else() {
    let encoding = layers(8, 4, &[(3, 1.0)]);
    let party = Sparsifier::new(&encoding, constant(0.5)).unwrap();
    let sent = party.select(&encoding, 0, &[0.5, -0.25, 0.75][..]).unwrap();
    let bytes = sent.into_sent().to_bytes();
    // The version, the dimension, what is left, how many were sent, which, and their values.
    assert_eq!(bytes.len(), 1 + 8 + 3 * 8 + 8 + 2 * 4 + 2 * 8);
    let read = |bytes: &[u8]| Sent::from_bytes(&encoding, bytes).err();
    assert_eq!(read(&bytes), None);
    let changed = |changes: &[(usize, u8)]| {
        let mut bytes = bytes.to_vec();
        changes.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        bytes
    };
    let refused = [
        (changed(&[(0, 1)]), "another version"),
        (changed(&[(8, 4)]), "4 coordinates must be 3"),
        (changed(&[(15, 0xf0), (16, 0x7f)]), "must be finite"),
        (changed(&[(40, 4)]), "4 of 3 coordinates"),
        (changed(&[(33, 0xff)]), "of 3 coordinates"),
        (changed(&[(41, 2)]), "must ascend"),
        (changed(&[(45, 3)]), "below 3"),
        (changed(&[(55, 0xf0), (56, 0x7f)]), "must be finite"),
        (bytes[..bytes.len() - 1].to_vec(), "ends too soon"),
        ([&bytes[..], &[0]].concat(), "1 bytes too many"),
    ];
    for (bytes, rule) in refused {
        let error = read(&bytes).unwrap();
        let state = matches!(
            &error,
            EncodeError::State {
                of: "sent coordinates",
                ..
            }
        );
        assert!(
            state && error.to_string().contains(rule),
            "{error}, not {rule}"
        );
    }
}
