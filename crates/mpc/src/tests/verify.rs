//! One server of three that does what it likes.

use std::sync::Arc;

use crate::line::{Line, TRAILER};
use crate::output::{Part, put_together};
use crate::testing::{Carried, Cheat, carry, shared_signed, vectors_of, verifying};
use crate::{Mpc, MpcError, ServerIndex};

const VECTORS: [[u64; 4]; 3] = [[30, 7, 11, 5], [25, 9, 4, 0], [40, 10, 3, 8]];

/// A small job with all kinds of products: vectors are weighted by what is computed of their dot products, and by what
/// comparisons say.
async fn job(mpc: Mpc<u128>) -> Result<Vec<u64>, MpcError> {
    let me = mpc.me();
    let vectors = Arc::new(vectors_of(me, &VECTORS));
    let gram = mpc.gram(&vectors).await?;
    let norms = gram.at([0, 3, 5]);
    let near = mpc
        .sign(&norms.plus_public(me, (-2000_i128) as u128), 16)
        .await?;
    let near = mpc.to_numbers(&near).await?;
    let scaled = mpc
        .multiply_truncate(&norms, &shared_signed(me, &[3 << 8, 5 << 8, 7 << 8]), 8)
        .await?;
    let scaled = mpc.truncate(&scaled, 2).await?;
    let weights = mpc.multiply(&near, &scaled).await?;
    let sum = mpc.weighted(&weights, &vectors).await?;
    mpc.verify().await?;
    mpc.reveal(&sum).await
}

fn honest() -> (Vec<u64>, usize, u32) {
    let mut messages = 0;
    let count = |carried: Carried<'_>| messages = carried.number + 1;
    let outcome = carry(|me, line| job(verifying(me, line)), count).unwrap();
    let [zero, one, two] = outcome.results;
    assert!(zero == one && one == two);
    (zero, messages, outcome.rounds)
}

/// The servers that are not `cheater` have this result, or one of them has found out.
fn is_harmless(
    outcome: Result<[Option<Vec<u64>>; 3], MpcError>,
    right: &Vec<u64>,
    cheater: usize,
) -> bool {
    match outcome {
        Err(_) => true,
        Ok(results) => results
            .iter()
            .enumerate()
            .all(|(server, result)| server == cheater || result.as_ref() == Some(right)),
    }
}

/// Runs the job with a server that believes everything, and somebody who changes its messages.
fn run_with(
    cheater: usize,
    cheat: impl Fn() -> Arc<Cheat>,
    change: impl FnMut(Carried<'_>),
) -> Result<[Option<Vec<u64>>; 3], MpcError> {
    let start = |me: ServerIndex, line: Line| {
        let mut mpc = verifying(me, line);
        let cheats = usize::from(me.number()) == cheater;
        if cheats {
            mpc.cheat = Some(cheat());
        }
        async move {
            match job(mpc).await {
                Ok(result) => Ok(Some(result)),
                // What it does to itself counts for nobody.
                Err(_) if cheats => Ok(None),
                Err(error) => Err(error),
            }
        }
    };
    carry(start, change).map(|outcome| outcome.results)
}

type Alteration = (&'static str, fn(&mut Vec<u8>, &[u8]));

/// Ways to change a message, given the one before it.
const ALTERATIONS: [Alteration; 7] = [
    ("a bit in the middle", |bytes, _| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
    }),
    ("the highest bit of a word", |bytes, _| {
        let place = bytes.len().min(8) - 1;
        bytes[place] ^= 0x80;
    }),
    ("the highest bit of all", |bytes, _| {
        let place = bytes.len() - TRAILER - 1;
        bytes[place] ^= 0x80;
    }),
    ("the number of the round", |bytes, _| {
        let place = bytes.len() - TRAILER;
        bytes[place] ^= 1;
    }),
    ("the lowest bit of all", |bytes, _| bytes[0] ^= 1),
    ("another message", |bytes, before| {
        let body = bytes.len() - TRAILER;
        let other = before.iter().copied().chain(std::iter::repeat(0x5a));
        for (byte, other) in bytes[..body].iter_mut().zip(other) {
            *byte = other;
        }
    }),
    ("a shorter one", |bytes, _| {
        bytes.pop();
    }),
];

/// Abuse case 38: whatever one server changes in whatever message, the others find out or have the right result.
#[test]
fn case_38_every_message_altered() {
    let (right, messages, _) = honest();
    assert!(messages > 60, "{messages} messages");
    for at in 0..messages {
        for (name, alter) in ALTERATIONS {
            let mut sender = 0;
            let change = |sender: &mut usize, before: &mut Vec<u8>, carried: Carried<'_>| {
                if carried.number == at {
                    *sender = carried.from;
                    alter(carried.bytes, before);
                }
                before.clone_from(carried.bytes);
            };
            // Who says the message does not mind what it hears later.
            let mut before = Vec::new();
            carry(
                |me, line| job(verifying(me, line)),
                |carried| change(&mut sender, &mut before, carried),
            )
            .ok();
            let mut before = Vec::new();
            let mut again = 0;
            let outcome = run_with(sender, Cheat::never, |carried| {
                change(&mut again, &mut before, carried)
            });
            assert!(
                is_harmless(outcome, &right, sender),
                "message {at} of server {sender}: {name}"
            );
        }
    }
}

