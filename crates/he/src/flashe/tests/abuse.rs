//! The abuse cases: reuse, roll-back, damage, and the stated limit of trust.

use blindsum_math::MathError;
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

use super::*;

fn nothing(_: &[u8; KeyState::SAVED]) -> Result<(), FlasheError> {
    Ok(())
}

/// Abuse case 33: one key, round and rank encrypt at most once.
#[test]
fn case_33_no_round_is_given_out_twice() {
    let key = job_key(1);
    let mut state = KeyState::new(&key);
    assert_eq!(state.mark(), HighWaterMark::ZERO);
    let first = state.reserve(4, 2, nothing).unwrap();
    assert_eq!((first.round(), first.rank()), (4, 2));
    assert_eq!(state.mark().next_round(), 5);
    for (round, rank) in [(4, 2), (4, 3), (0, 2)] {
        let refused = state.reserve(round, rank, |_| -> Result<(), FlasheError> {
            panic!("nothing to persist")
        });
        let reuse = FlasheError::CounterReuse { round, next: 5 };
        assert_eq!(refused.err(), Some(reuse));
    }
    assert_eq!(state.reserve(5, 2, nothing).unwrap().round(), 5);
}

/// Abuse case 33: the round is written down before the ticket is there, so after a crash at any moment
/// it is not given out again.
#[test]
fn case_33_a_round_is_used_before_its_ticket_exists() {
    let key = job_key(1);
    let mut disk = [0; KeyState::SAVED];
    let mut state = KeyState::new(&key);
    let crash = state.reserve(7, 0, |saved| {
        disk = *saved;
        Err(FlasheError::State)
    });
    assert_eq!(crash.err(), Some(FlasheError::State));
    let reuse = Some(FlasheError::CounterReuse { round: 7, next: 8 });
    assert_eq!(state.reserve(7, 0, nothing).err(), reuse);
    let mut restored = KeyState::restore(&key, &disk, HighWaterMark::ZERO).unwrap();
    assert_eq!(restored.save(), disk);
    assert_eq!(restored.reserve(7, 0, nothing).err(), reuse);
    assert_eq!(restored.reserve(8, 0, nothing).unwrap().round(), 8);
}

/// Abuse case 33: a state from a backup, older than what the party knows it has used.
#[test]
fn case_33_a_rolled_back_state_is_refused() {
    let key = job_key(1);
    let mut state = KeyState::new(&key);
    state.reserve(0, 0, nothing).unwrap();
    let backup = state.save();
    state.reserve(1, 0, nothing).unwrap();
    let mark = state.mark();
    assert_eq!(mark, HighWaterMark::after(1).unwrap());
    let refused = KeyState::restore(&key, &backup, mark).err();
    assert_eq!(
        refused,
        Some(FlasheError::CounterReuse { round: 1, next: 2 })
    );
    let restored = KeyState::restore(&key, &state.save(), mark).unwrap();
    assert_eq!(restored.mark(), mark);
}

#[test]
fn saved_state_cannot_be_edited_or_carried_to_another_key() {
    let key = job_key(1);
    let mut state = KeyState::new(&key);
    state.reserve(300, 0, nothing).unwrap();
    let saved = state.save();
    let restore =
        |key: &JobKey, saved: &[u8]| KeyState::restore(key, saved, HighWaterMark::ZERO).err();
    assert_eq!(restore(&key, &saved), None);
    for bit in 0..8 * saved.len() {
        let mut edited = saved;
        edited[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            restore(&key, &edited),
            Some(FlasheError::State),
            "bit {bit}"
        );
    }
    for length in 0..saved.len() {
        assert_eq!(restore(&key, &saved[..length]), Some(FlasheError::State));
    }
    assert_eq!(
        restore(&key, &[&saved[..], &[0]].concat()),
        Some(FlasheError::State)
    );
    assert_eq!(restore(&job_key(2), &saved), Some(FlasheError::State));
}

#[test]
fn the_last_numbers_are_refused() {
    let mut state = KeyState::new(&job_key(1));
    let round = u64::MAX;
    let refused = state.reserve(round, 0, nothing).err();
    assert_eq!(refused, Some(FlasheError::Round { round }));
    assert_eq!(
        HighWaterMark::after(round),
        Err(FlasheError::Round { round })
    );
    let rank = u32::MAX;
    let refused = state.reserve(0, rank, nothing).err();
    let parties = u32::MAX;
    assert_eq!(refused, Some(FlasheError::Rank { rank, parties }));
    assert_eq!(state.mark(), HighWaterMark::ZERO);
    assert_eq!(
        state.reserve(round - 1, rank - 1, nothing).unwrap().rank(),
        rank - 1
    );
}

#[test]
fn tickets_open_their_own_key_and_round_only() {
    let shape = shape(Scheme::Double, 20, 5);
    let words = words(shape, 1);
    for (key, round) in [(2, 4), (1, 5)] {
        let ticket = ticket(&job_key(1), 4, 0);
        let refused = job_key(key)
            .round(round, &CONTEXT)
            .encrypt(ticket, shape, reader(&words));
        assert_eq!(
            refused.err(),
            Some(FlasheError::Ticket { ticket: 4, round })
        );
    }
}

