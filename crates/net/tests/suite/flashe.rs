//! Jobs of which only the parties learn sums and models: keys and models reach whoever lacks them, and
//! nothing is lost where processes die.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::fake::Fake;
use crate::common::*;
use blindsum_net::party::{Party, PartyConfig, RoundResult};
use blindsum_net::pb;
use blindsum_net::report::{JobStatus, RoundState};
use blindsum_net::store::{SqliteStore, Store};
use blindsum_net::{Credentials, JobError, NetError, PolicyError};
use blindsum_protocol::{Flashe, JobSpec, ModelUpdate};

/// A party's next round, in which it gives ones.
pub fn one(party: &mut Party) -> Result<RoundResult, NetError> {
    let mut round = party.next_round()?.expect("the job goes on");
    round.submit(vec![1.0f32; 5], 1)?;
    round.result()
}

/// All parties do one round; gives the number of survivors and the model.
pub fn together(parties: &mut [Party]) -> (usize, Vec<f64>) {
    let results: Vec<RoundResult> = std::thread::scope(|scope| {
        let rounds: Vec<_> = parties
            .iter_mut()
            .map(|party| scope.spawn(|| one(party).unwrap()))
            .collect();
        rounds
            .into_iter()
            .map(|round| round.join().unwrap())
            .collect()
    });
    for result in &results[1..] {
        assert_eq!(result.model, results[0].model);
        assert_eq!(result.survivors, results[0].survivors);
    }
    let first = &results[0];
    (first.survivors.len(), first.model.values().to_doubles())
}

/// Whether rounds were key set-ups, and how they ended, oldest first. The round that was offered when the
/// coordinator was stopped is left out.
fn history(store: &Path) -> Vec<(bool, RoundState)> {
    let store = SqliteStore::open(store, 3).unwrap();
    let mut rounds = store.rounds("test", 99).unwrap();
    rounds.reverse();
    rounds.retain(|round| round.reason != "the coordinator was stopped");
    rounds.iter().map(|r| (r.key_setup, r.state)).collect()
}

const SET_UP: (bool, RoundState) = (true, RoundState::Done);
const DONE: (bool, RoundState) = (false, RoundState::Done);

#[test]
fn parties_learn_the_sum_and_the_coordinator_does_not() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let coordinator = Running::start(&pki, vec![flashe(2)], Some(&store));
    let mut parties = join(&pki, &coordinator.url(), &["a", "b", "c"]);
    assert_eq!(together(&mut parties), (3, vec![1.0; 5]));
    assert_eq!(together(&mut parties), (3, vec![2.0; 5]));
    let JobStatus {
        round,
        rounds_done,
        model_version,
        ..
    } = coordinator.wait_done("test");
    let report = round.unwrap();
    assert_eq!(
        (rounds_done, model_version, report.survivors.len()),
        (2, 2, 3)
    );
    assert_eq!((report.total_weight, report.key_setup), (None, false));
    coordinator.stop().unwrap();
    assert_eq!(history(&store), [SET_UP, DONE, DONE]);
    let model = SqliteStore::open(&store, 3)
        .unwrap()
        .model("test", 2)
        .unwrap()
        .unwrap();
    assert!(model.is_hidden() && model.values().is_empty());
}

#[test]
fn a_late_joiner_gets_key_and_model_from_a_party() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let coordinator = Running::start(&pki, vec![flashe(4)], Some(&store));
    let mut parties = join(&pki, &coordinator.url(), &["b", "c"]);
    assert_eq!(together(&mut parties), (2, vec![1.0; 5]));
    assert_eq!(together(&mut parties), (2, vec![2.0; 5]));
    // It would be the leader of a new job.
    parties.extend(join(&pki, &coordinator.url(), &["a"]));
    assert_eq!(together(&mut parties), (3, vec![3.0; 5]));
    // Another one takes its place, with its name and without what it knew.
    drop(parties.remove(0));
    parties.extend(join(&pki, &coordinator.url(), &["b"]));
    assert_eq!(together(&mut parties), (3, vec![4.0; 5]));
    coordinator.wait_done("test");
    coordinator.stop().unwrap();
    assert_eq!(
        history(&store),
        [SET_UP, DONE, DONE, SET_UP, DONE, SET_UP, DONE]
    );
}

