//! Agreement with the slow models in `vectors/model`, through the public interface only: hashes of
//! jobs, graphs and their parameters, and whole rounds byte by byte.

mod key_service;
mod keyed;
mod numbers;
mod options;
mod proved;
mod refused;
#[path = "../../../../vectors/support.rs"]
mod support;
mod three_refused;
mod three_results;
mod three_rules;
mod three_servers;
mod three_talk;
mod transcript;

use blindsum_crypto::kdf::Context;
use blindsum_protocol::{
    Adversary, AggregationGraph, GraphParameters, JobSpec, PartyId, ProtocolName, Round, SecAgg,
    SecAggPlus,
};
use keyed::KeyedJob;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde::Deserialize;
use serde_json::Value;
use support::{Hex, Tape, load};
use transcript::Transcript;

#[test]
fn jobs_have_the_same_hash() {
    #[derive(Deserialize)]
    struct Vector {
        spec: JobSpec,
        hash: Hex,
    }
    for Vector { spec, hash } in load(include_str!("../../../../vectors/round.json"), "jobs") {
        let shown = format!("{spec:?}");
        assert_eq!(*spec.validate().unwrap().hash(), hash.array(), "{shown}");
    }
}

const GRAPHS: &str = include_str!("../../../../vectors/graph.json");

#[test]
fn parameters_are_those_of_exact_probabilities() {
    /// Neighbours and threshold, or the field of the job to change.
    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(untagged)]
    enum Verdict {
        Found(usize, usize),
        Refused(String),
    }
    type Row = (usize, u32, u32, String, String, f64, f64, u32, u32, Verdict);
    for row in load::<Row>(GRAPHS, "parameters") {
        let shown = format!("{row:?}");
        let (n, parties, min_parties, protocol, adversary, corrupt, dropout, ..) = row;
        let (.., neighbours, threshold, expected) = row;
        let spec = JobSpec {
            parties,
            min_parties,
            protocol: match protocol.as_str() {
                "secagg" => SecAgg { threshold }.into(),
                _ => SecAggPlus {
                    neighbours,
                    threshold,
                }
                .into(),
            },
            adversary: named(adversary),
            corrupt,
            dropout,
            ..JobSpec::default()
        };
        let verdict = match GraphParameters::find(&spec, n) {
            Ok(found) => Verdict::Found(found.neighbours(), found.threshold()),
            Err(error) => Verdict::Refused(error.field.into()),
        };
        assert_eq!(verdict, expected, "{shown}");
    }
}

#[test]
fn fractions_mean_the_same_parties() {
    /// n, adversary, the fractions, the parties they mean, and what follows from them.
    type Row = (
        usize,
        String,
        f64,
        f64,
        usize,
        usize,
        u32,
        u32,
        usize,
        Value,
    );
    let file = include_str!("../../../../vectors/ramp.json");
    for (n, _, corrupt, dropout, c, d, ..) in load::<Row>(file, "parameters") {
        let spec = JobSpec {
            adversary: Adversary::SemiHonest,
            parties: n as u32,
            corrupt,
            dropout,
            ..JobSpec::default()
        };
        let among = (spec.corrupt_parties(), spec.dropouts_among(n));
        // Whatever the fraction, a job reckons with one corrupt party.
        assert_eq!(among, (c.max(1), d), "{corrupt} and {dropout} of {n}");
    }
}

/// Corrupt parties, fewest survivors and tolerated losses are those of the slow model, for full and for smaller
/// rosters.
#[test]
fn tolerances_mean_the_same() {
    type Row = (usize, u32, u32, String, String, f64, f64, [usize; 3]);
    for row in load::<Row>(GRAPHS, "tolerances") {
        let shown = format!("{row:?}");
        let (n, parties, min_parties, protocol, adversary, corrupt, dropout, expected) = row;
        let spec = JobSpec {
            parties,
            min_parties,
            protocol: named::<ProtocolName>(protocol).into(),
            adversary: named(adversary),
            corrupt,
            dropout,
            ..JobSpec::default()
        };
        let found = [
            spec.corrupt_parties(),
            spec.least_survivors(),
            spec.losses_among(n),
        ];
        assert_eq!(found, expected, "{shown}");
    }
}

