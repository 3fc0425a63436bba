//! How much work liars can cause, counted in decodings, and who is named.

use blindsum_math::field::Field;
use blindsum_math::field61::Field61;
use blindsum_sharing::share;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::*;
use crate::protocols::secagg::graph_of;
use crate::protocols::secagg::server::masked_sum::Commitments;
use crate::testing::{Cohort, parties};
use crate::{JobSpec, PartySet};

/// The last stage of a round on the complete graph in which everybody survived.
struct Revealed {
    common: Common,
    masked: MaskedSum,
    seeds: Vec<[u8; 32]>,
    shares: BTreeMap<PartyId, HeldShares>,
}

impl Revealed {
    fn new(n: u32) -> Self {
        let spec = JobSpec {
            protocol: crate::ProtocolName::SecAgg.into(),
            parties: n,
            dim: 1,
            ..JobSpec::default()
        };
        let round = Cohort::new(spec, 3).round;
        let common = Common {
            graph: graph_of(&round).into(),
            round: round.clone(),
        };
        let rng = &mut ChaCha20Rng::seed_from_u64(5);
        let threshold = common.graph.parameters().threshold();
        let points = points_of(&parties(0..n).collect::<Vec<_>>()).unwrap();
        let seeds: Vec<[u8; 32]> = (0..n).map(|owner| [owner as u8; 32]).collect();
        let deal = |(owner, seed): (PartyId, &[u8; 32])| {
            let shares = share(seed, threshold, &points, rng).unwrap();
            (owner, parties(0..n).zip(shares).collect())
        };
        let shares = parties(0..n).zip(&seeds).map(deal).collect();
        let commit = |(owner, seed)| (owner, commit_seed(round.context(), owner, seed));
        let masked = MaskedSum {
            sum: round.job().zeros(),
            shared: parties(0..n).collect(),
            survivors: PartySet::of(n as usize, parties(0..n)),
            commitments: Commitments {
                mask_keys: BTreeMap::new(),
                seeds: parties(0..n).zip(&seeds).map(commit).collect(),
            },
        };
        Self {
            common,
            masked,
            seeds,
            shares,
        }
    }

    /// A share that is wrong, whoever is to blame for it.
    fn spoil(&mut self, owner: u32, holder: u32) {
        let held = self.shares.get_mut(&PartyId(owner)).unwrap();
        let share = held.get_mut(&PartyId(holder)).unwrap();
        let mut bytes = share.to_bytes().to_vec();
        let value = Field61::read_from(&bytes[..8]).unwrap() + Field61::ONE;
        value.write_to(&mut bytes[..8]);
        *share = Share::parse(&bytes).unwrap();
    }

    /// Wrong shares that can be corrected: ⌊(n − t)/2⌋.
    fn correctable(&self) -> u32 {
        let n = self.shares.len();
        ((n - self.common.graph.parameters().threshold()) / 2) as u32
    }

    /// The decodings that rebuilding takes, and the faults; every secret comes out right.
    fn rebuild(&self) -> (usize, Vec<Fault>) {
        let mut recovery = Recovery::new(&self.common, &self.masked, &self.shares);
        let secrets = recovery.rebuild().unwrap();
        let rebuilt = secrets.seeds.values().map(|seed| *seed.expose());
        assert!(rebuilt.eq(self.seeds.iter().copied()));
        // Every decoding accuses somebody.
        let accusers: BTreeSet<&PartyId> = recovery.accused.values().flatten().collect();
        (accusers.len(), recovery.faults())
    }
}

/// Who is named, each by one fault.
fn named(faults: &[Fault]) -> Vec<u32> {
    let holder = |fault: &Fault| match fault.culprit {
        Culprit::Party(holder) | Culprit::OneOf(holder, _) => holder.0,
        _ => panic!("{fault}"),
    };
    faults.iter().map(holder).collect()
}

#[test]
fn nothing_is_decoded_where_nobody_lies() {
    assert_eq!(Revealed::new(40).rebuild(), (0, Vec::new()));
}

/// Case 51: one liar, and as many as can be corrected, with a wrong share for every owner.
#[test]
fn case_51_liars_about_every_owner_cost_one_decoding() {
    for n in [10, 300] {
        let most = Revealed::new(n).correctable();
        for liars in [1, most] {
            let mut revealed = Revealed::new(n);
            for owner in 0..n {
                (0..liars).for_each(|liar| revealed.spoil(owner, 2 * liar));
            }
            let (decodings, faults) = revealed.rebuild();
            assert_eq!(decodings, 1, "{liars} liars of {n}");
            let expected: Vec<u32> = (0..liars).map(|liar| 2 * liar).collect();
            assert_eq!(named(&faults), expected);
        }
    }
}