/// The rule on the difference of two cohorts is about sums; a key may go to any of them.
#[test]
fn a_key_set_up_is_no_cohort_to_subtract() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let coordinator = Running::start(&pki, vec![flashe(2)], Some(&store));
    let url = coordinator.url();
    let careful = |name| {
        let mut config = party_config(&url, pki.party(name));
        config.policy.min_cohort_change = 1;
        Party::join(config).unwrap()
    };
    let mut parties: Vec<Party> = ["a", "b"].map(careful).into();
    assert_eq!(together(&mut parties), (2, vec![1.0; 5]));
    let mut late = join(&pki, &url, &["c"]).remove(0);
    let differencing = PolicyError::Differencing {
        have: 1,
        need: 2,
        honest: 1,
        corrupt: 1,
    };
    // It waits as long as the coordinator is there.
    std::thread::spawn(move || late.next_round().map(drop));
    std::thread::scope(|scope| {
        for party in &mut parties {
            scope.spawn(|| match party.next_round() {
                Err(NetError::Job(JobError::Policy(rule))) => assert_eq!(rule, differencing),
                other => panic!("{:?}", other.map(drop)),
            });
        }
    });
    coordinator.stop().unwrap();
    assert_eq!(history(&store)[..3], [SET_UP, DONE, SET_UP]);
}

#[test]
fn the_first_model_comes_from_the_coordinator() {
    let pki = Pki::new(1);
    let mut served = config(&pki, vec![flashe(2)], None);
    served.jobs[0].initial_model = Some(vec![0.5; 5].into());
    let coordinator = Running::with(served).unwrap();
    let mut parties = join(&pki, &coordinator.url(), &["a", "b"]);
    assert_eq!(together(&mut parties), (2, vec![1.5; 5]));
    parties.extend(join(&pki, &coordinator.url(), &["c"]));
    assert_eq!(together(&mut parties), (3, vec![2.5; 5]));
    coordinator.wait_done("test");
    coordinator.stop().unwrap();
}

#[test]
fn keys_are_replaced_and_the_model_goes_on() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let spec = JobSpec {
        protocol: Flashe {
            key_rounds: 1,
            ..Default::default()
        }
        .into(),
        ..flashe(3)
    };
    let coordinator = Running::start(&pki, vec![spec], Some(&store));
    let mut parties = join(&pki, &coordinator.url(), &["a", "b", "c"]);
    for round in 1..=3_u8 {
        assert_eq!(together(&mut parties), (3, vec![round.into(); 5]));
    }
    coordinator.wait_done("test");
    coordinator.stop().unwrap();
    assert_eq!(history(&store), [SET_UP, DONE, SET_UP, DONE, SET_UP, DONE]);
}

/// Everybody restarts, and in between meets other coordinators that use the name of the job: one whose job is
/// another one, and one that knows of no round yet. Neither takes key or model away.
#[test]
fn everybody_restarts_and_goes_on_with_key_and_model() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let names = ["a", "b", "c"];
    let known: Vec<_> = names
        .iter()
        .map(|name| (folder.path().join(name), pki.party(name)))
        .collect();
    let come = |coordinator: &Running| -> Vec<Party> {
        let url = coordinator.url();
        let come = |(folder, credentials): &(PathBuf, Credentials)| {
            join_again(|| config_in(folder, &url, credentials))
        };
        known.iter().map(come).collect()
    };
    let mut models = Vec::new();
    for version in 1..=2 {
        let coordinator = Running::start(&pki, vec![flashe(2)], Some(&store));
        models.push(together(&mut come(&coordinator)));
        coordinator.wait("test", |status| status.rounds_done == version);
        coordinator.stop().unwrap();
        let other = Running::start(&pki, vec![flashe(9 + version as u32)], None);
        assert_eq!(together(&mut come(&other)), (3, vec![1.0; 5]));
        let younger = Running::start(&pki, vec![flashe(2)], None);
        let refused = come(&younger)[0].next_round().map(drop).unwrap_err();
        let reason = format!("a return to model version 0, where this party has version {version}");
        assert!(refused.to_string().contains(&reason), "{refused}");
    }
    assert_eq!(models, [(3, vec![1.0; 5]), (3, vec![2.0; 5])]);
    assert_eq!(history(&store), [SET_UP, DONE, DONE]);
}

