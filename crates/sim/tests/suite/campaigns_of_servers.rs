//! Campaigns of jobs whose coordinator computes with two other servers.

use std::ops::ControlFlow;

use blindsum_protocol::{
    Adversary, JobSpec, ModelUpdate, Mpc3, ProtocolName, Quantised, ResultName, RuleName,
};
use blindsum_sim::{Campaign, CampaignError, Kind, Tally, beside_a_liar};

/// Things that happen in a campaign of one kind of job.
const STEPS: u64 = 120_000;

const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

/// A job of three servers that leaves open what updates are.
fn mpc3(adversary: Adversary) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Mpc3.into(),
        adversary,
        parties: 5,
        ..JobSpec::default()
    }
}

fn told_to(result: ResultName) -> Mpc3 {
    Mpc3 {
        result,
        ..Mpc3::default()
    }
}

fn campaign(spec: JobSpec, seed: u64, kinds: &[Kind]) -> Tally {
    let adversary = spec.adversary;
    let campaign = Campaign {
        kinds: kinds.to_vec(),
        ..Campaign::new(spec, STEPS, seed)
    };
    match campaign.run(&mut |_| ControlFlow::Continue(())) {
        Ok(tally) => tally,
        Err(CampaignError::Broken(broken)) => {
            let story = broken.story.join("\n");
            panic!("{adversary}: {broken}\n{story}");
        }
        Err(error) => panic!("{adversary}: {error}"),
    }
}

/// What was meant to go wrong did.
fn assert_everything(tally: &Tally) {
    let (steps, rounds) = (tally.steps, tally.rounds);
    assert!(
        steps >= STEPS && tally.episodes > 40 && rounds > 150,
        "{tally:?}"
    );
    assert!(tally.kills > 150 && tally.cuts > 500, "{tally:?}");
    assert!(tally.rollbacks > 5 && tally.lies > 50, "{tally:?}");
}

#[test]
fn case_54_campaign_of_mpc3() {
    for adversary in BOTH {
        let tally = campaign(mpc3(adversary), 1, &Kind::ALL);
        assert_everything(&tally);
        assert!(
            tally.restored > 5 && tally.results > 4 * tally.rounds,
            "{tally:?}"
        );
    }
}

/// No server learns a result, and parties pass the model on.
#[test]
fn case_54_campaign_of_results_for_parties() {
    for adversary in BOTH {
        let spec = JobSpec {
            protocol: told_to(ResultName::Parties).into(),
            ..mpc3(adversary)
        };
        assert_everything(&campaign(spec, 1, &Kind::ALL));
    }
}

/// The three servers alone learn results: what each of them keeps is the sum of what the survivors gave.
#[test]
fn case_54_campaign_of_results_for_servers() {
    for adversary in BOTH {
        let spec = JobSpec {
            protocol: told_to(ResultName::Servers).into(),
            model_update: ModelUpdate::Nothing,
            ..mpc3(adversary)
        };
        assert_everything(&campaign(spec, 1, &Kind::ALL));
    }
}

#[test]
fn case_54_campaign_of_weights() {
    let weighted = Mpc3 {
        rule: RuleName::Weighted,
        ..Mpc3::default()
    };
    let spec = JobSpec {
        protocol: weighted.into(),
        encoding: Quantised {
            max_weight: 5,
            ..Quantised::default()
        }
        .into(),
        ..mpc3(Adversary::Active)
    };
    assert_everything(&campaign(spec, 1, &Kind::ALL));
}

/// Abuse case 52: one member gives each server what it likes: the job comes to its end.
#[test]
fn case_52_campaign_of_mpc3_with_a_liar() {
    for adversary in BOTH {
        let tally = campaign(mpc3(adversary), 1, &[Kind::Liar]);
        assert!(tally.lies > 300 && tally.rounds > 200, "{tally:?}");
    }
}