/// What `survivors` of four parties say to a sum.
fn decrypt(shape: Shape, survivors: &[u32], encrypted_sum: &[u8]) -> Result<Words, FlasheError> {
    let survivors = Survivors::new(4, survivors)?;
    let round_key = job_key(3).round(6, &CONTEXT);
    round_key.decrypt(shape, &survivors, encrypted_sum)
}

/// The ciphertexts of four parties.
fn of_all(shape: Shape) -> [Ciphertext; 4] {
    [0, 1, 2, 3].map(|j| encrypt(&job_key(3), 6, j, shape, &words(shape, j.into())))
}

fn shapes() -> impl Iterator<Item = Shape> {
    [8, 20, 32, 33, 64]
        .into_iter()
        .flat_map(|bits| [Scheme::Double, Scheme::Single].map(|scheme| shape(scheme, bits, 23)))
}

/// Abuse case 34: a ciphertext that is missing or was added twice.
#[test]
fn case_34_a_missing_or_doubled_ciphertext_is_noticed() {
    for shape in shapes() {
        let all = of_all(shape);
        let add = |ranks: &[usize]| {
            let mut sum = EncryptedSum::new(shape);
            ranks
                .iter()
                .for_each(|&j| sum.add(all[j].as_bytes()).unwrap());
            sum.to_bytes()
        };
        assert!(decrypt(shape, &[0, 1, 3], &add(&[0, 1, 3])).is_ok());
        for wrong in [
            &[0, 1][..],
            &[1, 3],
            &[],
            &[0, 1, 3, 3],
            &[0, 0, 1, 3],
            &[0, 1, 2, 3],
        ] {
            let refused = decrypt(shape, &[0, 1, 3], &add(wrong));
            assert_eq!(refused, Err(FlasheError::Check), "{wrong:?}");
        }
    }
}

/// Abuse case 34: a set of survivors whose ciphertexts were not added.
#[test]
fn case_34_another_set_is_noticed() {
    for shape in shapes() {
        let sum = added(shape, &of_all(shape)[..3]);
        for set in 1..16_u32 {
            let set: Vec<u32> = (0..4).filter(|rank| set >> rank & 1 == 1).collect();
            let right = set == [0, 1, 2];
            let refused = decrypt(shape, &set, &sum).err();
            assert_eq!(refused, (!right).then_some(FlasheError::Check), "{set:?}");
        }
    }
    // Even of vectors without a word.
    let shape = shape(Scheme::Double, 20, 0);
    let sum = added(shape, &of_all(shape)[..3]);
    assert!(decrypt(shape, &[0, 1, 2], &sum).is_ok());
    assert_eq!(decrypt(shape, &[0, 1], &sum), Err(FlasheError::Check));
}

