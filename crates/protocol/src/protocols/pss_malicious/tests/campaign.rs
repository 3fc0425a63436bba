//! Rounds at random: up to c liars of all kinds, losses at any stage. Every round ends with the exact sum of a set that has
//! all honest parties that stayed, or without a sum and for want of parties; nobody honest is ever named.

use super::*;

/// Rounds that `make test` plays; the environment variable `BLINDSUM_CAMPAIGN_ROUNDS` plays another number.
const ROUNDS: u64 = 600;

fn pick(rng: &mut ChaCha20Rng, below: u64) -> u64 {
    rng.next_u64() % below
}

fn some_victims(rng: &mut ChaCha20Rng, most: u64) -> Vec<PartyId> {
    let count = 1 + pick(rng, most);
    let mut victims: Vec<PartyId> = (0..count).map(|_| PartyId(pick(rng, 12) as u32)).collect();
    victims.sort_unstable();
    victims.dedup();
    victims
}

fn some_lie(rng: &mut ChaCha20Rng) -> Deviation {
    match pick(rng, 15) {
        0 => Deviation::BadDegree,
        1 => Deviation::NonBit,
        2 => Deviation::WrongSquare,
        3 => Deviation::OutOfBound,
        4 => Deviation::CancellingPair,
        5 => Deviation::WrongNorm,
        6 => Deviation::WrongShare(some_victims(rng, 5)),
        7 => Deviation::Rubbish(some_victims(rng, 5)),
        8 => Deviation::SilentDiscloser(some_victims(rng, 2)),
        9 => Deviation::LyingVerifier,
        10 => Deviation::MassAccuser,
        11 => Deviation::FalseAccuser(some_victims(rng, 5)),
        13 => Deviation::NoColumn(some_victims(rng, 5)),
        12 => Deviation::OtherWords(some_victims(rng, 5)),
        _ => Deviation::LyingAggregator,
    }
}

fn play(seed: u64) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let adversary = match pick(&mut rng, 2) {
        0 => Adversary::SemiHonest,
        _ => Adversary::Active,
    };
    let lies: Vec<(u32, Deviation)> = (0..pick(&mut rng, 3))
        .map(|_| (pick(&mut rng, 12) as u32, some_lie(&mut rng)))
        .collect();
    let [entries, norm] = specs(adversary);
    let mut spec = match pick(&mut rng, 2) {
        0 => entries,
        _ => norm,
    };
    spec.min_parties = [0, 0, 11][pick(&mut rng, 3) as usize];
    let mut rig = rig(spec, seed, &lies);
    let liars: Vec<u32> = lies.iter().map(|(liar, _)| *liar).collect();
    let losses = pick(&mut rng, 3);
    let lost: Vec<(u64, u32)> = (0..losses)
        .map(|_| (pick(&mut rng, 7), pick(&mut rng, 12) as u32))
        .collect();
    let what = format!("seed {seed}: {lies:?}, lost {lost:?}");
    let mut stage = 0;
    let ended = loop {
        let gone = lost
            .iter()
            .filter(|(at, _)| *at == stage)
            .map(|(_, party)| *party);
        rig.drop_out(parties(gone));
        if let Err(fault) = rig.serve() {
            break Err(fault);
        }
        for party in rig.down.keys().copied().collect::<Vec<_>>() {
            if rig.clients.contains_key(&party)
                && let Err(fault) = rig.answer(party)
            {
                // Honest parties find nothing wrong with an honest coordinator.
                assert!(liars.contains(&party.0), "{what}: {party}: {fault}");
                rig.drop_out([party]);
            }
        }
        if let Some(outcome) = rig.outcome.take() {
            break Ok(outcome);
        }
        stage += 1;
    };
    let is_lost = |party: u32| lost.iter().any(|(_, of)| *of == party);
    match ended {
        Ok(outcome) => {
            assert_eq!(
                outcome.sum,
                Some(rig.cohort.sum_of(outcome.survivors.iter())),
                "{what}"
            );
            for (party, _) in found(&outcome) {
                // An accused prover that is lost shows nothing, and is no liar for that.
                let silent = outcome.faults.iter().any(|fault| {
                    fault.culprit == Culprit::Party(PartyId(party))
                        && fault.kind == FaultKind::Unshown
                });
                assert!(
                    liars.contains(&party) || silent && is_lost(party),
                    "{what}: {party} is named"
                );
            }
            for party in rig.cohort.round.everyone() {
                let stayed = !liars.contains(&party.0) && !is_lost(party.0);
                assert!(
                    !stayed || outcome.survivors.contains(party),
                    "{what}: {party} is left out"
                );
            }
            let invalid = lies.iter().filter(|(_, lie)| {
                matches!(
                    lie,
                    Deviation::BadDegree
                        | Deviation::NonBit
                        | Deviation::WrongSquare
                        | Deviation::OutOfBound
                        | Deviation::CancellingPair
                        | Deviation::WrongNorm
                )
            });
            for (liar, lie) in invalid {
                // The last lie of a party counts.
                let counts = lies
                    .iter()
                    .rfind(|(party, _)| party == liar)
                    .is_some_and(|last| last.1 == *lie);
                assert!(
                    !counts || !outcome.survivors.contains(PartyId(*liar)),
                    "{what}: {liar} is summed"
                );
            }
        }
        Err(fault) => {
            for found in fault.found() {
                let Culprit::Party(party) = found.culprit else {
                    panic!("{what}: {found}");
                };
                let silent = found.kind == FaultKind::Unshown && is_lost(party.0);
                assert!(
                    silent || liars.contains(&party.0),
                    "{what}: {party} is named"
                );
            }
            match fault.kind {
                FaultKind::TooFewSurvivors { .. } => assert!(!lost.is_empty(), "{what}: {fault}"),
                FaultKind::TooFewHonest { .. } => assert!(!fault.found().is_empty(), "{what}"),
                _ => panic!("{what}: {fault}"),
            }
        }
    }
}

#[test]
fn random_lies_and_losses_end_in_exact_sums_or_for_want_of_parties() {
    let asked = std::env::var("BLINDSUM_CAMPAIGN_ROUNDS").ok();
    let rounds = asked.map_or(ROUNDS, |asked| asked.parse().expect("a number of rounds"));
    (0..rounds).for_each(play);
}
