//! The abuse cases: reuse, roll-back, damage, and the stated limit of trust.

use blindsum_math::MathError;
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

use super::*;

fn nothing(_: &[u8; KeyState::SAVED]) -> Result<(), HeError> {
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
        let refused = state.reserve(round, rank, |_| -> Result<(), HeError> {
            panic!("nothing to persist")
        });
        let reuse = HeError::CounterReuse { round, next: 5 };
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
        Err(HeError::State)
    });
    assert_eq!(crash.err(), Some(HeError::State));
    let reuse = Some(HeError::CounterReuse { round: 7, next: 8 });
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
    assert_eq!(refused, Some(HeError::CounterReuse { round: 1, next: 2 }));
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
        assert_eq!(restore(&key, &edited), Some(HeError::State), "bit {bit}");
    }
    for length in 0..saved.len() {
        assert_eq!(restore(&key, &saved[..length]), Some(HeError::State));
    }
    assert_eq!(
        restore(&key, &[&saved[..], &[0]].concat()),
        Some(HeError::State)
    );
    assert_eq!(restore(&job_key(2), &saved), Some(HeError::State));
}

#[test]
fn the_last_numbers_are_refused() {
    let mut state = KeyState::new(&job_key(1));
    let round = u64::MAX;
    let refused = state.reserve(round, 0, nothing).err();
    assert_eq!(refused, Some(HeError::Round { round }));
    assert_eq!(HighWaterMark::after(round), Err(HeError::Round { round }));
    let rank = u32::MAX;
    let refused = state.reserve(0, rank, nothing).err();
    let parties = u32::MAX;
    assert_eq!(refused, Some(HeError::Rank { rank, parties }));
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
        assert_eq!(refused.err(), Some(HeError::Ticket { ticket: 4, round }));
    }
    let ciphertext = encrypt(&job_key(1), 4, 0, shape, &words);
    let refused = job_key(1).round(5, &CONTEXT).tag(&ciphertext);
    assert_eq!(
        refused,
        Err(HeError::Ticket {
            ticket: 4,
            round: 5
        })
    );
}

/// Abuse case 34: a ciphertext that is not what its party encrypted.
#[test]
fn case_34_a_changed_ciphertext_has_no_tag() {
    let key = job_key(3);
    let shape = shape(Scheme::Double, 20, 23);
    let ciphertext = encrypt(&key, 6, 1, shape, &words(shape, 1));
    let round_key = key.round(6, &CONTEXT);
    let tag = round_key.tag(&ciphertext).unwrap();
    let packed = ciphertext.packed();
    assert_eq!((ciphertext.rank(), ciphertext.shape()), (1, shape));
    assert_eq!(round_key.verify(1, shape, packed, &tag), Ok(()));
    let wrong = |rank| Err(HeError::Tag { rank });
    for bit in 0..8 * packed.len() {
        let mut flipped = packed.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            round_key.verify(1, shape, &flipped, &tag),
            wrong(1),
            "bit {bit}"
        );
    }
    let single = super::shape(Scheme::Single, 20, 23);
    let wider = super::shape(Scheme::Double, 21, 23);
    let longer = super::shape(Scheme::Double, 20, 24);
    for other in [single, wider, longer] {
        assert_eq!(round_key.verify(1, other, packed, &tag), wrong(1));
    }
    assert_eq!(round_key.verify(2, shape, packed, &tag), wrong(2));
    let others = [
        key.round(7, &CONTEXT),
        key.round(6, &Context([2; 32])),
        job_key(4).round(6, &CONTEXT),
    ];
    for other in others {
        assert_eq!(other.verify(1, shape, packed, &tag), wrong(1));
    }
}

/// Abuse case 34: sums over another set decrypt to noise, of which nothing here can tell: that is why
/// parties must be told the set in a way that they can check.
#[test]
fn case_34_another_set_decrypts_to_noise() {
    let key = job_key(3);
    let shape = shape(Scheme::Double, 32, 1000);
    let ciphertexts =
        [0, 1, 2].map(|j| encrypt(&key, 0, j, shape, &Words::zeros(shape.width(), 1000)));
    let added = sum(shape, &ciphertexts.each_ref().map(|c| c.packed())).unwrap();
    let decrypt = |ranks: &[u32]| {
        let survivors = Survivors::new(4, ranks).unwrap();
        key.round(0, &CONTEXT)
            .decrypt(shape, &survivors, &added)
            .unwrap()
    };
    assert!(decrypt(&[0, 1, 2]).iter().all(|word| word == 0));
    for wrong in [&[0, 1][..], &[1, 2], &[0, 2], &[0, 1, 2, 3]] {
        let zeros = decrypt(wrong).iter().filter(|&word| word == 0).count();
        assert!(
            zeros < 5,
            "{zeros} of 1000 words of 32 bits are zero by chance"
        );
    }
}

#[test]
fn packed_vectors_of_another_shape_are_refused() {
    let key = job_key(3);
    let shape = shape(Scheme::Double, 20, 5);
    let survivors = Survivors::new(2, &[0]).unwrap();
    let round_key = key.round(0, &CONTEXT);
    let untouched = |_: usize, _: Tile<'_>| -> Result<(), HeError> { panic!("nothing to write") };
    let (lanes, bits, expected) = (5, 20, 13);
    for got in [0, 12, 14] {
        let packed = vec![0; got];
        let refused = HeError::from(MathError::PackedLength {
            got,
            expected,
            lanes,
            bits,
        });
        assert_eq!(round_key.decrypt(shape, &survivors, &packed), Err(refused));
        let tiles = round_key.decrypt_tiles(shape, &survivors, &packed, untouched);
        assert_eq!(tiles, Err(refused));
        assert_eq!(sum(shape, &[&[0; 13], &packed]), Err(refused));
    }
    let mut packed = vec![0; expected];
    packed[12] = 0x10;
    let refused = HeError::from(MathError::Padding { last: 0x10 });
    assert_eq!(round_key.decrypt(shape, &survivors, &packed), Err(refused));
    assert_eq!(sum(shape, &[&packed]), Err(refused));
}

/// Abuse case 35, a stated limit: the server and one party read everybody's vector. Nothing but the key
/// that every party holds is needed.
#[test]
fn case_35_the_key_of_one_party_opens_the_vector_of_every_other() {
    for scheme in [Scheme::Double, Scheme::Single] {
        let shape = shape(scheme, 24, 100);
        let victim = words(shape, 5);
        let uploaded = encrypt(&job_key(8), 2, 5, shape, &victim).into_packed();
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
            .map(|(round, rank)| encrypt(&key, round, rank, shape, &zeros).into_packed());
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
    let differs = Err(HeError::Confirmation);
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
