//! Rounds, and messages that no honest server sends.

use crate::line::{Progress, Script, TRAILER};
use crate::testing::{run, server, shared};
use crate::{Mpc, MpcError, ServerIndex, Shares, join, join3};

#[test]
fn what_runs_side_by_side_shares_its_rounds() {
    let outcome = run(|mpc: Mpc<u64>| async move {
        let x = shared(mpc.me(), &[3, 4]);
        let deep = async {
            let mut power = x.clone();
            for _ in 0..5 {
                power = mpc.multiply(&power, &x).await?;
            }
            mpc.open(&power).await
        };
        join3(deep, mpc.open(&x), mpc.sign(&x, 64)).await
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.results[1].0, [729, 4096]);
    assert_eq!(outcome.results[2].1, [3, 4]);
    assert_eq!(outcome.rounds, 8);
}

/// What somebody says in the first round.
fn message(body: &[u8]) -> Vec<u8> {
    [body, &[0; TRAILER]].concat()
}

/// One server that opens a value and adds bits, at its first round.
fn waiting() -> Script<Shares<u64>> {
    let me = ServerIndex::ALL[1];
    let code = |line| {
        let mpc = server::<u64>(me, line);
        async move {
            let x = shared(me, &[3; 5]);
            let bits = mpc.to_bits(&x, 2).await?;
            mpc.to_numbers(&bits).await
        }
    };
    let (script, progress) = Script::start(me, code).unwrap();
    let Progress::Says(round) = progress else {
        panic!("it waits for nothing");
    };
    assert_eq!(
        (round.number, round.to_next.len(), round.to_previous.len()),
        (0, TRAILER, 2 + TRAILER)
    );
    script
}

#[test]
fn a_message_of_another_length_is_refused() {
    let length = |from: u8, expected, got| MpcError::Length {
        round: 0,
        from: ServerIndex::try_from(from).unwrap(),
        expected: expected + TRAILER,
        got,
    };
    let refused = |from_next: &[u8], from_previous: &[u8]| {
        let heard = waiting().receive(from_next.to_vec(), from_previous.to_vec());
        heard.unwrap_err()
    };
    assert_eq!(refused(&message(&[0; 3]), &message(&[])), length(2, 2, 7));
    assert_eq!(refused(&message(&[]), &message(&[])), length(2, 2, 4));
    assert_eq!(refused(&[0; 3], &message(&[])), length(2, 2, 3));
    assert_eq!(refused(&message(&[0; 2]), &message(&[0])), length(0, 0, 5));
    assert_eq!(refused(&message(&[0; 2]), &[]), length(0, 0, 0));
}

#[test]
fn bits_behind_the_end_of_a_row_are_refused() {
    assert!(waiting().receive(message(&[0x1f; 2]), message(&[])).is_ok());
    let refused = waiting().receive(message(&[0x1f, 0x20]), message(&[]));
    assert_eq!(refused.unwrap_err(), MpcError::Padding);
}

#[test]
fn case_38_a_message_of_another_round_is_refused() {
    let later = [vec![0; 2], 1u32.to_be_bytes().to_vec()].concat();
    let (round, got) = (0, 1);
    for (from, of_next, of_previous) in [
        (2, later.clone(), message(&[])),
        (0, message(&[0; 2]), later[2..].to_vec()),
    ] {
        let from = ServerIndex::try_from(from).unwrap();
        let mut script = waiting();
        let refused = script.receive(of_next, of_previous);
        assert_eq!(refused.unwrap_err(), MpcError::Round { round, from, got });
        let again = script.receive(message(&[0; 2]), message(&[]));
        assert_eq!(again.unwrap_err(), MpcError::Ended);
    }
}

/// Code that goes on after an error: nothing is said for it any more.
#[test]
fn case_38_nothing_runs_after_an_error() {
    let me = ServerIndex::ALL[1];
    let start = || {
        Script::start(me, |line| {
            let mpc = server::<u64>(me, line);
            async move {
                let x = shared(me, &[3; 5]);
                let first = mpc.to_bits(&x, 2).await.err();
                let after = [
                    mpc.open(&x).await.err(),
                    mpc.multiply(&x, &x).await.err(),
                    mpc.reveal(&x).await.err(),
                    mpc.part(&x).err(),
                    mpc.branch().coin().await.err(),
                ];
                Ok((first, after))
            }
        })
    };
    let (mut script, _) = start().unwrap();
    let heard = script
        .receive(message(&[0x1f, 0x20]), message(&[]))
        .unwrap();
    let Progress::Done((first, after)) = heard else {
        panic!("it says something");
    };
    assert_eq!(first, Some(MpcError::Padding));
    assert_eq!(after, [const { Some(MpcError::Ended) }; 5]);
}

/// What another part has said can not be taken back.
#[test]
fn a_part_that_is_given_up_ends_the_rest() {
    let outcome = run(|mpc: Mpc<u64>| async move {
        let x = shared(mpc.me(), &[1]);
        let failed = join(mpc.open(&x), mpc.sign(&x, 1)).await.err();
        Ok((failed, mpc.open(&x).await.err(), mpc.part(&x).err()))
    });
    let (name, value, rule) = ("bits", 1, "2 <= bits <= 64");
    let (failed, later, part) = outcome.unwrap().results[0].clone();
    assert_eq!(failed, Some(MpcError::Range { name, value, rule }));
    assert_eq!(
        (later, part),
        (Some(MpcError::Ended), Some(MpcError::Ended))
    );
}

#[test]
fn the_first_error_ends_it() {
    let outcome = run(|mpc: Mpc<u64>| async move {
        let x = shared(mpc.me(), &[1]);
        let fails = async {
            mpc.open(&x).await?;
            mpc.sign(&x, 1).await
        };
        join(mpc.sign(&x, 64), fails).await
    });
    let (name, value, rule) = ("bits", 1, "2 <= bits <= 64");
    assert_eq!(outcome.err(), Some(MpcError::Range { name, value, rule }));
}

#[test]
fn code_that_waits_for_nothing_is_stuck() {
    let me = ServerIndex::ALL[0];
    let stuck = Script::<()>::start(me, |_| std::future::pending());
    assert_eq!(stuck.err(), Some(MpcError::Stuck));
}

#[test]
fn there_are_three_servers() {
    assert_eq!(ServerIndex::try_from(3), Err(3));
    let [zero, one, two] = ServerIndex::ALL;
    assert_eq!((zero.previous(), one.next(), two.next()), (two, two, zero));
    assert_eq!(two.to_string(), "server 2");
}
