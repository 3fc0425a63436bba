use blindsum_protocol::{
    JobSpec, ModelUpdate, Mpc3, ProtocolChoice, ProtocolName, ResultName, RuleName,
};

use rand_core::Rng;

use super::*;
use crate::hex;
use crate::testing::rng;

fn set(parties: impl IntoIterator<Item = u32>) -> BTreeSet<String> {
    let names = parties.into_iter().map(|party| format!("{party:02}"));
    names.collect()
}

fn release(round: u64, parties: impl IntoIterator<Item = u32>) -> Release {
    Release {
        round,
        model: hex(&[1; 32]),
        survivors: set(parties),
    }
}

fn job(model_update: ModelUpdate, result: ResultName) -> Job {
    ruled(model_update, result, RuleName::FedAvg)
}

fn ruled(model_update: ModelUpdate, result: ResultName, rule: RuleName) -> Job {
    let spec = JobSpec {
        protocol: Mpc3 {
            result,
            rule,
            ..Mpc3::default()
        }
        .into(),
        parties: 10,
        dim: 4,
        model_update,
        ..JobSpec::default()
    };
    spec.validate().unwrap()
}

/// Survivors differ by so many parties, and repetitions tell nothing.
fn by(bound: usize) -> Rule {
    Rule {
        bound,
        repetitions_tell: false,
    }
}

/// A memory with what was written down last.
fn memory(job: &Job, kept: Vec<Release>) -> (Arc<Releases>, Arc<Mutex<Vec<Release>>>) {
    let disk = Arc::new(Mutex::new(kept.clone()));
    let written = disk.clone();
    let keep = move |releases: &[Release]| {
        *written.lock().unwrap() = releases.to_vec();
        Ok(())
    };
    (Releases::new(job, kept, Box::new(keep)), disk)
}

#[test]
fn case_67_survivors_are_the_same_again_or_far_from_earlier_ones() {
    let known = [release(3, 0..10)];
    let near = |parties: &[u32]| compare(&known, &set(parties.iter().copied()), by(3)).err();
    assert_eq!(compare(&[], &set(0..9), by(3)), Ok(()));
    assert_eq!(near(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), None);
    assert_eq!(near(&[0, 1, 2, 3, 4, 5, 6]), None);
    assert_eq!(near(&[0, 1, 2, 3, 4, 5, 6, 7, 10]), None);
    for differ in [set([9]), set([9, 10]), set([8, 9])] {
        let mut survivors: BTreeSet<String> = set(0..10);
        for name in &differ {
            if !survivors.remove(name) {
                survivors.insert(name.clone());
            }
        }
        let found = compare(&known, &survivors, by(3)).unwrap_err();
        assert_eq!(
            (found.to.round, &found.differ, found.bound),
            (3, &differ, 3)
        );
        let text = found.to_string();
        assert!(text.contains("round 3") && text.contains("09"), "{text}");
    }
}

/// Two sets that are far from each other, and a third one that is far from both: together they tell one party.
#[test]
fn case_67_three_results_together_tell_no_fewer_than_two() {
    let all = release(1, 0..12);
    let two = release(2, (0..12).filter(|party| ![0, 1, 2].contains(party)));
    let known = [all, two];
    // The first without {2, 3, 4}: that without {0, 1, 3, 4} would tell party 2 then.
    let third = set((0..12).filter(|party| ![2, 3, 4].contains(party)));
    let far = |known: &Release| known.survivors.symmetric_difference(&third).count() >= 3;
    assert!(known.iter().all(far));
    assert!(compare(&known, &third, by(3)).is_err());
    let third = set((0..12).filter(|party| ![3, 4, 5].contains(party)));
    assert_eq!(compare(&known, &third, by(3)), Ok(()));
}