/// Abuse case 45: the coordinator tells parties and servers what it likes, also in letters: nobody tells a result that it did
/// not announce, or begins a round with fewer than the job allows.
#[test]
fn case_45_campaign_of_mpc3_with_a_lying_coordinator() {
    for adversary in BOTH {
        let tally = campaign(mpc3(adversary), 1, &[Kind::LyingServer]);
        assert!(tally.lies > 1000, "{tally:?}");
    }
}

/// Abuse case 3: a server that was killed in a round is not in it again, though a lying coordinator begins it once more.
#[test]
fn case_03_campaign_of_rounds_that_begin_again() {
    for adversary in BOTH {
        let tally = campaign(mpc3(adversary), 10_000, &[Kind::LyingServer]);
        assert!(tally.kills > 50 && tally.lies > 1000, "{tally:?}");
    }
}

/// Abuse case 48: servers and parties come back with older records: no server is in a round again.
#[test]
fn case_48_campaign_of_servers_with_old_records() {
    for adversary in BOTH {
        let tally = campaign(mpc3(adversary), 1, &[Kind::Rollback]);
        assert!(tally.rollbacks > 20, "{tally:?}");
    }
}

/// Abuse case 60: the coordinator comes back with a store from a backup, and goes on with the other two.
#[test]
fn case_60_campaign_of_mpc3_with_restored_stores() {
    for adversary in BOTH {
        let tally = campaign(mpc3(adversary), 10_000, &[Kind::Rollback]);
        assert!(tally.restored > 20, "{tally:?}");
    }
}

/// Abuse case 55: lines between servers and connections of parties break all the time.
#[test]
fn case_55_campaign_of_broken_lines() {
    for adversary in BOTH {
        let tally = campaign(mpc3(adversary), 1, &[Kind::Storm]);
        assert!(tally.cuts > 1000, "{tally:?}");
    }
}

/// Abuse case 52: beside ten honest parties one that lies spoils at most one round of ten.
#[test]
fn case_52_beside_ten_honest_parties_of_mpc3() {
    for (adversary, lie) in [(BOTH[0], 0.5), (BOTH[1], 0.1), (BOTH[1], 1.0)] {
        let spec = JobSpec {
            parties: 11,
            rounds: 40,
            dim: 4,
            ..mpc3(adversary)
        };
        let tally = beside_a_liar(&spec, lie, 1).unwrap_or_else(|e| panic!("{adversary}: {e}"));
        assert_eq!(tally.rounds, 40);
        assert!(tally.lies > 5 && tally.spoilt <= 4, "{lie}: {tally:?}");
    }
}

/// Rules that are no sums: what parties and servers are told is what the rule makes of vectors in the clear, within its
/// error.
fn of_rules(adversary: Adversary, steps: u64) {
    for rule in RuleName::ALL.iter().copied() {
        if matches!(rule, RuleName::FedAvg | RuleName::Weighted) {
            continue;
        }
        let protocol = Mpc3 {
            rule,
            ..Mpc3::default()
        };
        let spec = JobSpec {
            protocol: protocol.into(),
            ..mpc3(adversary)
        };
        let campaign = Campaign::new(spec, steps, 1);
        match campaign.run(&mut |_| ControlFlow::Continue(())) {
            Ok(tally) => assert!(tally.rounds > 10, "{rule}: {tally:?}"),
            Err(error) => panic!("{adversary}, {rule}: {error}"),
        }
    }
}

#[test]
fn case_54_campaign_of_rules() {
    of_rules(Adversary::SemiHonest, 50_000);
}

#[test]
fn case_54_campaign_of_rules_with_an_active_adversary() {
    of_rules(Adversary::Active, 25_000);
}

#[test]
fn case_54_campaign_of_noise() {
    let protocol = Mpc3 {
        rule: RuleName::Clipped,
        noise: 0.5,
        ..Mpc3::default()
    };
    let spec = JobSpec {
        protocol: protocol.into(),
        ..mpc3(Adversary::SemiHonest)
    };
    assert!(campaign(spec, 1, &Kind::ALL).rounds > 50);
}
