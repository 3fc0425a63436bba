//! A coordinator that searches for a job which isolates a party: over all fields at random, over rosters and graphs,
//! with as many corrupt parties as the party's policy assumes.

use std::collections::BTreeSet;

use blindsum_crypto::kdf::{self, Context};
use blindsum_net::party::Policy;
use blindsum_protocol::{
    Adversary, AggregationGraph, EncodingName, GraphParameters, Job, JobSpec, Masking, ModelUpdate,
    PartyId, ProtocolName,
};
use proptest::prelude::*;

type Set = BTreeSet<PartyId>;

/// What the coordinator can do in one round of `secagg` or `secagg+`: it knows the graph and who is corrupt, and says
/// who was lost.
struct Search<'a> {
    graph: &'a AggregationGraph,
    corrupt: &'a Set,
    everyone: Set,
    /// Fewest survivors.
    least: usize,
}

impl Search<'_> {
    fn threshold(&self) -> usize {
        self.graph.parameters().threshold()
    }

    fn holders(&self, party: PartyId) -> impl Iterator<Item = PartyId> {
        self.graph.neighbours(party).into_iter().chain([party])
    }

    /// Whether `survivors` open the sum of `piece` alone, where everybody beside it that it shares masks with is
    /// said to be lost or corrupt.
    fn opens(&self, piece: &Set, survivors: &Set) -> bool {
        if survivors.len() < self.least {
            return false;
        }
        let answers = |party: &PartyId| {
            let held = self
                .holders(*party)
                .filter(|holder| survivors.contains(holder));
            self.corrupt.contains(party)
                || (survivors.contains(party) && held.count() >= self.threshold())
        };
        let rebuilt =
            |owner: PartyId| self.holders(owner).filter(answers).count() >= self.threshold();
        let around = self.around(piece);
        piece
            .iter()
            .chain(around.difference(self.corrupt))
            .all(|&owner| rebuilt(owner))
    }

    fn around(&self, piece: &Set) -> Set {
        let neighbours = piece.iter().flat_map(|&party| self.graph.neighbours(party));
        neighbours.filter(|party| !piece.contains(party)).collect()
    }

    /// The sum of fewer honest parties than survive, grown from one of them by whom it costs the fewest losses to
    /// add: on a circle these are its arcs.
    fn grow(&self, from: PartyId) -> Option<usize> {
        let mut piece = Set::from([from]);
        loop {
            let around = self.around(&piece);
            let lost: Set = around.difference(self.corrupt).copied().collect();
            let survivors: Set = self.everyone.difference(&lost).copied().collect();
            let honest = survivors.difference(self.corrupt).count();
            if piece.len() < honest && self.opens(&piece, &survivors) {
                return Some(piece.len());
            }
            let next = lost.into_iter().min_by_key(|&party| {
                let mut grown = piece.clone();
                grown.insert(party);
                (self.around(&grown).len(), party)
            })?;
            piece.insert(next);
        }
    }
}

/// Parties of a roster that are corrupt, at random.
fn some_of(n: usize, count: usize, seed: &[u8; 32]) -> Set {
    let key = |party: &u32| kdf::hash("corrupt", &[seed, &party.to_be_bytes()]);
    let mut ranks: Vec<u32> = (0..n as u32).collect();
    ranks.sort_by_key(key);
    ranks.into_iter().take(count).map(PartyId).collect()
}

/// What protects a party of a job that its policy takes, in a round of n parties with c corrupt ones.
fn check_round(job: &Job, n: usize, c: usize, seed: u64) {
    let spec = job.spec();
    let parameters = job.parameters_for(n).unwrap();
    let named = |name| parameters.iter().find(|(of, _)| *of == name).unwrap().1;
    let shown = || format!("{n} of {spec:?}");
    match spec.protocol {
        ProtocolName::Fssa | ProtocolName::Pss => {
            let k = named("threshold");
            assert!(
                named("random") >= c,
                "{c} shares say something: {}",
                shown()
            );
            assert!(2 * k > n + c, "two sets can be confirmed: {}", shown());
        }
        ProtocolName::SecAgg | ProtocolName::SecAggPlus => {
            let complete = spec.protocol == ProtocolName::SecAgg;
            let parameters = GraphParameters::find(spec, n, complete).unwrap();
            for draw in 0..3u64 {
                let context = kdf::hash("draw", &[&seed.to_be_bytes(), &draw.to_be_bytes()]);
                let graph = AggregationGraph::draw(parameters, &Context(context));
                let corrupt = some_of(n, c, &context);
                check_graph(&graph, &corrupt, job.min_parties(), &shown);
            }
        }
        other => panic!("{other} is not for a careless party"),
    }
}

fn check_graph(graph: &AggregationGraph, corrupt: &Set, least: usize, shown: &dyn Fn() -> String) {
    let (n, t) = (
        graph.parameters().parties() as u32,
        graph.parameters().threshold(),
    );
    let everyone: Set = (0..n).map(PartyId).collect();
    let search = Search {
        graph,
        corrupt,
        everyone: everyone.clone(),
        least,
    };
    let witnesses = graph.witnesses();
    let lying = witnesses
        .iter()
        .filter(|party| corrupt.contains(party))
        .count();
    assert!(
        2 * t > witnesses.len() + lying,
        "two survivor sets are confirmed: {}",
        shown()
    );
    for &party in everyone.difference(corrupt) {
        let lying = search
            .holders(party)
            .filter(|holder| corrupt.contains(holder))
            .count();
        assert!(
            lying < t,
            "corrupt parties rebuild the secrets of {party}: {}",
            shown()
        );
    }
    for &from in everyone.difference(corrupt).take(4) {
        let opened = search.grow(from);
        assert_eq!(
            opened,
            None,
            "the sum of so many alone is open: {}",
            shown()
        );
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
    let numbers = (
        0..120u32,
        open(120),
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
            protocol,
            adversary,
            encoding,
            masking,
            parties,
            min_parties,
            neighbours,
            threshold,
            packing,
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
        let (least, most) = (job.min_parties(), job.spec().parties as usize);
        let c = most.div_ceil(10);
        prop_assert!(least >= c + policy.min_honest);
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
        protocol: ProtocolName::SecAggPlus,
        adversary: Adversary::SemiHonest,
        parties: 40,
        min_parties: 2,
        neighbours: 4,
        threshold: 2,
        corrupt: 0.0,
        dropout: 0.0,
        ..JobSpec::default()
    };
    let parameters = GraphParameters::find(&weak, 40, false).unwrap();
    let graph = AggregationGraph::draw(parameters, &Context([1; 32]));
    let search = Search {
        graph: &graph,
        corrupt: &Set::new(),
        everyone: (0..40).map(PartyId).collect(),
        least: 2,
    };
    assert_eq!(search.grow(PartyId(7)), Some(2));
}