/// Abuse case 38: a server that adds an error to its part of a product, says so and goes on with it.
#[test]
fn case_38_every_product_bent() {
    let (right, _, _) = honest();
    let mut found = 0;
    for cheater in 0..3 {
        for before in 0.. {
            let errors = [1, 1 << 40, 1 << 63, 1 << 64, u128::MAX];
            let mut is_over = false;
            for error in errors {
                let cheat = || Cheat::at(before, error);
                let outcome = run_with(cheater, cheat, |_| {});
                let unharmed = matches!(&outcome, Ok(results) if results.iter().all(|it| it.as_ref() == Some(&right)));
                found += usize::from(outcome.is_err());
                assert!(
                    is_harmless(outcome, &right, cheater),
                    "product {before} of server {cheater}, error {error:x}"
                );
                is_over |= error == 1 && unharmed;
            }
            if is_over {
                break;
            }
        }
    }
    assert!(found > 100, "{found} found");
}

#[test]
fn verification_costs_seven_rounds() {
    let rounds = |verify: bool| {
        let start = move |me: ServerIndex, line: Line| {
            let mpc = verifying(me, line);
            async move {
                let vectors = Arc::new(vectors_of(me, &VECTORS));
                mpc.gram(&vectors).await?;
                if verify {
                    mpc.verify().await?;
                }
                Ok(())
            }
        };
        carry(start, |_| {}).unwrap().rounds
    };
    assert_eq!((rounds(false), rounds(true)), (1, 8));
}

#[test]
fn nothing_is_shown_that_is_not_verified() {
    let start = |me: ServerIndex, line: Line| {
        let mpc = verifying(me, line);
        async move {
            let x = shared_signed(me, &[5]);
            let before = mpc.part(&x).is_ok();
            let product = mpc.multiply(&x, &x).await?;
            let unverified = (mpc.part(&product), mpc.reveal(&product).await);
            assert_eq!(
                unverified,
                (Err(MpcError::Unverified), Err(MpcError::Unverified))
            );
            mpc.verify().await?;
            Ok((before, mpc.reveal(&product).await?))
        }
    };
    let [outcome, _, _] = carry(start, |_| {}).unwrap().results;
    assert_eq!(outcome, (true, vec![25]));
}

#[test]
fn debug_output_shows_no_share() {
    let me = ServerIndex::ALL[0];
    let shares = shared_signed::<u128>(me, &[5, 6]);
    assert_eq!(format!("{shares:?}"), "Shares of 2 values");
    assert_eq!(
        format!("{:?}", crate::Bits::zeros(3, 2)),
        "Bits, 2 rows of 3"
    );
    assert_eq!(
        format!("{:?}", vectors_of(me, &VECTORS)),
        "3 vectors of 4 numbers"
    );
    let part = Part {
        component: vec![5],
        next: [6; 32],
    };
    assert_eq!(format!("{part:?}"), "Part of 1 values");
}

#[test]
fn a_result_is_put_together_from_three_parts() {
    let start = |me: ServerIndex, line: Line| {
        let mpc = verifying(me, line);
        async move { mpc.part(&shared_signed(me, &[5, -7])) }
    };
    let parts: [Part; 3] = carry(start, |_| {}).unwrap().results;
    let result = put_together(&parts).unwrap();
    assert_eq!(result, [5, (-7_i64) as u64]);
    for server in ServerIndex::ALL {
        let at = usize::from(server.number());
        let mut wrong = parts.clone();
        wrong[at].component[1] ^= 1;
        let what = "a component of the result";
        let (me, from) = (server, server.previous());
        assert_eq!(
            put_together(&wrong),
            Err(MpcError::Differs { what, me, from })
        );
        wrong[at].component.pop();
        assert!(matches!(put_together(&wrong), Err(MpcError::Shape { .. })));
    }
}
