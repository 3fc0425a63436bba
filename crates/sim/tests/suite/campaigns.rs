//! Whole jobs in which everything goes wrong that may: see the documentation of [`Campaign`].

use std::ops::ControlFlow;

use blindsum_protocol::{
    Adversary, Clipping, Flashe, Integers, JobSpec, ModelUpdate, ProtocolName, Quantised,
    RoundingName,
};
use blindsum_sim::{Campaign, CampaignError, Kind, Tally, beside_a_liar};

/// Things that happen in a campaign of one protocol.
const STEPS: u64 = 100_000;

/// A campaign of jobs of integers.
fn campaign(protocol: ProtocolName, seed: u64, kinds: &[Kind]) -> Tally {
    let spec = JobSpec {
        protocol: protocol.into(),
        encoding: Integers {
            bits: 8,
            ..Integers::default()
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        ..JobSpec::default()
    };
    campaign_of(spec, seed, kinds)
}

fn campaign_of(spec: JobSpec, seed: u64, kinds: &[Kind]) -> Tally {
    let protocol = spec.protocol.name();
    let campaign = Campaign {
        kinds: kinds.to_vec(),
        ..Campaign::new(spec, STEPS, seed)
    };
    match campaign.run(&mut |_| ControlFlow::Continue(())) {
        Ok(tally) => tally,
        Err(CampaignError::Broken(broken)) => {
            let story = broken.story.join("\n");
            panic!("{protocol}: {broken}\n{story}");
        }
        Err(error) => panic!("{protocol}: {error}"),
    }
}

/// All of it for one protocol.
fn everything(protocol: ProtocolName) {
    let tally = campaign(protocol, 1, &Kind::ALL);
    // What was meant to go wrong did.
    assert!(tally.steps >= STEPS && tally.episodes > 50 && tally.rounds > 180);
    assert!(tally.kills > 100 && tally.cuts > 100 && tally.rollbacks > 5 && tally.lies > 20);
    assert!(tally.results > 2 * tally.rounds && tally.leases > 50 && tally.ended > 20);
}

#[test]
fn case_54_campaign_of_plain() {
    everything(ProtocolName::Plain);
}

#[test]
fn case_54_campaign_of_secagg() {
    everything(ProtocolName::SecAgg);
}

#[test]
fn case_54_campaign_of_secagg_plus() {
    everything(ProtocolName::SecAggPlus);
}

#[test]
fn case_54_campaign_of_fssa() {
    everything(ProtocolName::Fssa);
}

#[test]
fn case_54_campaign_of_pss() {
    everything(ProtocolName::Pss);
}

#[test]
fn case_54_campaign_of_flashe() {
    everything(ProtocolName::Flashe);
}

/// With bounds of coordinates and of norms, as they are drawn.
#[test]
fn case_54_campaign_of_pss_malicious() {
    let spec = JobSpec {
        protocol: ProtocolName::PssMalicious.into(),
        ..JobSpec::default()
    };
    let tally = campaign_of(spec, 1, &Kind::ALL);
    assert!(tally.steps >= STEPS && tally.episodes > 30 && tally.rounds > 100);
    assert!(tally.kills > 100 && tally.cuts > 100 && tally.rollbacks > 5 && tally.lies > 20);
}

/// Where a stage is played only in a dispute: a coordinator that is killed twice in a round does not send a survivor the
/// last message without the verdict before it.
#[test]
fn case_54_campaign_of_rounds_with_disputes() {
    let spec = JobSpec {
        protocol: ProtocolName::PssMalicious.into(),
        adversary: Adversary::SemiHonest,
        parties: 5,
        ..JobSpec::default()
    };
    let tally = campaign_of(spec, 1, &Kind::ALL);
    assert!(tally.steps >= STEPS && tally.kills > 100 && tally.lies > 20);
}

/// Abuse case 52: one member says whatever it likes: the job comes to its end, and everybody else is told every sum.
#[test]
fn case_52_campaign_with_a_liar() {
    let tally = campaign(ProtocolName::SecAggPlus, 1, &[Kind::Liar]);
    assert!(tally.lies > 100, "{tally:?}");
}

/// Abuse case 45: the coordinator says what it likes, and repeats itself: nobody tells a result that it did not announce.
#[test]
fn case_45_campaign_with_a_lying_coordinator() {
    let tally = campaign(ProtocolName::SecAgg, 1, &[Kind::LyingServer]);
    assert!(tally.lies > 200, "{tally:?}");
}

/// Abuse case 12: however few it says a round has, nobody begins it with fewer than the job allows.
#[test]
fn case_12_campaign_with_a_lying_coordinator() {
    let tally = campaign(ProtocolName::Pss, 1, &[Kind::LyingServer]);
    assert!(tally.lies > 200, "{tally:?}");
}

/// Abuse case 52: beside ten honest parties one that lies all the time, or now and then, spoils few rounds: who opens no
/// nonce sits out 1, 2, 4, 8 and then 16 rounds, so that five rounds of 45 come to nothing.
/// `cargo bench -p blindsum-sim --bench liar` measures it over more rounds.
fn beside_ten_honest_parties(protocol: ProtocolName) {
    for lie in [0.1, 0.5, 1.0] {
        let spec = JobSpec {
            protocol: protocol.into(),
            parties: 11,
            rounds: 40,
            dim: 4,
            ..JobSpec::default()
        };
        let tally = match beside_a_liar(&spec, lie, 1) {
            Ok(tally) => tally,
            Err(error) => panic!("{protocol}, {lie}: {error}"),
        };
        assert_eq!(tally.rounds, 40);
        assert!(tally.lies + tally.shown > 5, "{tally:?}");
        assert!(tally.spoilt <= 5, "{protocol}, {lie}: {tally:?}");
    }
}

#[test]
fn case_52_beside_ten_honest_parties_of_secagg() {
    beside_ten_honest_parties(ProtocolName::SecAgg);
}

/// It may end rounds whose graph does not suit it.
#[test]
fn case_52_beside_ten_honest_parties_of_secagg_plus() {
    beside_ten_honest_parties(ProtocolName::SecAggPlus);
}

#[test]
fn case_52_beside_ten_honest_parties_of_pss() {
    beside_ten_honest_parties(ProtocolName::Pss);
}

/// One machine lies in every round that it takes part in, in each of the ways that there are: it is found out, what shows that
/// is kept, and no round is lost.
#[test]
fn case_57_what_shows_a_lie_of_pss_malicious_is_kept() {
    let spec = JobSpec {
        protocol: ProtocolName::PssMalicious.into(),
        parties: 11,
        rounds: 15,
        dim: 4,
        ..JobSpec::default()
    };
    let tallies: Vec<Tally> = (0..9)
        .map(|seed| match beside_a_liar(&spec, 0.0, seed) {
            Ok(tally) => tally,
            Err(error) => panic!("seed {seed}: {error}"),
        })
        .collect();
    assert!(
        tallies
            .iter()
            .all(|tally| (tally.rounds, tally.spoilt) == (15, 0)),
        "{tallies:?}"
    );
    // Nothing shows that a party is silent.
    let shown = tallies.iter().filter(|tally| tally.shown > 0);
    assert_eq!(shown.count(), 8, "{tallies:?}");
}

#[test]
fn case_52_beside_ten_honest_parties_of_pss_malicious() {
    beside_ten_honest_parties(ProtocolName::PssMalicious);
}

/// Abuse case 55: connections break all the time, while parties train and while they do not.
#[test]
fn case_55_campaign_of_broken_links() {
    let tally = campaign(ProtocolName::SecAgg, 1, &[Kind::Storm]);
    assert!(tally.cuts > 500, "{tally:?}");
}

/// Abuse case 60: the coordinator comes back with a store from a backup, and goes on.
#[test]
fn case_60_campaign_of_restored_stores() {
    let tally = campaign(ProtocolName::Plain, 1, &[Kind::Rollback]);
    assert!(tally.restored > 10, "{tally:?}");
}

/// The same seed gives the same campaign, to the last draw; another one gives another.
#[test]
fn a_campaign_is_replayed_by_its_seed() {
    let spec = JobSpec {
        protocol: ProtocolName::Flashe.into(),
        ..JobSpec::default()
    };
    let run = |seed| {
        let campaign = Campaign::new(spec.clone(), 3000, seed);
        campaign.run(&mut |_| ControlFlow::Continue(())).unwrap()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// What a job of these is about is drawn: encodings, models, sparse rounds.
fn of_all_contents(protocol: ProtocolName, kinds: &[Kind]) -> Tally {
    let spec = JobSpec {
        protocol: protocol.into(),
        ..JobSpec::default()
    };
    campaign_of(spec, 1, kinds)
}

#[test]
fn case_54_campaign_of_all_contents() {
    let tally = of_all_contents(ProtocolName::Fssa, &Kind::ALL);
    assert!(tally.rounds > 180 && tally.restored > 5, "{tally:?}");
}

/// Only parties have the model: it comes sealed from one to another.
#[test]
fn case_54_campaign_of_all_contents_of_flashe() {
    let tally = of_all_contents(ProtocolName::Flashe, &Kind::ALL);
    assert!(tally.rounds > 200, "{tally:?}");
}

/// A model that sums are added to, which bounds follow from.
#[test]
fn case_54_campaign_of_models() {
    let spec = JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        encoding: Quantised {
            clipping: Clipping::Aciq,
            rounding: RoundingName::Nearest,
            ..Quantised::default()
        }
        .into(),
        ..JobSpec::default()
    };
    let tally = campaign_of(spec, 1, &Kind::ALL);
    assert!(tally.rounds > 180 && tally.restored > 5, "{tally:?}");
}

/// What a party has not sent is neither lost nor sent twice.
#[test]
fn case_54_campaign_of_sparse_rounds() {
    let protocol = Flashe {
        density: 0.5,
        ..Flashe::default()
    };
    let spec = JobSpec {
        protocol: protocol.into(),
        encoding: Quantised {
            rounding: RoundingName::Nearest,
            ..Quantised::default()
        }
        .into(),
        ..JobSpec::default()
    };
    let tally = campaign_of(spec, 1, &Kind::ALL);
    assert!(tally.rounds > 200 && tally.rollbacks > 5, "{tally:?}");
}

/// Abuse case 11: the coordinator hands out whatever it likes: nobody takes another model than was named to it.
#[test]
fn case_11_campaign_with_a_lying_coordinator() {
    let tally = of_all_contents(ProtocolName::SecAgg, &[Kind::LyingServer]);
    assert!(tally.lies > 200, "{tally:?}");
}

/// A key set-up of which only one party heard the end leaves it with a key that nobody else holds: it waits for a model that
/// nobody can seal for it, and nobody waits for it. Episodes in which everybody did.
#[test]
fn case_54_campaign_of_a_key_that_nobody_else_holds() {
    let protocol = Flashe {
        density: 0.25,
        density_start: 0.75,
        density_steps: 3,
        min_contributors: 3,
        key_rounds: 1,
        ..Flashe::default()
    };
    let sparse = JobSpec {
        protocol: protocol.into(),
        encoding: Quantised {
            clip: 0.3,
            clipping: Clipping::Aciq,
            ..Quantised::default()
        }
        .into(),
        ..JobSpec::default()
    };
    let drawn = JobSpec {
        protocol: ProtocolName::Flashe.into(),
        ..JobSpec::default()
    };
    for (spec, seed) in [(sparse, 1236), (drawn, 1435)] {
        let episode = Campaign::new(spec, 1, seed);
        let tally = episode.run(&mut |_| ControlFlow::Continue(()));
        assert!(
            tally.is_ok(),
            "{:?}",
            tally.err().map(|error| error.to_string())
        );
    }
}

/// What honest parties of hidden models were refused, or lost, for good: one whose word that it is ready without the model
/// was on its way, and the only one with the latest model, killed between two records of it.
#[test]
fn case_54_campaign_of_models_that_are_nearly_lost() {
    let keys = Flashe {
        key_rounds: 2,
        ..Flashe::default()
    };
    let keys = JobSpec {
        protocol: keys.into(),
        ..JobSpec::default()
    };
    let drawn = JobSpec {
        protocol: ProtocolName::Flashe.into(),
        ..JobSpec::default()
    };
    let sparse = Flashe {
        density: 0.5,
        min_contributors: 2,
        ..Flashe::default()
    };
    let sparse = JobSpec {
        protocol: sparse.into(),
        parties: 5,
        dim: 10,
        encoding: Quantised {
            rounding: RoundingName::Nearest,
            ..Quantised::default()
        }
        .into(),
        ..JobSpec::default()
    };
    for (spec, seed) in [(drawn, 50_515), (keys, 50_515), (sparse, 31_126)] {
        let episode = Campaign::new(spec, 1, seed);
        let tally = episode.run(&mut |_| ControlFlow::Continue(()));
        assert!(
            tally.is_ok(),
            "{seed}: {:?}",
            tally.err().map(|error| error.to_string())
        );
    }
}

/// The coordinator forgets a round with its model, and other parties play one with the same number: it is a new one, of
/// which everything is promised. An episode in which they did.
#[test]
fn case_60_campaign_of_a_number_that_is_used_again() {
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        parties: 5,
        dim: 10,
        ..JobSpec::default()
    };
    let episode = Campaign::new(spec, 1, 70355);
    let tally = episode.run(&mut |_| ControlFlow::Continue(()));
    assert!(
        tally.is_ok(),
        "{:?}",
        tally.err().map(|error| error.to_string())
    );
}
