//! An error in a product that a server hides in the verification, from each of the others in another way.

use std::sync::{Arc, Mutex};

use blindsum_crypto::secret::Secret;

use crate::line::{Line, Say};
use crate::testing::{Cheat, carry, opened, shared_signed, verifying};
use crate::{Mpc, MpcError, PairKeys, Ring, ServerIndex, Shares};

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
    let r: u128 = challenge.numbers(0, 1)[0];
    let right = masked(&pending, &blinds, &challenge)?;
    let mut shown = right.clone();
    shown.own[0] = shown.own[0].plus(r);
    let mut to_next = Vec::new();
    u128::write(&shown.own, &mut to_next);
    let say = Say {
        from_previous: to_next.len(),
        to_next,
        ..Say::default()
    };
    let open = async {
        let heard = mpc.exchange(say).await?;
        let known = right.pairs().zip(u128::read(&heard.from_previous));
        let e: Vec<u128> = known
            .map(|((own, next), it)| own.plus(next).plus(it))
            .collect();
        mpc.see(&e);
        Ok(e)
    };
    let words = masked_words(&pending, &blinds, &challenge);
    join(open, mpc.open_words(&words)).await?;
    // It would say of the products what each of the others expects; they have found it out by now.
    mpc.same_seen("").await
}

/// Runs both; what the honest servers find, and the number that has come out.
fn outcome(last_check: bool) -> Result<u128, MpcError> {
    let start = |me: ServerIndex, line: Line| {
        let mut mpc = verifying(me, line);
        let cheats = me.number() == 0;
        mpc.cheat = cheats.then(|| Cheat {
            before: 0.into(),
            error: 1,
        });
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
    let masked = masked(&pending, &blinds, &challenge)?;
    let masked_words = masked_words(&pending, &blinds, &challenge);
    let (e, words) = join(mpc.open(&masked), mpc.open_words(&masked_words)).await?;
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

/// Whatever server 0 hears before the end is masked by key 2, which it lacks: with all else the same and other keys 2, every
/// bit of it is 0 as often as 1, for two inputs; or always 0, behind the end of a row.
#[test]
fn all_that_a_server_hears_is_masked() {
    const TIMES: usize = 400;
    let view = |inputs: [i64; 3], key: usize| {
        let mut view: Vec<Vec<u8>> = Vec::new();
        let start = |me: ServerIndex, line: Line| {
            let mut of_key = [3; 32];
            of_key[..8].copy_from_slice(&(key as u64).to_le_bytes());
            let key = |server: ServerIndex| match server.number() {
                2 => Secret::from(of_key),
                other => Secret::from([other + 1; 32]),
            };
            let mpc = Mpc::verifying(me, PairKeys::new(key(me), key(me.next())), line, [9; 32]);
            async move {
                let x = shared_signed(me, &inputs);
                let y = mpc.multiply_truncate(&x, &x, 4).await?;
                let y = mpc.truncate(&y, 2).await?;
                let signs = mpc.sign(&y, 64).await?;
                let y = mpc.multiply(&mpc.to_numbers(&signs).await?, &y).await?;
                mpc.verify().await?;
                Ok(y)
            }
        };
        carry(start, |carried| {
            let marked = carried.bytes.len() - 32;
            if carried.to == 0 && marked > 0 {
                view.push(carried.bytes[..marked].to_vec());
            }
        })
        .unwrap();
        view.concat()
    };
    for inputs in [[0, 5, -9], [1 << 30, -(1 << 30), 1 << 29]] {
        let mut ones: Vec<usize> = Vec::new();
        for key in 0..TIMES {
            let view = view(inputs, key);
            ones.resize(8 * view.len(), 0);
            for (place, ones) in ones.iter_mut().enumerate() {
                *ones += usize::from(view[place / 8] >> (place % 8) & 1);
            }
        }
        // Six standard deviations.
        let fair = TIMES / 2 - 60..=TIMES / 2 + 60;
        let unfair: Vec<usize> = (0..ones.len())
            .filter(|place| ones[*place] > 0 && !fair.contains(&ones[*place]))
            .collect();
        assert!(ones.len() > 20_000, "{} bits", ones.len());
        assert!(unfair.is_empty(), "bits {unfair:?}");
    }
}
