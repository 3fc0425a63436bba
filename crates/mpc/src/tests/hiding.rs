//! An error in a product that a server hides in the verification, from each of the others in another way.

use std::sync::{Arc, Mutex};

use crate::line::{Line, Progress, Script, TRAILER};
use crate::testing::{
    Carried, Cheat, carry, keys_with, opened, shared_in, shared_signed, verifying,
};
use crate::{Mpc, MpcError, Ring, ServerIndex, Shares};

use super::{join, masked, masked_words, zeros};

/// Bits 0 or 1 that nobody knows, in which server 0 makes one wrong: it adds 1 to the first product, whose right factor it
/// knows to be 1 in its own next component and 0 in the others.
async fn bits(mpc: &Mpc<u128>) -> Result<Shares<u128>, MpcError> {
    for _ in 0..zeros_first() {
        mpc.random_bits(1, 1);
    }
    Ok(mpc.double_bits(1, 1).await?.numbers)
}

/// How many bits are 0 in component 1 before the first 1 comes.
fn zeros_first() -> usize {
    let zero = verifying(ServerIndex::ALL[0], Line::default());
    let bits = std::iter::repeat_with(|| zero.random_bits(1, 1).next[0]);
    bits.take_while(|bit| *bit == 0).count()
}

/// Verification at server 0, which shows server 1 another e, in which the error is hidden from it.
async fn verify_lying(mpc: &Mpc<u128>) -> Result<(), MpcError> {
    let pending = mpc.ledger.take().unwrap();
    let blinds = mpc.blinds(&pending).await?;
    mpc.same_seen("").await?;
    let challenge = mpc.challenge().await?;
    // What the error of the first product is multiplied with.
    let r: u128 = challenge.numbers(0, 1).next().unwrap();
    let mut shown = masked(&pending, &blinds, &challenge);
    let first = u128::read(&shown.said[..16])[0].plus(r);
    shown.said[..16].copy_from_slice(&first.to_le_bytes());
    let words = masked_words(&pending, &blinds, &challenge);
    join(mpc.show(shown, u128::plus), mpc.show(words, |a, b| a ^ b)).await?;
    // It would say of the products what each of the others expects; they have found it out by now.
    mpc.same_seen("").await
}

/// Runs both; what the honest servers find, and the number that has come out.
fn outcome(last_check: bool) -> Result<u128, MpcError> {
    let start = |me: ServerIndex, line: Line| {
        let mut mpc = verifying(me, line);
        let cheats = me.number() == 0;
        mpc.cheat = cheats.then(|| Cheat::at(0, 1));
        async move {
            let bits = bits(&mpc).await?;
            if cheats {
                verify_lying(&mpc).await?;
                return Ok(bits);
            }
            let verified = mpc.verify().await;
            match verified {
                Err(MpcError::Differs { what, .. }) if !last_check && what == "opened values" => {
                    Ok(bits)
                }
                other => other.map(|()| bits),
            }
        }
    };
    let outcome = carry(start, |_| {})?;
    Ok(opened(&outcome.results)[0])
}

/// Abuse case 38: only the last comparison of what was opened finds it; without it a number comes out that is no bit.
#[test]
fn case_38_another_e_shown_to_one_server() {
    let found = outcome(true).unwrap_err();
    let MpcError::Differs { what, me, from } = found else {
        panic!("{found}");
    };
    assert_eq!(what, "opened values");
    assert!(me.number() == 1 || from.number() == 1, "{found}");
    let wrong = outcome(false).unwrap();
    assert!(wrong > 1, "{wrong} is a bit");
}