/// What parties were told binds the next round, also in a job whose model never changes: a coordinator that names
/// another result than the one this party was told is found out, and gets nothing more from it.
#[test]
fn another_result_than_the_own_one_is_found_out() {
    for model_update in [ModelUpdate::Nothing, ModelUpdate::Add] {
        let pki = Pki::new(1);
        let folder = tempfile::tempdir().unwrap();
        let job = JobSpec {
            model_update,
            ..flashe(2)
        };
        let coordinator = Running::start(&pki, vec![job.clone()], None);
        let url = coordinator.url();
        let credentials = pki.party("a");
        let mut parties = join(&pki, &url, &["b", "c"]);
        parties.push(Party::join(config_in(folder.path(), &url, &credentials)).unwrap());
        together(&mut parties);
        drop(parties);
        coordinator.stop().unwrap();

        let fake = Fake::start(&pki);
        let party = std::thread::spawn({
            let (folder, url) = (folder.path().to_owned(), fake.url());
            move || {
                join_again(|| config_in(&folder, &url, &credentials))
                    .next_round()
                    .map(drop)
            }
        });
        let line = fake.welcome(&job.validate().unwrap());
        let dim = match model_update {
            ModelUpdate::Nothing => 0,
            _ => 5,
        };
        let model = pb::ModelName {
            version: 1,
            hash: vec![7; 32],
            dim,
        };
        line.send(pb::RoundOffer {
            round: 9,
            model: Some(model),
            ..pb::RoundOffer::default()
        });
        let error = party.join().unwrap().unwrap_err().to_string();
        let expected = "a second model of version 1: parties were told different sums";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_party_that_is_killed_in_a_round_goes_on_in_it() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Running::start(&pki, vec![flashe(1)], None);
    let url = coordinator.url();
    let mut others = join(&pki, &url, &["b", "c"]);
    let credentials = pki.party("a");
    let config = || config_in(folder.path(), &url, &credentials);
    let mut first = Party::join(config()).unwrap();
    let mut rounds: Vec<_> = std::thread::scope(|scope| {
        let begin = |party: &mut Party| party.next_round().unwrap().unwrap();
        let rounds: Vec<_> = others
            .iter_mut()
            .chain([&mut first])
            .map(|party| scope.spawn(move || begin(party)))
            .collect();
        rounds
            .into_iter()
            .map(|round| round.join().unwrap())
            .collect()
    });
    // It dies with its update sent and the result not heard.
    rounds[2].submit(vec![4.0f32; 5], 1).unwrap();
    coordinator.wait("test", |status| status.waiting_for == ["b", "c"]);
    rounds.truncate(2);
    drop(first);
    let mut again = join_again(config);
    for round in &mut rounds {
        round.submit(vec![1.0f32; 5], 1).unwrap();
    }
    let mut resumed = again.next_round().unwrap().unwrap();
    assert!(!resumed.needs_update());
    assert_eq!(resumed.result().unwrap().mean, [2.0; 5]);
    for round in &mut rounds {
        assert_eq!(round.result().unwrap().survivors, ["a", "b", "c"]);
    }
}

/// Abuse case 48: the whole folder is put back to what it was while the party trained, after its vector was uploaded.
/// The other process has another vector, and says nothing in this round.
#[test]
fn case_48_a_folder_that_is_put_back_encrypts_nothing_again() {
    let pki = Pki::new(1);
    let (folder, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let coordinator = Running::start(&pki, vec![flashe(1)], None);
    let url = coordinator.url();
    let mut others = join(&pki, &url, &["b", "c"]);
    let credentials = pki.party("a");
    let mut first = Party::join(config_in(folder.path(), &url, &credentials)).unwrap();
    let mut rounds: Vec<_> = std::thread::scope(|scope| {
        let begin = |party: &mut Party| party.next_round().unwrap().unwrap();
        let all = others.iter_mut().chain([&mut first]);
        let all: Vec<_> = all.map(|party| scope.spawn(move || begin(party))).collect();
        all.into_iter().map(|round| round.join().unwrap()).collect()
    });
    copy_folder(folder.path(), backup.path());
    rounds[2].submit(vec![1.0f32; 5], 1).unwrap();
    coordinator.wait("test", |status| status.waiting_for == ["b", "c"]);
    rounds.truncate(2);
    drop(first);
    let mut again = Party::join(config_in(backup.path(), &url, &credentials)).unwrap();
    for round in &mut rounds {
        round.submit(vec![2.5f32; 5], 1).unwrap();
    }
    // What was uploaded counts, and nothing came after it.
    for round in &mut rounds {
        let result = round.result().unwrap();
        assert_eq!(
            (result.survivors.len(), result.mean.to_doubles()),
            (3, vec![2.0; 5])
        );
    }
    assert!(again.next_round().unwrap().is_none());
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
        match path.is_dir() {
            true => copy_folder(&path, &to.join(name)),
            // A file that is being written has another name, which may be gone by now.
            false if path.extension().is_some_and(|of| of == "new") => {}
            false => drop(std::fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

/// Abuse case 33: a vault from a backup is refused by name, and the party takes part again without it.
#[test]
fn case_33_a_vault_from_a_backup() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Running::start(&pki, vec![flashe(3)], None);
    let url = coordinator.url();
    let credentials = pki.party("a");
    let config = || config_in(folder.path(), &url, &credentials);
    let mut parties = join(&pki, &url, &["b", "c"]);
    parties.push(Party::join(config()).unwrap());
    together(&mut parties);
    let hash = flashe(3).validate().unwrap();
    let hash: String = hash.hash().iter().map(|b| format!("{b:02x}")).collect();
    let vault = folder.path().join("test").join(hash).join("vault");
    let backup = std::fs::read(&vault).unwrap();
    together(&mut parties);
    drop(parties.pop());
    std::fs::write(&vault, backup).unwrap();
    // No others are ready: where it is not refused it waits.
    let refused = join_again(config).wait_round(PATIENCE).map(drop);
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, NetError::Job(JobError::State { .. })),
        "{refused}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("may have been used for encryption already"),
        "{text}"
    );
    std::fs::remove_file(&vault).unwrap();
    parties.push(join_again(config));
    assert_eq!(together(&mut parties), (3, vec![3.0; 5]));
}

#[test]
fn masks_are_computed_while_a_party_waits() {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![flashe(1)], None);
    let without = PartyConfig {
        mask_memory: 0,
        ..party_config(&coordinator.url(), pki.party("c"))
    };
    let mut parties = join(&pki, &coordinator.url(), &["a", "b"]);
    parties.push(Party::join(without).unwrap());
    let timings = std::thread::scope(|scope| {
        let rounds: Vec<_> = parties
            .iter_mut()
            .map(|party| {
                scope.spawn(|| {
                    let mut round = party.next_round().unwrap().unwrap();
                    // The caller trains.
                    std::thread::sleep(Duration::from_millis(1500));
                    round.submit(vec![1.0f32; 5], 1).unwrap();
                    round.result().unwrap().timings
                })
            })
            .collect();
        rounds
            .into_iter()
            .map(|round| round.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert!(timings[0].ahead > 0.0 && timings[1].ahead > 0.0);
    assert_eq!(timings[2].ahead.to_bits(), 0);
    assert!(
        timings
            .iter()
            .all(|times| times.protect > 0.0 && times.open > 0.0)
    );
}
