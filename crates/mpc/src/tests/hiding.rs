//! An error in a product that a server hides in the verification, from each of the others in another way.

use crate::line::{Line, Say};
use crate::testing::{Cheat, carry, opened, verifying};
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

/// Verification at server 0, which shows server 1 another e, and server 2 another hash.
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
        let heard = mpc.line.exchange(say).await;
        let known = right.pairs().zip(u128::read(&heard.from_previous));
        let e: Vec<u128> = known
            .map(|((own, next), it)| own.plus(next).plus(it))
            .collect();
        mpc.see(&e);
        Ok(e)
    };
    let words = masked_words(&pending, &blinds, &challenge);
    let (e, words) = join(open, mpc.open_words(&words)).await?;
    let zero = zeros(&pending, &blinds, &challenge, &e, &words);
    // Server 2 has the wrong product: what it expects of the other component is less by r.
    let mut next = zero.numbers[1].clone();
    let last = next.len() - 1;
    next[last] = next[last].minus(r);
    let to_previous = challenge.digest(&next, zero.word[1]);
    let say = Say {
        from_next: to_previous.len(),
        to_previous,
        ..Say::default()
    };
    mpc.line.exchange(say).await;
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
                Err(MpcError::Differs { what, .. })
                    if !last_check && what == "opened values of the verification" =>
                {
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
    assert_eq!(what, "opened values of the verification");
    assert!(me.number() == 1 || from.number() == 1, "{found}");
    let wrong = outcome(false).unwrap();
    assert!(wrong > 1, "{wrong} is a bit");
}
