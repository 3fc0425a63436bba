//! Sums, masks and survivors that must not pass.

use blindsum_math::MathError;

use super::*;

/// Abuse case 34, sparse: a ciphertext that is missing or doubled, and every bit of the sum.
#[test]
fn case_34_another_sparse_sum_is_noticed() {
    for scheme in [Scheme::Double, Scheme::Single] {
        let masks = [0, 1, 2].map(|label| some_of(60, label, 2)).to_vec();
        let parties = Parties::with_masks(shape(scheme, 20, 60), &[0, 1, 3], masks);
        assert!(parties.decrypt(0, &parties.sum_of_all()).is_ok());
        let doubled = parties.sum(&[0, 1, 2, 2]);
        assert_eq!(parties.decrypt(0, &doubled).err(), Some(FlasheError::Check));
        let sum = parties.sum_of_all();
        for bit in 0..8 * sum.len() {
            let mut flipped = sum.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let refused = parties.decrypt(0, &flipped).err();
            assert!(
                matches!(refused, Some(FlasheError::Check | FlasheError::Math(_))),
                "bit {bit}"
            );
        }
        // One is missing that has no coordinate alone, so that the length is right.
        let masks = vec![some_of(60, 0, 1), some_of(60, 1, 2), some_of(60, 2, 2)];
        let parties = Parties::with_masks(shape(scheme, 20, 60), &[0, 1, 3], masks);
        let missing = parties.sum(&[0, 1]);
        assert_eq!(parties.decrypt(0, &missing).err(), Some(FlasheError::Check));
    }
}

/// Abuse case 34, sparse: masks or survivors that are not those of the ciphertexts.
#[test]
fn case_34_other_masks_are_noticed() {
    for scheme in [Scheme::Double, Scheme::Single] {
        let shape = shape(scheme, 20, 60);
        let parties = Parties::new(shape, &[0, 1, 3], 2);
        let sum = parties.sum_of_all();
        let other = Survivors::new(20, &[0, 1, 2]).unwrap();
        let refused = decrypt(shape, &other, &parties.masks, 0, &sum).err();
        assert_eq!(refused, Some(FlasheError::Check));
        let mut swapped = parties.masks.clone();
        swapped.swap(0, 1);
        let refused = decrypt(shape, &parties.survivors, &swapped, 0, &sum).err();
        assert_eq!(refused, Some(FlasheError::Check));
        // One party more has a coordinate that another one has too.
        for d in parties.masks[0]
            .coordinates()
            .filter(|&d| !parties.masks[1].contains(d))
        {
            let mut claimed: Vec<u32> = parties.masks[1].coordinates().chain([d]).collect();
            claimed.sort_unstable();
            let mut masks = parties.masks.clone();
            masks[1] = SparseMask::new(60, &claimed).unwrap();
            let refused = decrypt(shape, &parties.survivors, &masks, 0, &sum).err();
            assert_eq!(refused, Some(FlasheError::Check), "coordinate {d}");
        }
    }
}

/// Abuse case 34, sparse: a coordinate at which all words are zero, left out of masks and sum. No word
/// changes, only who has contributed to what.
#[test]
fn case_34_a_coordinate_of_zeros_cannot_be_left_out() {
    let shape = shape(Scheme::Single, 20, 10);
    let (key, zeros) = (job_key(3), Words::zeros(shape.width(), 10));
    let round_key = key.round(6, &CONTEXT);
    let all = SparseMask::new(10, &[2, 5]).unwrap();
    let fewer = SparseMask::new(10, &[2]).unwrap();
    let survivors = Survivors::new(20, &[0]).unwrap();
    let sent = round_key.encrypt_sparse(ticket(&key, 6, 0), shape, &all, reader(&zeros));
    let sent = sent.unwrap().into_bytes();
    let accepted = decrypt(shape, &survivors, std::slice::from_ref(&all), 0, &sent).unwrap();
    assert_eq!(entries(&accepted, 1), [(2, 0, 1), (5, 0, 1)]);
    let (packed, check) = sent.split_last_chunk::<16>().unwrap();
    let mut first = packed[..3].to_vec();
    first[2] &= 0x0f;
    let changed = [&first[..], check].concat();
    let refused = decrypt(shape, &survivors, &[fewer], 0, &changed).err();
    assert_eq!(refused, Some(FlasheError::Check));
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let shape = shape(Scheme::Double, 20, 60);
    let parties = Parties::new(shape, &[0, 1], 2);
    let (own, other) = (&parties.masks[0], some_of(61, 0, 2));
    let lanes = FlasheError::MaskLanes {
        got: 61,
        expected: 60,
    };
    let key = job_key(3);
    let round_key = key.round(6, &CONTEXT);
    let vector = words(shape, 0);
    let refused = round_key.encrypt_sparse(ticket(&key, 6, 0), shape, &other, reader(&vector));
    assert_eq!(refused.err(), Some(lanes));
    let refused = round_key.encrypt_sparse(ticket(&key, 5, 0), shape, own, reader(&vector));
    assert_eq!(
        refused.err(),
        Some(FlasheError::Ticket {
            ticket: 5,
            round: 6
        })
    );
    let says = |_: &[u32], _: TileMut<'_>| Err(FlasheError::NoSurvivors);
    let refused = round_key.encrypt_sparse(ticket(&key, 6, 0), shape, own, says);
    assert_eq!(refused.err(), Some(FlasheError::NoSurvivors));

    let mut sum = EncryptedSparseSum::new(shape.width(), 60).unwrap();
    sum.add(own, &parties.ciphertexts[0]).unwrap();
    let before = sum.to_bytes();
    assert_eq!(before, parties.ciphertexts[0]);
    let (got, expected) = (before.len() - 1, before.len());
    let length = FlasheError::CiphertextLength { got, expected };
    let mut check = before.clone();
    check[expected - 1] = 0xff;
    let modulus = (1 << 61) - 31;
    let canonical = FlasheError::from(MathError::NonCanonical { modulus });
    for (mask, ciphertext, error) in [
        (&other, &before[..], lanes),
        (own, &before[..got], length),
        (own, &check, canonical),
    ] {
        assert_eq!(sum.add(mask, ciphertext), Err(error));
        assert_eq!(sum.to_bytes(), before);
    }
    let one = Survivors::new(20, &[0]).unwrap();
    let masks = std::slice::from_ref(own);
    assert_eq!(
        decrypt(shape, &one, masks, 0, &before[..got]).err(),
        Some(length)
    );
    assert_eq!(
        decrypt(shape, &one, masks, 0, &check).err(),
        Some(canonical)
    );
    let wider = super::shape(Scheme::Double, 20, 61);
    let refused = decrypt(wider, &one, masks, 0, &before).err();
    assert_eq!(
        refused,
        Some(FlasheError::MaskLanes {
            got: 60,
            expected: 61
        })
    );
    let refused = Participation::new(&one, &parties.masks).err();
    assert_eq!(
        refused,
        Some(FlasheError::Masks {
            got: 2,
            expected: 1
        })
    );
    let two = Survivors::new(20, &[0, 1]).unwrap();
    let mixed = [own.clone(), other];
    assert_eq!(Participation::new(&two, &mixed).err(), Some(lanes));
}