/// Case 51: where one share more is there than is needed, decoding corrects nothing. What the owners published tells
/// who lies all the same.
#[test]
fn case_51_a_liar_beyond_what_decoding_corrects_is_found() {
    for liar in 0..5 {
        let mut revealed = Revealed::new(5);
        assert_eq!(revealed.correctable(), 0);
        (0..5).for_each(|owner| revealed.spoil(owner, liar));
        let (searches, faults) = revealed.rebuild();
        assert_eq!(
            (searches, named(&faults)),
            (usize::from(liar < 4), [liar].repeat(usize::from(liar < 4)))
        );
    }
}

/// Case 51: a secret of which too few shares are right ends the round, also where all ways to leave some out are too
/// many to try.
#[test]
fn case_51_too_many_liars_end_the_round() {
    for n in [5, 60] {
        let mut revealed = Revealed::new(n);
        (0..n)
            .step_by(2)
            .for_each(|holder| revealed.spoil(1, holder));
        let mut recovery = Recovery::new(&revealed.common, &revealed.masked, &revealed.shares);
        let fault = recovery.rebuild().err().unwrap();
        assert_eq!(fault.kind, FaultKind::BadShares { owner: PartyId(1) });
    }
}

/// Case 51: liars who take turns cost one decoding each.
#[test]
fn case_51_liars_about_some_owners_cost_one_decoding_each() {
    let (n, liars) = (100, 16);
    let mut revealed = Revealed::new(n);
    for owner in 0..n {
        revealed.spoil(owner, owner % liars);
    }
    let (decodings, faults) = revealed.rebuild();
    assert_eq!(decodings, liars as usize);
    assert_eq!(named(&faults), (0..liars).collect::<Vec<_>>());
}

/// Case 51: owners that deal wrong shares cost one decoding each, however many honest holders they accuse, even
/// all of them together: the accused are taken again, and those whom fewest accused first.
#[test]
fn case_51_lying_owners_cost_one_decoding_each() {
    let (n, dealers) = (100, 10);
    let mut revealed = Revealed::new(n);
    let each = revealed.correctable();
    assert!(each * dealers > n, "everybody is accused");
    for dealer in 0..dealers {
        // Owners further on would lack t holders that nobody accused.
        let owner = 5 * dealer;
        (0..each).for_each(|i| revealed.spoil(owner, (dealer * each + i) % n));
    }
    let (decodings, faults) = revealed.rebuild();
    assert!(decodings <= dealers as usize, "{decodings} decodings");
    assert!(faults.len() <= n as usize);
    let innocent = |fault: &Fault| match fault.culprit {
        Culprit::Party(party) => party.0 % 5 != 0,
        Culprit::OneOf(_, owner) => owner.0 % 5 != 0 || owner.0 >= 5 * dealers,
        _ => true,
    };
    assert!(!faults.iter().any(innocent), "{faults:?}");
}

/// Case 51: owners accuse as many honest holders as they can, and then liars lie: no more decodings than owners,
/// and far fewer here.
#[test]
fn case_51_lying_owners_and_liars_together() {
    let (n, dealers, liars) = (100, 5, 5);
    let mut revealed = Revealed::new(n);
    let each = revealed.correctable();
    for owner in 0..dealers {
        (0..each).for_each(|i| revealed.spoil(owner, 10 + (owner * each + i) % (n - 10)));
    }
    for owner in dealers..n {
        revealed.spoil(owner, dealers + owner % liars);
    }
    let (decodings, faults) = revealed.rebuild();
    assert!(
        decodings <= (dealers + 2 * liars) as usize,
        "{decodings} decodings"
    );
    let named = named(&faults);
    assert!((dealers..dealers + liars).all(|liar| named.contains(&liar)));
}

/// A wrong share of a party's own secret is nobody else's fault.
#[test]
fn who_spoils_its_own_share_is_named_alone() {
    let mut revealed = Revealed::new(10);
    revealed.spoil(2, 2);
    let (decodings, faults) = revealed.rebuild();
    let owner = PartyId(2);
    let expected = Fault::party(owner, FaultKind::WrongShare { owner });
    assert_eq!((decodings, faults), (1, vec![expected]));
}

/// Where fewer than t shares are right the round ends with the first owner's name.
#[test]
fn more_liars_than_shares_to_spare() {
    let mut revealed = Revealed::new(30);
    let threshold = revealed.common.graph.parameters().threshold() as u32;
    for liar in 0..=30 - threshold {
        revealed.spoil(7, liar);
        revealed.spoil(20, liar);
    }
    let mut recovery = Recovery::new(&revealed.common, &revealed.masked, &revealed.shares);
    let owner = PartyId(7);
    let expected = Fault::nobody(FaultKind::BadShares { owner });
    assert_eq!(recovery.rebuild().err(), Some(expected));
}

/// Faults and secrets are the same on any number of threads.
#[test]
fn case_51_threads_do_not_matter() {
    let mut revealed = Revealed::new(60);
    for owner in 0..60 {
        revealed.spoil(owner, owner % 7);
    }
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| revealed.rebuild())
    };
    assert_eq!(on(1), on(5));
}
