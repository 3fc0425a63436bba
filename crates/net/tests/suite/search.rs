//! A coordinator that searches for a job which isolates a party: over all fields at random, over rosters and graphs,
//! with as many corrupt parties as the party's policy assumes.

use std::collections::BTreeSet;

use blindsum_crypto::kdf::{self, Context};
use blindsum_net::party::Policy;
use blindsum_protocol::{
    Adversary, AggregationGraph, EncodingName, Flashe, Fssa, GraphParameters, Job, JobSpec,
    Masking, ModelUpdate, PartyId, ProtocolChoice, ProtocolName, Pss, SecAgg, SecAggPlus,
};
use proptest::prelude::*;

/// Parties of a round, by rank.
type Set = Vec<bool>;

fn count(set: &Set) -> usize {
    set.iter().filter(|&&member| member).count()
}

/// What the coordinator can do in one round of `secagg` or `secagg+`: it knows the graph and who is corrupt, and says
/// who was lost.
struct Search {
    /// The neighbours of each party and itself.
    holders: Vec<Vec<usize>>,
    corrupt: Set,
    threshold: usize,
    /// Fewest survivors.
    least: usize,
}

impl Search {
    fn new(graph: &AggregationGraph, corrupt: Set, least: usize) -> Self {
        let holders = |rank: u32| {
            let neighbours = graph.neighbours(PartyId(rank)).into_iter();
            neighbours
                .map(|party| party.0 as usize)
                .chain([rank as usize])
                .collect()
        };
        Self {
            holders: (0..corrupt.len() as u32).map(holders).collect(),
            corrupt,
            threshold: graph.parameters().threshold(),
            least,
        }
    }

    fn holding(&self, owner: usize, set: &Set) -> usize {
        self.holders[owner]
            .iter()
            .filter(|&&holder| set[holder])
            .count()
    }

    /// Whether these survivors open the sum of `piece` alone: the seeds of its parties are rebuilt, and the mask keys
    /// of everybody beside it, who are all said to be lost or are corrupt.
    fn opens(&self, piece: &Set, survivors: &Set, lost: &Set) -> bool {
        let answers: Set = (0..survivors.len())
            .map(|party| {
                self.corrupt[party]
                    || (survivors[party] && self.holding(party, survivors) >= self.threshold)
            })
            .collect();
        let owners = (0..piece.len()).filter(|&owner| piece[owner] || lost[owner]);
        let rebuilt = |owner| self.holding(owner, &answers) >= self.threshold;
        count(survivors) >= self.least && owners.into_iter().all(rebuilt)
    }

    /// How many honest parties' sum is open, fewer than survive: a piece grown from one of them by whoever has the
    /// most neighbours in it. On a circle these are its arcs.
    fn grow(&self, from: usize) -> Option<usize> {
        let n = self.corrupt.len();
        let mut piece = vec![false; n];
        let mut next = Some(from);
        while let Some(party) = next {
            piece[party] = true;
            let beside = |party: usize| !piece[party] && !self.corrupt[party];
            let lost: Set = (0..n)
                .map(|party| beside(party) && self.holding(party, &piece) > 0)
                .collect();
            let survivors: Set = lost.iter().map(|lost| !lost).collect();
            let honest = (0..n)
                .filter(|&party| survivors[party] && !self.corrupt[party])
                .count();
            if count(&piece) < honest && self.opens(&piece, &survivors, &lost) {
                return Some(count(&piece));
            }
            let around = (0..n).filter(|&party| lost[party]);
            next = around.max_by_key(|&party| (self.holding(party, &piece), n - party));
        }
        None
    }
}

/// Parties of a roster that are corrupt, at random.
fn some_of(n: usize, count: usize, seed: &[u8; 32]) -> Set {
    let mut ranks: Vec<usize> = (0..n).collect();
    ranks.sort_by_key(|rank| kdf::hash("corrupt", &[seed, &rank.to_be_bytes()]));
    let mut set = vec![false; n];
    ranks
        .into_iter()
        .take(count)
        .for_each(|rank| set[rank] = true);
    set
}

/// What protects a party of a job that its policy takes, in a round of n parties with c corrupt ones.
fn check_round(job: &Job, n: usize, c: usize, seed: u64) {
    let spec = job.spec();
    let parameters = job.parameters_for(n).unwrap();
    let named = |name| parameters.iter().find(|(of, _)| *of == name).unwrap().1;
    let shown = || format!("{n} of {spec:?}");
    match spec.protocol.name() {
        ProtocolName::Fssa | ProtocolName::Pss => {
            let k = named("threshold");
            assert!(
                named("random") >= c,
                "{c} shares say something: {}",
                shown()
            );
            assert!(2 * k > n + c, "two sets can be confirmed: {}", shown());
        }
        ProtocolName::PssMalicious => {
            assert!(
                named("random") >= c,
                "{c} shares say something: {}",
                shown()
            );
            assert!(
                2 * named("quorum") > n + c,
                "two sets can be confirmed: {}",
                shown()
            );
        }
        ProtocolName::SecAgg | ProtocolName::SecAggPlus => {
            let parameters = GraphParameters::find(spec, n).unwrap();
            for draw in 0..2u64 {
                let context = kdf::hash("draw", &[&seed.to_be_bytes(), &draw.to_be_bytes()]);
                let graph = AggregationGraph::draw(parameters, &Context(context));
                check_graph(&graph, some_of(n, c, &context), job.min_parties(), &shown);
            }
        }
        // No graph, and no shares at parties.
        ProtocolName::Mpc3 => assert!(job.min_parties() >= c + 2, "{}", shown()),
        other => panic!("{other} is not for a careless party"),
    }
}