/// Abuse case 34: every bit of a sum.
#[test]
fn case_34_a_flipped_bit_is_noticed() {
    for shape in shapes() {
        let sum = added(shape, &of_all(shape));
        for bit in 0..8 * sum.len() {
            let mut flipped = sum.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match decrypt(shape, &[0, 1, 2, 3], &flipped) {
                Err(FlasheError::Check) => {}
                // Behind the last word, or the top of a number of the check.
                Err(FlasheError::Math(_)) => assert!(bit >= 23 * shape.width().bits() as usize),
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }
}

/// Abuse case 34: words that the server added, among them those that are zero modulo one of the primes.
#[test]
fn case_34_added_words_are_noticed() {
    for shape in shapes() {
        let sum = added(shape, &of_all(shape));
        let (packed, check) = sum.split_at(shape.packed_len());
        let numbers = [1, 31, 1 << 31, (1 << 61) - 1, (1 << 61) - 31, u64::MAX];
        for number in numbers.map(|number| (number & shape.width().mask()).max(1)) {
            for lane in [0, 22] {
                let mut words = Words::unpack(shape.width(), 23, packed).unwrap();
                let mut extra = vec![0; 23];
                extra[lane] = number;
                words
                    .add(&Words::from_values(shape.width(), &extra).unwrap())
                    .unwrap();
                let changed = [&words.pack(), check].concat();
                let refused = decrypt(shape, &[0, 1, 2, 3], &changed);
                assert_eq!(refused, Err(FlasheError::Check), "{number} in lane {lane}");
            }
        }
    }
}

/// Abuse case 34: the sum of other parties, another round, or under another key.
#[test]
fn case_34_a_sum_of_another_round_is_noticed() {
    let shape = shape(Scheme::Double, 20, 23);
    let sum = added(shape, &of_all(shape));
    let survivors = Survivors::new(4, &[0, 1, 2, 3]).unwrap();
    let others = [
        job_key(3).round(7, &CONTEXT),
        job_key(3).round(6, &Context([2; 32])),
        job_key(4).round(6, &CONTEXT),
    ];
    for other in others {
        let refused = other.decrypt(shape, &survivors, &sum);
        assert_eq!(refused, Err(FlasheError::Check));
    }
    let single = super::shape(Scheme::Single, 20, 23);
    assert_eq!(
        decrypt(single, &[0, 1, 2, 3], &sum),
        Err(FlasheError::Check)
    );
}

/// The checks of words that wrap do not add up.
#[test]
fn a_sum_that_wraps_is_refused() {
    let shape = shape(Scheme::Single, 20, 2);
    let sum_of = |word| {
        let words = Words::from_values(shape.width(), &[0, word]).unwrap();
        added(
            shape,
            &[0, 1].map(|j| encrypt(&job_key(3), 6, j, shape, &words)),
        )
    };
    assert!(decrypt(shape, &[0, 1], &sum_of((1 << 19) - 1)).is_ok());
    assert_eq!(
        decrypt(shape, &[0, 1], &sum_of(1 << 19)),
        Err(FlasheError::Check)
    );
}

#[test]
fn malformed_ciphertexts_are_refused_and_change_nothing() {
    let shape = shape(Scheme::Double, 20, 5);
    let ciphertext = encrypt(&job_key(3), 6, 1, shape, &words(shape, 1)).into_bytes();
    let mut padding = ciphertext.clone();
    padding[12] = 0x10;
    let mut cases = vec![(
        padding,
        FlasheError::from(MathError::Padding { last: 0x10 }),
    )];
    for (at, modulus) in [(13, (1 << 61) - 1), (21, (1 << 61) - 31)] {
        let mut large = ciphertext.clone();
        large[at..at + 8].copy_from_slice(&u64::to_le_bytes(modulus));
        cases.push((
            large,
            FlasheError::from(MathError::NonCanonical { modulus }),
        ));
    }
    let expected = 13 + CHECK_LEN;
    for got in [0, 13, 16, expected - 1, expected + 1] {
        cases.push((
            vec![0; got],
            FlasheError::CiphertextLength { got, expected },
        ));
    }
    for (malformed, error) in cases {
        assert_eq!(decrypt(shape, &[1], &malformed), Err(error));
        assert_eq!(sum(shape, &[&ciphertext, &malformed]), Err(error));
        let mut sum = EncryptedSum::new(shape);
        sum.add(&ciphertext).unwrap();
        assert_eq!(sum.add(&malformed), Err(error));
        assert_eq!(sum.to_bytes(), ciphertext);
        assert_eq!(sum.shape(), shape);
    }
}

/// Abuse case 35, a stated limit: the server and one party read everybody's vector. Nothing but the key
/// that every party holds is needed.
#[test]
fn case_35_the_key_of_one_party_opens_the_vector_of_every_other() {
    for scheme in [Scheme::Double, Scheme::Single] {
        let shape = shape(scheme, 24, 100);
        let victim = words(shape, 5);
        let uploaded = encrypt(&job_key(8), 2, 5, shape, &victim).into_bytes();
        // What the server has: `uploaded`. What any party has: the key.
        let alone = Survivors::new(10, &[5]).unwrap();
        let stolen = job_key(8)
            .round(2, &CONTEXT)
            .decrypt(shape, &alone, &uploaded)
            .unwrap();
        assert_eq!(stolen, victim);
    }
}

/// The other side of case 35: without the key a ciphertext is uniform. Not a proof, but a scheme that
/// forgets a mask fails.
#[test]
fn ciphertexts_of_equal_vectors_share_nothing() {
    let key = job_key(8);
    for scheme in [Scheme::Double, Scheme::Single] {
        let shape = shape(scheme, 32, 4096);
        let zeros = Words::zeros(shape.width(), 4096);
        let all = [(0, 0), (0, 1), (1, 0), (1, 1)]
            .map(|(round, rank)| encrypt(&key, round, rank, shape, &zeros).into_bytes());
        for (i, one) in all.iter().enumerate() {
            let ones: u32 = one.iter().map(|byte| byte.count_ones()).sum();
            assert!(
                ones.abs_diff(16 * 4096) < 2000,
                "{ones} of 131072 bits are set"
            );
            for other in &all[..i] {
                let same = one.iter().zip(other).filter(|(a, b)| a == b).count();
                assert!(same < 200, "{same} of 16384 bytes are the same");
            }
        }
    }
}

#[test]
fn parties_confirm_the_key_to_each_other() {
    let key = job_key(1);
    let confirmation = key.confirmation(&CONTEXT);
    assert_eq!(job_key(1).confirm(&CONTEXT, &confirmation), Ok(()));
    let differs = Err(FlasheError::Confirmation);
    assert_eq!(job_key(2).confirm(&CONTEXT, &confirmation), differs);
    assert_eq!(key.confirm(&Context([2; 32]), &confirmation), differs);
    for bit in 0..256 {
        let mut other = confirmation;
        other[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(key.confirm(&CONTEXT, &other), differs, "bit {bit}");
    }
    assert_eq!(key.id(), job_key(1).id());
    assert_ne!(key.id(), job_key(2).id());
}

#[test]
fn keys_are_drawn_from_the_given_generator_only() {
    let generate = |seed| *JobKey::generate(&mut ChaCha20Rng::seed_from_u64(seed)).expose();
    assert_eq!(generate(1), generate(1));
    assert_ne!(generate(1), generate(2));
}
