//! What one party of a broadcast can read that lies.

use blindsum_he::paillier::{Ciphertexts, PublicKey};
use blindsum_math::words::Words;

use super::comparing::{LIAR, told_of, vector_of, with_liar};
use super::*;

/// Times what ciphertexts hold; the factor is big-endian.
fn times(key: &PublicKey, of: &Ciphertexts, factor: &[u8]) -> Ciphertexts {
    let bits = factor
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let mut power: Option<Ciphertexts> = None;
    for bit in bits {
        power = power.map(|power| key.sum(&[&power, &power]).unwrap());
        if bit == 1 {
            let more = power.map(|power| key.sum(&[&power, of]).unwrap());
            power = Some(more.unwrap_or_else(|| of.clone()));
        }
    }
    power.unwrap()
}

/// What ciphertexts hold, taken from 0.
fn negative(key: &PublicKey, of: &Ciphertexts) -> Ciphertexts {
    let mut less = key.to_bytes()[..256].to_vec();
    *less.last_mut().unwrap() -= 1; // N is odd.
    times(key, of, &less)
}

/// A broadcast of four, twice, with the same vectors. The liar keeps ciphertexts of the first round, and in the second one
/// sends what takes those of parties 1 and 2 away, and nothing of its own. Gives the sum, if there is one.
fn attacked(options: PaillierBroadcast) -> (Rig, Option<Words>) {
    let spec = JobSpec {
        protocol: options.into(),
        ..job(ProtocolName::PaillierBroadcast, 4, 5)
    };
    let mut rig = Rig::new(spec, 3);
    let first = rig.cohort.round.number();
    // The ciphertexts of parties 1 and 2, as they were heard.
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for number in [first, first + 1] {
        if number > first {
            rig = rig.again(number);
        }
        let circle = with_liar(&mut rig);
        let (cipher, round) = (&circle.cipher, rig.cohort.round.clone());
        let (key, lanes) = (cipher.key(), round.job().lanes());
        let mut own = cipher.encrypt(LIAR, &vec![0; lanes], &mut rig.rng).unwrap();
        for bytes in &kept {
            let Ok(old) = cipher.layout.read(key, lanes, bytes) else {
                return (rig, None); // Numbers of another key, too large for this one.
            };
            let less = negative(key, &old.words);
            own.words = key.sum(&[&own.words, &less]).unwrap();
        }
        let written = cipher.layout.write(&own);
        let sent = comparing::sealed(&circle, &written, &mut rig.rng);
        rig.up.insert(LIAR, frame(round.context(), 2, &sent));
        rig.serve().unwrap();
        let heard = body(&rig.down[&LIAR]).to_vec();
        let vectors = parties([0, 1, 2]).map(|from| vector_of(&circle, &heard, from));
        let vectors: Vec<Vec<u8>> = vectors.collect();
        let read = |bytes: &Vec<u8>| cipher.layout.read(key, lanes, bytes).unwrap();
        let sums: Vec<Sum> = vectors.iter().map(read).chain([own]).collect();
        let sum = cipher.layout.add(key, &sums).unwrap();
        let hash = broadcast::hash(&cipher.layout.write(&sum));
        kept = vectors[1..].to_vec();
        rig.answer_all_but(LIAR);
        told_of(&mut rig, &circle, LIAR, hash, broadcast::NO_PAIR);
        rig.serve().unwrap();
        if number > first {
            let sum = rig.serve().is_ok().then(|| rig.outcome.take().unwrap().sum);
            return (rig, sum.flatten());
        }
        rig.serve().unwrap();
    }
    unreachable!("the second round gives something")
}

/// Abuse case 35, which shows the limit that the documentation states: one party that lies reads the vector of party 0, with
/// the ciphertexts of an earlier round under the same key. A key for each round leaves it nothing to do so with.
#[test]
fn case_35_a_party_of_a_broadcast_reads_a_vector_by_ciphertexts_of_an_earlier_round() {
    let (rig, read) = attacked(PaillierBroadcast::default());
    assert_eq!(read.as_ref(), Some(&rig.cohort.inputs[0]));
    let (rig, read) = attacked(PaillierBroadcast {
        key_rounds: 1,
        ..PaillierBroadcast::default()
    });
    assert_ne!(read.as_ref(), Some(&rig.cohort.inputs[0]));
}