fn check_graph(graph: &AggregationGraph, corrupt: Set, least: usize, shown: &dyn Fn() -> String) {
    let t = graph.parameters().threshold();
    let witnesses = graph.witnesses();
    let lying = witnesses
        .iter()
        .filter(|party| corrupt[party.rank()])
        .count();
    assert!(
        2 * t > witnesses.len() + lying,
        "two survivor sets are confirmed: {}",
        shown()
    );
    let search = Search::new(graph, corrupt, least);
    let honest: Vec<usize> = (0..search.corrupt.len())
        .filter(|&party| !search.corrupt[party])
        .collect();
    for &party in &honest {
        let lying = search.holding(party, &search.corrupt);
        assert!(
            lying < t,
            "corrupt parties rebuild the secrets of party {party}: {}",
            shown()
        );
    }
    for &from in honest.iter().take(2) {
        let opened = search.grow(from);
        assert_eq!(
            opened,
            None,
            "the sum of so many alone is open: {}",
            shown()
        );
    }
}

/// The protocol with these options, as far as it has them.
fn with_options(
    protocol: ProtocolName,
    [neighbours, threshold, packing]: [u32; 3],
) -> ProtocolChoice {
    match protocol {
        ProtocolName::SecAgg => SecAgg { threshold }.into(),
        ProtocolName::SecAggPlus => SecAggPlus {
            neighbours,
            threshold,
        }
        .into(),
        ProtocolName::Fssa => Fssa { threshold, packing }.into(),
        ProtocolName::Pss => Pss { threshold, packing }.into(),
        other => other.into(),
    }
}

fn any_spec() -> impl Strategy<Value = JobSpec> {
    let open = |most: u32| prop_oneof![2 => Just(0u32), 1 => 0..most];
    let fraction = || prop_oneof![Just(0.0), Just(0.1), 0.0..0.05f64, 0.0..0.6f64];
    let names = (
        prop::sample::select(ProtocolName::ALL.to_vec()),
        prop::sample::select(Adversary::ALL.to_vec()),
        prop::sample::select(EncodingName::ALL.to_vec()),
        prop::sample::select(vec![Masking::Cheaper, Masking::Single]),
    );
    // The smallest rosters hold the most corrupt parties.
    let min_parties = prop_oneof![1 => Just(0u32), 2 => 0..30u32, 1 => 0..120u32];
    let numbers = (
        0..120u32,
        min_parties,
        open(60),
        open(120),
        open(12),
        fraction(),
        fraction(),
    );
    (names, numbers, 1..20u64, 0.1..1e6f64).prop_map(|(names, numbers, dim, stage_deadline)| {
        let (protocol, adversary, encoding, masking) = names;
        let (parties, min_parties, neighbours, threshold, packing, corrupt, dropout) = numbers;
        JobSpec {
            protocol: match protocol {
                ProtocolName::Flashe => Flashe {
                    masking,
                    ..Default::default()
                }
                .into(),
                other => with_options(other, [neighbours, threshold, packing]),
            },
            adversary,
            encoding: encoding.into(),
            parties,
            min_parties,
            corrupt,
            dropout,
            dim,
            stage_deadline,
            model_update: match encoding {
                EncodingName::Integers => ModelUpdate::Nothing,
                _ => ModelUpdate::Add,
            },
            ..JobSpec::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// A party with the default policy takes no job, in no round that the job allows, in which the coordinator and a
    /// tenth of the parties learn a sum of fewer than two honest parties, or of some of the survivors alone.
    #[test]
    fn case_46_no_job_that_a_coordinator_finds_isolates_a_party(spec in any_spec(), seed: u64) {
        let policy = Policy::default();
        let Ok(job) = spec.validate() else { return Ok(()) };
        if policy.check_job(&job).is_err() {
            return Ok(());
        }
        let (least, most) = (job.least_roster(), job.spec().parties as usize);
        let c = most.div_ceil(10);
        prop_assert!(job.min_parties() >= c + policy.min_honest);
        let between = least + seed as usize % (most - least + 1);
        for n in BTreeSet::from([least, between, most]) {
            check_round(&job, n, c, seed);
        }
    }
}

/// The search finds what it looks for where there is something: the graph that two colluding parties once used, and
/// an arc between two runs of lost neighbours.
#[test]
fn case_46_the_search_finds_a_weak_graph() {
    let weak = JobSpec {
        protocol: SecAggPlus {
            neighbours: 4,
            threshold: 2,
        }
        .into(),
        adversary: Adversary::SemiHonest,
        parties: 40,
        min_parties: 2,
        corrupt: 0.0,
        dropout: 0.0,
        ..JobSpec::default()
    };
    let parameters = GraphParameters::find(&weak, 40).unwrap();
    let graph = AggregationGraph::draw(parameters, &Context([1; 32]));
    let search = Search::new(&graph, vec![false; 40], 2);
    assert_eq!(search.grow(7), Some(2));
}