/// Whatever sums of parties are asked for in whatever order, no combination of the opened ones that takes at most three of
/// them tells fewer parties than the bound.
#[test]
fn case_67_no_combination_of_opened_sums_tells_few_parties() {
    let mut dice = rng(67);
    let mut several = 0;
    for case in 0..400 {
        let bound = 2 + case % 3;
        let mut opened: Vec<(u32, Release)> = Vec::new();
        for round in 1..40 {
            let mask = 1 + dice.next_u32() % ((1 << 9) - 1);
            let release = release(round, (0..9).filter(|party| mask >> party & 1 == 1));
            let known: Vec<Release> = opened.iter().map(|(_, known)| known.clone()).collect();
            let is_allowed = compare(&known, &release.survivors, by(bound)).is_ok();
            if release.survivors.len() >= bound && is_allowed {
                opened.push((mask, release));
            }
        }
        let sets: BTreeSet<u32> = opened.iter().map(|(mask, _)| *mask).collect();
        several += usize::from(sets.len() > 2);
        assert_tells_no_few(&sets.into_iter().collect::<Vec<_>>(), bound);
    }
    assert!(several > 20, "{several}");
}

/// Combinations of two and of three of these sets.
fn assert_tells_no_few(sets: &[u32], bound: usize) {
    let told = |factors: &[(i32, u32)]| {
        let weight = |party: u32| -> i32 {
            let each = factors.iter();
            each.map(|(factor, set)| factor * (set >> party & 1) as i32)
                .sum()
        };
        (0..9).filter(|party| weight(*party) != 0).count()
    };
    let factors = [-2, -1, 0, 1, 2];
    for (place, a) in sets.iter().enumerate() {
        for (other, b) in sets.iter().enumerate().skip(place + 1) {
            for c in sets.get(other + 1..).unwrap_or_default().iter().chain([a]) {
                for (x, y, z) in factors
                    .into_iter()
                    .flat_map(|x| factors.map(|y| (x, y)))
                    .flat_map(|(x, y)| factors.map(|z| (x, y, z)))
                {
                    let told = told(&[(x, *a), (y, *b), (z, *c)]);
                    assert!(told == 0 || told >= bound, "{a:b} {b:b} {c:b}: {bound}");
                }
            }
        }
    }
}

#[test]
fn case_67_the_bound_is_the_corrupt_parties_and_two_more() {
    let of = |corrupt| {
        let spec = JobSpec {
            protocol: ProtocolName::Mpc3.into(),
            parties: 20,
            corrupt,
            ..JobSpec::default()
        };
        Rule::of(&spec).bound
    };
    assert_eq!(
        [of(0.0), of(0.05), of(0.1), of(0.25)].map(|it| it >= 2),
        [true; 4]
    );
    assert_eq!((of(0.1), of(0.25)), (4, 7));
}

/// What is recorded is written before anything is opened, outlives the process, and is not forgotten while the model stays.
#[test]
fn case_67_releases_outlive_the_process() {
    let job = job(ModelUpdate::Add, ResultName::Both);
    let (releases, disk) = memory(&job, Vec::new());
    releases.record(release(1, 0..10)).unwrap();
    assert_eq!(*disk.lock().unwrap(), [release(1, 0..10)]);
    let kept = disk.lock().unwrap().clone();
    let (again, _) = memory(&job, kept);
    assert_eq!(again.record(release(3, 0..9)).unwrap_err().round, 1);
    // A round that counts leads to another model; that of this one is not forgotten.
    again.counted(&job, 9).unwrap();
    assert!(again.record(release(10, 0..9)).is_err());
    for model in 2..60 {
        let other = Release {
            model: hex(&[model; 32]),
            ..release(10 + u64::from(model), 0..9)
        };
        again.record(other).unwrap();
    }
    assert_eq!(again.kept().len(), MAX_RELEASES);
}

#[test]
fn a_release_that_cannot_be_written_is_none() {
    let job = job(ModelUpdate::Add, ResultName::Both);
    let keep = |_: &[Release]| Err(io::Error::other("no room"));
    let releases = Releases::new(&job, Vec::new(), Box::new(keep));
    let refused = releases.record(release(1, 0..10)).unwrap_err();
    assert_eq!(refused.round, 0);
    assert!(refused.reason.contains("no room"), "{}", refused.reason);
    assert!(releases.kept().is_empty());
}

/// A model has no more releases than the memory has room for: nothing is forgotten for a new one, and repetitions count.
#[test]
fn case_67_a_model_with_as_many_releases_as_there_is_room_for_has_no_other() {
    let job = job(ModelUpdate::Add, ResultName::Both);
    let far = |round: u32| release(round.into(), 100 * round..100 * round + 5);
    let (releases, _) = memory(&job, Vec::new());
    for round in 1..=MAX_RELEASES as u32 {
        releases.record(far(round)).unwrap();
    }
    assert!(releases.record(far(99)).is_err());
    let refused = releases.record(far(98)).unwrap_err();
    assert!(refused.reason.contains("16 results"), "{}", refused.reason);
    // Of the next model nothing is known.
    let next = Release {
        model: hex(&[2; 32]),
        ..far(3)
    };
    releases.record(next).unwrap();
}

