//! Rounds that a host begins, with parties over the network.

use std::time::Duration;

use blindsum_encode::Reals;
use blindsum_job::calls::{Call, CallEnd, CallError};
use blindsum_net::coordinator::JobConfig;
use blindsum_net::party::{NextRound, Party};
use blindsum_net::{JobError, NetError};
use blindsum_protocol::{JobSpec, ModelUpdate, ProtocolName, Tag};

use crate::common::{Pki, Running, config, party_config, spec};

/// Longer than any wait of a test.
const LONG: Duration = Duration::from_secs(60);

fn call(tag: u64, parties: &[&str]) -> Call {
    Call {
        tag: Some(tag),
        about: None,
        parties: parties.iter().map(|name| (*name).to_owned()).collect(),
        model: None,
        join_within: Some(60.0),
        deadline: None,
    }
}

/// A job of up to three parties whose rounds this test begins.
fn hosted(pki: &Pki) -> Running {
    let spec = JobSpec {
        rounds: 0,
        min_parties: 2,
        model_update: ModelUpdate::Nothing,
        ..spec(ProtocolName::Plain, 3)
    };
    let mut config = config(pki, vec![spec.clone()], None);
    config.jobs = vec![JobConfig {
        spec,
        initial_model: None,
        results: None,
        hosted: true,
    }];
    Running::with(config).unwrap()
}

/// Takes part in the round with this tag, in a process of its own as it were; or why not.
fn take_part(party: &mut Party, tag: u64) -> Result<Reals, NetError> {
    let wanted = Tag {
        number: tag,
        about: None,
    };
    match party.wait_tag(Some(wanted), LONG)? {
        NextRound::Round(mut round) => {
            assert_eq!(round.tag(), Some(wanted));
            round.submit(vec![3.0f32; 5], 1)?;
            Ok(round.result()?.mean)
        }
        NextRound::Refused(error) => Err(error),
        NextRound::JobDone | NextRound::Held(_) | NextRound::Waiting => panic!("no round"),
    }
}

#[test]
fn parties_come_for_one_round_and_one_that_is_late_is_not_in_the_next() {
    let pki = Pki::new(1);
    let coordinator = hosted(&pki);
    let (control, url) = (coordinator.control(), coordinator.url());
    let names = ["hospital-a", "hospital-b", "hospital-c"];
    let credentials = names.map(|name| pki.party(name));
    for tag in 1..=3 {
        let called = coordinator.block_on(control.call("test", call(tag, &names[..2])));
        let mut pending = called.unwrap();
        let busy = coordinator.block_on(control.call("test", call(tag, &names)));
        assert!(matches!(busy, Err(CallError::Busy { .. })));
        let means = std::thread::scope(|scope| {
            let join = |i: usize| {
                let config = party_config(&url, credentials[i].clone());
                scope.spawn(move || take_part(&mut Party::join(config).unwrap(), tag).unwrap())
            };
            let all = [0, 1].map(join);
            all.into_iter()
                .map(|one| one.join().unwrap())
                .collect::<Vec<_>>()
        });
        match coordinator.block_on(pending.end()).unwrap() {
            CallEnd::Sum(sum) => {
                assert_eq!(
                    (sum.tag, &sum.survivors[..]),
                    (Some(tag), &["hospital-a".into(), "hospital-b".into()][..])
                );
                assert!(means.iter().all(|mean| Some(mean) == sum.mean.as_ref()));
            }
            CallEnd::Lost(lost) => panic!("{lost:?}"),
        }
    }
    // An update of step 3 comes when step 4 is offered.
    let mut late = Party::join(party_config(&url, credentials[2].clone())).unwrap();
    let mut pending = coordinator
        .block_on(control.call("test", call(4, &names[1..])))
        .unwrap();
    let error = take_part(&mut late, 3).unwrap_err();
    let (wanted, offered) = match error {
        NetError::Job(JobError::OtherTag {
            wanted, offered, ..
        }) => (wanted, offered),
        other => panic!("{other}"),
    };
    assert_eq!((wanted, offered), (3, Some(4)));
    match coordinator.block_on(pending.end()).unwrap() {
        CallEnd::Lost(lost) => assert!(lost.lost[names[2]].contains("tag"), "{lost:?}"),
        CallEnd::Sum(sum) => panic!("{sum:?}"),
    }
    // What the host knows of a party ends its part at once, and so does its own word.
    let mut pending = coordinator
        .block_on(control.call("test", call(5, &names)))
        .unwrap();
    let host = pending.control();
    coordinator.block_on(host.report_failed(names[0], "killed"));
    coordinator.block_on(host.report_failed(names[1], "killed"));
    let end = coordinator.block_on(pending.end()).unwrap();
    assert!(matches!(end, CallEnd::Lost(lost) if lost.lost.len() == 2));
    let mut pending = coordinator
        .block_on(control.call("test", call(5, &names)))
        .unwrap();
    coordinator.block_on(pending.control().call_off("enough"));
    let end = coordinator.block_on(pending.end()).unwrap();
    assert!(matches!(end, CallEnd::Lost(lost) if lost.reason.ends_with("enough")));
    coordinator.stop().unwrap();
    let gone = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(control.call("test", call(6, &names)));
    assert!(matches!(gone, Err(CallError::Stopping { .. })));
}