/// A name as job specifications spell it.
fn named<T: serde::de::DeserializeOwned>(name: String) -> T {
    serde_json::from_value(Value::String(name)).unwrap()
}

#[test]
fn graphs_are_drawn_alike() {
    #[derive(Deserialize)]
    struct Vector {
        parties: u32,
        neighbours: u32,
        context: Hex,
        lists: Vec<Vec<u32>>,
        witnesses: Vec<u32>,
    }
    for vector in load::<Vector>(GRAPHS, "graphs") {
        // Small degrees are for semi-honest adversaries.
        let spec = JobSpec {
            adversary: Adversary::SemiHonest,
            parties: vector.parties,
            protocol: SecAggPlus {
                neighbours: vector.neighbours,
                ..Default::default()
            }
            .into(),
            corrupt: 0.0,
            dropout: 0.0,
            ..JobSpec::default()
        };
        let parameters = GraphParameters::find(&spec, vector.parties as usize).unwrap();
        let graph = AggregationGraph::draw(parameters, &Context(vector.context.array()));
        assert_eq!(neighbours(&graph, vector.parties), vector.lists);
        assert_eq!(ranks(&graph.witnesses()), vector.witnesses);
    }
}

fn neighbours(graph: &AggregationGraph, parties: u32) -> Vec<Vec<u32>> {
    let of = |party| ranks(&graph.neighbours(PartyId(party)));
    (0..parties).map(of).collect()
}

fn ranks(parties: &[PartyId]) -> Vec<u32> {
    parties.iter().map(|party| party.0).collect()
}

const SECAGG: &str = include_str!("../../../../vectors/secagg.json");
const RAMP: &str = include_str!("../../../../vectors/ramp_rounds.json");
const PLAIN: &str = include_str!("../../../../vectors/plain.json");
const FLASHE: &str = include_str!("../../../../vectors/flashe_rounds.json");
const MPC3: &str = include_str!("../../../../vectors/mpc3.json");
const PAILLIER: &str = include_str!("../../../../vectors/paillier_rounds.json");
const PROVED: &str = include_str!("../../../../vectors/pss_malicious.json");
const SPARSE: &str = include_str!("../../../../vectors/flashe_sparse_rounds.json");

/// What follows from a round's context and parameters in secagg and secagg+.
#[derive(Deserialize)]
struct Graph {
    neighbours: Vec<Vec<u32>>,
    witnesses: Vec<u32>,
    threshold: usize,
}

impl Graph {
    fn check(&self, round: &Round) {
        let spec = round.job().spec();
        let parameters = GraphParameters::find(spec, round.parties()).unwrap();
        assert_eq!(parameters.threshold(), self.threshold);
        let graph = AggregationGraph::draw(parameters, round.context());
        assert_eq!(neighbours(&graph, round.parties() as u32), self.neighbours);
        assert_eq!(ranks(&graph.witnesses()), self.witnesses);
    }
}

#[test]
fn rounds_of_secagg_are_the_same_byte_by_byte() {
    let graphs = load::<Graph>(SECAGG, "rounds");
    for (transcript, graph) in load::<Transcript>(SECAGG, "rounds").iter().zip(graphs) {
        graph.check(&transcript.round());
        // Its server draws nothing.
        transcript.play(&mut Tape::new(&[]));
    }
}

#[test]
fn rounds_of_plain_are_the_same_byte_by_byte() {
    for transcript in load::<Transcript>(PLAIN, "rounds") {
        transcript.play(&mut Tape::new(&[]));
    }
}