/// Each repetition with the same survivors is a release of its own, where it can tell something new: a mean without noise
/// does not.
#[test]
fn case_67_no_result_is_repeated_without_end() {
    let (none, some) = (PrivacyName::NoPrivacy, PrivacyName::DiscreteGaussian);
    for (rule, noise, privacy, repeats) in [
        (RuleName::Median, 0.0, none, MAX_RELEASES),
        (RuleName::FedAvg, 1.0, none, MAX_RELEASES),
        (RuleName::FedAvg, 0.0, some, MAX_RELEASES),
        (RuleName::FedAvg, 0.0, none, 99),
        (RuleName::Weighted, 0.0, none, 99),
    ] {
        let mut spec = job(ModelUpdate::Add, ResultName::Both).spec().clone();
        if let ProtocolChoice::Mpc3(options) = &mut spec.protocol {
            (options.rule, options.noise) = (rule, noise);
        }
        spec.privacy = privacy.into();
        let known =
            |count: u64| -> Vec<Release> { (0..count).map(|it| release(it, 0..10)).collect() };
        let of = Rule::of(&spec);
        assert_eq!(
            of.repetitions_tell,
            repeats == MAX_RELEASES,
            "{rule} {noise}"
        );
        let allowed = (0..99).take_while(|count| compare(&known(*count), &set(0..10), of).is_ok());
        assert_eq!(allowed.count(), repeats, "{rule} {noise}");
    }
    for (rule, kept) in [(RuleName::Median, MAX_RELEASES), (RuleName::FedAvg, 1)] {
        let job = ruled(ModelUpdate::Add, ResultName::Both, rule);
        let (releases, disk) = memory(&job, Vec::new());
        (1..100).for_each(|round| drop(releases.record(release(round, 0..10))));
        assert_eq!(disk.lock().unwrap().len(), kept, "{rule}");
    }
}

/// What cannot be forgotten on the disk is forgotten in the memory of the process, and on the disk with the next one.
#[test]
fn releases_that_cannot_be_removed_restrict_nobody() {
    let job = job(ModelUpdate::Nothing, ResultName::Both);
    let disk = Arc::new(Mutex::new((false, Vec::new())));
    let written = disk.clone();
    let keep = move |releases: &[Release]| {
        let mut disk = written.lock().unwrap();
        match disk.0 {
            true => Err(io::Error::other("no room")),
            false => {
                disk.1 = releases.to_vec();
                Ok(())
            }
        }
    };
    let releases = Releases::new(&job, Vec::new(), Box::new(keep));
    releases.record(release(1, 0..10)).unwrap();
    disk.lock().unwrap().0 = true;
    releases.counted(&job, 1).unwrap_err();
    disk.lock().unwrap().0 = false;
    releases.record(release(2, 0..9)).unwrap();
    assert_eq!(disk.lock().unwrap().1, [release(2, 0..9)]);
}

/// Where the job keeps no model, a round that counts begins anew; nowhere else.
#[test]
fn rounds_without_a_model_begin_anew_when_one_counts() {
    for (update, result, forgets) in [
        (ModelUpdate::Nothing, ResultName::Both, true),
        (ModelUpdate::Nothing, ResultName::Servers, true),
        (ModelUpdate::Nothing, ResultName::Parties, false),
        (ModelUpdate::Add, ResultName::Both, false),
    ] {
        let job = job(update, result);
        let (releases, disk) = memory(&job, vec![release(4, 0..10), release(6, 0..10)]);
        releases.counted(&job, 3).unwrap();
        assert_eq!(disk.lock().unwrap().len(), 2);
        releases.counted(&job, 5).unwrap();
        let left = if forgets { 1 } else { 2 };
        assert_eq!(disk.lock().unwrap().len(), left, "{update:?} {result:?}");
        assert_eq!(
            standing(&job, vec![release(4, 0..10)], 4).is_empty(),
            forgets
        );
    }
}