/// Server 0 shows server 1 another e; what server 1 then says of the products must not show it anything of a factor.
/// `candidates` are the hashes that tell whether component 2 of the right factor is even or odd.
async fn watch(mpc: &Mpc<u128>, candidates: &Mutex<Vec<Vec<u8>>>) -> Result<(), MpcError> {
    let pending = mpc.ledger.take().unwrap();
    let blinds = mpc.blinds(&pending).await?;
    mpc.same_seen("").await?;
    let challenge = mpc.challenge().await?;
    let masked = masked(&pending, &blinds, &challenge);
    let masked_words = masked_words(&pending, &blinds, &challenge);
    let (e, words) = join(
        mpc.show(masked, u128::plus),
        mpc.show(masked_words, |a, b| a ^ b),
    )
    .await?;
    let zero = zeros(&pending, &blinds, &challenge, &e, &words);
    let [own, next] = [zero.numbers[0][0], zero.numbers[1][0]];
    for odd in 0..2u128 {
        let two = 0u128.minus(own).minus(next).minus(odd << 127);
        let digest = challenge.digest(&[two], zero.word[0] ^ zero.word[1]);
        candidates.lock().unwrap().push(digest);
    }
    mpc.same_seen("").await
}

#[test]
fn case_38_another_e_shows_nothing_of_a_factor() {
    let candidates = Arc::new(Mutex::new(Vec::new()));
    let mut said_to_zero = Vec::new();
    let start = |me: ServerIndex, line: Line| {
        let mut mpc = verifying(me, line);
        let cheats = me.number() == 0;
        mpc.cheat = cheats.then(Cheat::never);
        let candidates = candidates.clone();
        async move {
            let x = shared_signed(me, &[12]);
            mpc.multiply(&x, &shared_signed(me, &[30])).await?;
            match cheats {
                true => watch(&mpc, &candidates).await,
                false => mpc.verify().await,
            }
        }
    };
    let outcome = carry(start, |carried| {
        if (carried.from, carried.to) == (1, 0) {
            said_to_zero.push(carried.bytes.clone());
        }
        // A product, random factors, what was seen, the challenge; then e.
        if (carried.from, carried.to, carried.round) == (0, 1, 4) {
            carried.bytes[15] ^= 0x80;
        }
    });
    assert!(outcome.is_err());
    let candidates = candidates.lock().unwrap();
    assert_eq!(candidates.len(), 2);
    for said in &said_to_zero {
        let odd = candidates.iter().position(|it| said.starts_with(it));
        assert_eq!(odd, None, "component 2 of 30 modulo 2");
    }
}

/// Server 0 adds 1 to a product and tells server 2, which must believe it, what it expects of the products.
async fn verify_deceiving(mpc: &Mpc<u128>) -> Result<(), MpcError> {
    let pending = mpc.ledger.take().unwrap();
    let blinds = mpc.blinds(&pending).await?;
    mpc.same_seen("").await?;
    let challenge = mpc.challenge().await?;
    let (e, words) = join(
        mpc.show(masked(&pending, &blinds, &challenge), u128::plus),
        mpc.show(masked_words(&pending, &blinds, &challenge), |a, b| a ^ b),
    )
    .await?;
    let mut zero = zeros(&pending, &blinds, &challenge, &e, &words);
    mpc.same_seen("").await?;
    let r: u128 = challenge.numbers(0, 1).next().unwrap();
    zero.numbers[1][0] = zero.numbers[1][0].minus(r);
    mpc.is_zero(&zero, &challenge).await?;
    mpc.same_seen("").await
}

/// Abuse case 38: one server finds the error, the one behind it can not. It must not go on by itself.
#[test]
fn case_38_a_server_that_was_deceived_does_not_go_on() {
    let verified = Arc::new(Mutex::new([false; 3]));
    let start = |me: ServerIndex| {
        let verified = verified.clone();
        let code = |line: Line| {
            let mut mpc = verifying(me, line);
            let cheats = me.number() == 0;
            mpc.cheat = cheats.then(|| Cheat::at(0, 1));
            async move {
                let x = shared_signed(me, &[12]);
                let y = mpc.multiply(&x, &x).await?;
                match cheats {
                    true => verify_deceiving(&mpc).await?,
                    false => mpc.verify().await?,
                }
                verified.lock().unwrap()[usize::from(me.number())] = true;
                mpc.reveal(&y).await
            }
        };
        Script::start(me, code).unwrap()
    };
    let [zero, one, two] = ServerIndex::ALL.map(start);
    let (mut scripts, mut states) = ([zero.0, one.0, two.0], [zero.1, one.1, two.1]);
    let found = loop {
        let said = states.map(|state| match state {
            Progress::Says(round) => round,
            Progress::Done(_) => panic!("nobody finds it"),
        });
        let hear = |me: usize| {
            let (next, previous) = (&said[(me + 1) % 3], &said[(me + 2) % 3]);
            scripts[me].receive(next.to_previous.clone(), previous.to_next.clone())
        };
        match [0, 1, 2].map(hear) {
            [Ok(zero), Ok(one), Ok(two)] => states = [zero, one, two],
            [_, one, two] => {
                assert!(two.is_ok(), "server 2 can not know");
                break one.err();
            }
        }
    };
    let (me, from) = (ServerIndex::ALL[1], ServerIndex::ALL[2]);
    let what = "the products";
    assert_eq!(found, Some(MpcError::Differs { what, me, from }));
    assert_eq!(*verified.lock().unwrap(), [false; 3]);
}