#[test]
fn rounds_of_ramp_sharing_are_the_same_byte_by_byte() {
    for transcript in load::<Transcript>(RAMP, "rounds") {
        // What its server draws shows nowhere.
        transcript.play(&mut ChaCha20Rng::seed_from_u64(1));
    }
}

#[test]
fn jobs_of_flashe_are_the_same_byte_by_byte() {
    for file in [FLASHE, SPARSE] {
        load::<KeyedJob>(file, "jobs")
            .iter()
            .for_each(KeyedJob::play);
    }
}

#[test]
fn rounds_of_three_servers_are_the_same_byte_by_byte() {
    for three in three_servers::rounds(MPC3) {
        three.play();
    }
}

#[test]
fn rounds_of_servers_that_compute_are_those_of_the_model() {
    for round in three_rules::rounds(MPC3) {
        round.play();
    }
}

#[test]
fn results_for_parties_and_for_servers_are_those_of_the_model() {
    for round in three_results::rounds(MPC3) {
        round.play();
    }
}

/// Abuse case 38: results of which some part is not what servers vouch for, hashes that do not fit, cut and longer messages.
#[test]
fn case_38_changed_results_for_parties_and_for_servers() {
    assert!(three_results::check_refused(MPC3) > 300);
}

/// Abuse case 38: norms that no root has, keys of low order, divisors by which nothing can be divided.
#[test]
fn case_38_changed_messages_of_servers_that_compute() {
    assert!(three_rules::check_refused(MPC3) > 70);
}

/// Abuse case 38, and 27: uploads that do not fit their hashes or their signature, letters and words that another
/// server did not say, sums for which nobody vouches.
#[test]
fn case_38_changed_messages_of_three_servers() {
    assert!(three_refused::check(MPC3) > 300);
}

/// Abuse case 27, and 7, 8 and 34: fresh keys, sealed keys, bytes that are no message, sums of something else.
#[test]
fn case_27_changed_messages_of_flashe() {
    assert!(refused(FLASHE) > 100);
}

/// Abuse case 27, and 28 and 34: places that are no set or not those that were sent, words of another round,
/// other sums.
#[test]
fn case_27_changed_messages_of_sparse_flashe() {
    assert!(refused(SPARSE) > 500);
}

#[test]
fn rounds_of_paillier_are_the_same_byte_by_byte() {
    for round in key_service::rounds(PAILLIER) {
        round.play();
    }
}

/// Abuse case 37, and 36: keys and sums that are sealed for something else, sums of others than they say, numbers that are
/// no ciphertexts, keys that nobody may encrypt for.
#[test]
fn case_37_changed_messages_of_paillier() {
    assert!(key_service::check_refused(PAILLIER) > 200);
}

#[test]
fn proofs_are_the_same_byte_by_byte() {
    proved::check_largest_norms(PROVED);
    proved::check_largest_projections(PROVED);
    proved::check_proofs(PROVED);
}

#[test]
fn provers_are_judged_alike() {
    proved::check_verdicts(PROVED);
}

#[test]
fn rounds_with_proofs_are_the_same_byte_by_byte() {
    for round in proved::rounds(PROVED) {
        round.play();
    }
}

/// Other nonces, paths, columns and answers than were committed to or signed, accusations without a reason, sets that
/// nobody honest sums.
#[test]
fn changed_messages_of_rounds_with_proofs_are_refused() {
    let (checked, taken) = proved::check_refused(PROVED);
    assert!(taken.is_empty(), "{taken:#?}");
    assert!(checked > 200);
}

/// Checks that everything that a file lists is refused; gives how much that is.
fn refused(file: &str) -> usize {
    let jobs = load::<KeyedJob>(file, "jobs");
    jobs.iter().map(KeyedJob::refuse).sum()
}

#[test]
fn changed_messages_are_refused() {
    refused::check(PLAIN);
    refused::check(SECAGG);
    refused::check(RAMP);
}