/// What a server hears before the end, without what ends messages, where the key that it lacks is this one.
fn view(of: ServerIndex, lacks: u64, inputs: [i64; 3], verifies: bool) -> Vec<u8> {
    let shares = |me| {
        let inputs = inputs.map(|it| it as u64);
        let components = shared_in(me, of.previous(), &inputs);
        components.components().map(<[u64]>::to_vec)
    };
    async fn job<R: Ring>(mpc: Mpc<R>, x: [Vec<u64>; 2]) -> Result<(), MpcError> {
        let [own, next] = x.map(|it| it.into_iter().map(R::of).collect());
        let x = Shares::new(own, next)?;
        let y = mpc.multiply_truncate(&x, &x, 4).await?;
        let y = mpc.truncate(&y, 2).await?;
        let signs = mpc.sign(&y, 64).await?;
        mpc.multiply(&mpc.to_numbers(&signs).await?, &y).await?;
        mpc.verify().await
    }
    let key = |server: ServerIndex| {
        let mut key = [server.number() + 1; 32];
        if server == of.previous() {
            key[..8].copy_from_slice(&lacks.to_le_bytes());
        }
        key
    };
    let mut view: Vec<u8> = Vec::new();
    let hear = |carried: Carried<'_>| {
        let ends = TRAILER + if verifies { 32 } else { 0 };
        if carried.to == usize::from(of.number()) {
            view.extend(&carried.bytes[..carried.bytes.len() - ends]);
        }
    };
    let outcome = match verifies {
        true => carry(
            |me, line| job(Mpc::verifying(keys_with(me, key), line), shares(me)),
            hear,
        ),
        false => carry(
            |me, line| job(Mpc::<u64>::new(keys_with(me, key), line), shares(me)),
            hear,
        ),
    };
    outcome.unwrap();
    view
}

/// Whatever a server hears before the end is masked by the key that it lacks: with all else the same and others of these
/// keys, every bit of it is 0 as often as 1, for two inputs; or always 0, behind the end of a row.
#[test]
fn all_that_a_server_hears_is_masked() {
    const TIMES: usize = 256;
    for (of, verifies) in ServerIndex::ALL
        .into_iter()
        .flat_map(|of| [(of, true), (of, false)])
    {
        for inputs in [[0, 5, -9], [1 << 30, -(1 << 30), 1 << 29]] {
            let mut ones: Vec<usize> = Vec::new();
            for key in 0..TIMES {
                let view = view(of, key as u64, inputs, verifies);
                ones.resize(8 * view.len(), 0);
                for (place, ones) in ones.iter_mut().enumerate() {
                    *ones += usize::from(view[place / 8] >> (place % 8) & 1);
                }
            }
            // Six standard deviations.
            let fair = TIMES / 2 - 48..=TIMES / 2 + 48;
            let unfair: Vec<usize> = (0..ones.len())
                .filter(|place| ones[*place] > 0 && !fair.contains(&ones[*place]))
                .collect();
            assert!(ones.len() > 10_000, "{} bits", ones.len());
            assert!(unfair.is_empty(), "{of}, {verifies}: bits {unfair:?}");
        }
    }
}
