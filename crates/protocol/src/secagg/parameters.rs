//! How many neighbours a party needs, and how many of them may rebuild its secrets.
//!
//! A party's secrets are shared among its `holders`: its κ neighbours and itself, K = κ + 1. With c
//! corrupt parties and d dropouts at random places of the graph, three things must hold for all
//! parties at once:
//!
//! * security: the corrupt holders of no honest party can rebuild a secret. Semi-honest: fewer than t
//!   of them. Active: 2t > K + corrupt holders, so that no two sets of t holders, each told another
//!   story, can share only liars. Fails with probability below 2^-40.
//! * security: the honest survivors stay connected, or the server would learn the sums of the pieces.
//!   In a Harary graph a cut needs two runs of ⌊κ/2⌋ lost neighbours. Below 2^-40.
//! * correctness: t holders of every party survive. Fails with probability below 2^-20.
//!
//! The tails are those of the hypergeometric distribution, added over all parties (Bell20 §4, with
//! exact tails where the paper bounds them). On the complete graph they become certainties.

use crate::{Adversary, JobSpec};

/// Security bounds may fail with probability 2^-40.
const LOG2_SECURITY: f64 = -40.0;
/// The correctness bound may fail with probability 2^-20.
const LOG2_CORRECTNESS: f64 = -20.0;
/// Neighbours that cost next to nothing and let small cohorts lose more parties than they estimate.
const CHEAP_NEIGHBOURS: usize = 16;

/// The graph's degree and the threshold for a roster of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphParameters {
    parties: usize,
    neighbours: usize,
    threshold: usize,
}

/// No parameters fit: which bound fails, with its values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct ParameterError {
    /// The field of the job specification to change.
    pub field: &'static str,
    /// The bound that fails.
    pub rule: String,
}

impl GraphParameters {
    /// Parameters for a roster of `parties` on the complete graph (`secagg`) or the smallest graph
    /// that is safe (`secagg+`); `neighbours` and `threshold` of the job are kept where they are given.
    ///
    /// # Errors
    /// The bound that fails.
    pub fn find(spec: &JobSpec, parties: usize, complete: bool) -> Result<Self, ParameterError> {
        if parties < 2 {
            let rule = format!("parties = {parties} >= 2: the sum of one party is its vector");
            return Err(ParameterError {
                field: "parties",
                rule,
            });
        }
        let bounds = Bounds::new(spec, parties, complete);
        if complete {
            return bounds.check(parties - 1);
        }
        match spec.neighbours as usize {
            0 => bounds.search(),
            chosen => bounds.check(chosen),
        }
    }

    /// Parties in the roster.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// Neighbours of a party, κ.
    pub fn neighbours(&self) -> usize {
        self.neighbours
    }

    /// Shares that rebuild a secret, t.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Holders of a party's shares: its neighbours and itself, K = κ + 1.
    pub fn holders(&self) -> usize {
        self.neighbours + 1
    }
}

/// The three bounds for one roster size.
struct Bounds {
    parties: usize,
    corrupt: usize,
    dropouts: usize,
    active: bool,
    complete: bool,
    threshold: usize,
    tails: Hypergeometric,
}

impl Bounds {
    fn new(spec: &JobSpec, parties: usize, complete: bool) -> Self {
        Self {
            parties,
            corrupt: (spec.corrupt * parties as f64).ceil() as usize,
            dropouts: (spec.dropout * parties as f64).floor() as usize,
            active: spec.adversary == Adversary::Active,
            complete,
            threshold: spec.threshold as usize,
            tails: Hypergeometric::new(parties),
        }
    }

    /// The smallest number of neighbours that meets all bounds.
    fn search(&self) -> Result<GraphParameters, ParameterError> {
        let all = self.parties - 1;
        let mut last = None;
        for neighbours in CHEAP_NEIGHBOURS.min(all)..=all {
            if neighbours < all && neighbours % 2 == 1 && self.parties % 2 == 1 {
                continue;
            }
            match self.check(neighbours) {
                Ok(found) => return Ok(found),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(ParameterError {
            field: "parties",
            rule: "parties >= 2".into(),
        }))
    }

    /// Meets all bounds with this many neighbours, or says which one fails.
    fn check(&self, neighbours: usize) -> Result<GraphParameters, ParameterError> {
        let fails = |field, rule| Err(ParameterError { field, rule });
        if neighbours == 0 || neighbours >= self.parties {
            let rule = format!(
                "1 <= neighbours = {neighbours} <= parties - 1 = {}",
                self.parties - 1
            );
            return fails("neighbours", rule);
        }
        if neighbours % 2 == 1 && self.parties % 2 == 1 {
            let rule = format!(
                "neighbours * parties = {neighbours} * {} must be even",
                self.parties
            );
            return fails("neighbours", rule);
        }
        let cut = self.log2_cut(neighbours);
        if cut >= LOG2_SECURITY {
            let rule = format!(
                "the graph of survivors falls apart with probability 2^{cut:.0}, not below 2^-40: \
                 neighbours = {neighbours} are too few for {} corrupt and {} dropped parties",
                self.corrupt, self.dropouts
            );
            return fails("neighbours", rule);
        }
        let (least, most) = (
            self.least_threshold(neighbours),
            self.most_threshold(neighbours),
        );
        let holders = neighbours + 1;
        let threshold = match self.threshold {
            0 => (if self.active {
                2 * holders / 3
            } else {
                holders / 2
            } + 1)
                .clamp(least, most.max(least)),
            chosen => chosen,
        };
        if threshold < least || threshold > holders {
            let rule = format!(
                "{least} <= threshold = {threshold} <= holders = {holders}: below {least}, {} corrupt \
                 parties of {} break the privacy of some party with probability 2^-40 or more{}",
                self.corrupt,
                self.parties,
                if self.active {
                    " (active: 2*threshold > holders + corrupt)"
                } else {
                    ""
                },
            );
            return fails("threshold", rule);
        }
        if threshold > most {
            let rule = format!(
                "threshold = {threshold} <= {most}: with {} dropouts of {}, fewer than {threshold} of a \
                 party's {holders} holders survive with probability 2^-20 or more",
                self.dropouts, self.parties
            );
            return fails(
                if self.threshold == 0 {
                    "dropout"
                } else {
                    "threshold"
                },
                rule,
            );
        }
        Ok(GraphParameters {
            parties: self.parties,
            neighbours,
            threshold,
        })
    }

    /// log2 of the probability that lost parties cut the graph.
    fn log2_cut(&self, neighbours: usize) -> f64 {
        let lost = (self.corrupt + self.dropouts).min(self.parties);
        let run = 2 * (neighbours / 2);
        if neighbours == self.parties - 1 || run > lost {
            return f64::NEG_INFINITY;
        }
        let pairs = self.parties as f64 * (self.parties - 1) as f64 / 2.0;
        let all_lost = self.tails.log2_choose(self.parties - run, lost - run)
            - self.tails.log2_choose(self.parties, lost);
        pairs.log2() + all_lost
    }

    /// The smallest threshold that is safe.
    fn least_threshold(&self, neighbours: usize) -> usize {
        let holders = neighbours + 1;
        // The most corrupt holders that some honest party has, but for probability 2^-40.
        let honest = self.parties.saturating_sub(self.corrupt).max(1);
        let most_corrupt = (0..=neighbours)
            .find(|&x| {
                let tail = self
                    .tails
                    .log2_tail(self.parties - 1, self.corrupt, neighbours, x + 1);
                (honest as f64).log2() + tail < LOG2_SECURITY
            })
            .unwrap_or(neighbours);
        match (self.active, self.complete) {
            (false, _) => most_corrupt + 1,
            (true, false) => (holders + most_corrupt) / 2 + 1,
            (true, true) => ((holders + most_corrupt) / 2 + 1).max(2 * holders / 3 + 1),
        }
    }

    /// The largest threshold that dropouts leave reachable.
    fn most_threshold(&self, neighbours: usize) -> usize {
        let lost_but_rarely = |dropped: usize| {
            (0..=neighbours)
                .find(|&x| {
                    let tail = self
                        .tails
                        .log2_tail(self.parties - 1, dropped, neighbours, x + 1);
                    (self.parties as f64).log2() + tail < LOG2_CORRECTNESS
                })
                .unwrap_or(neighbours)
        };
        // A survivor holds a share of its own secret; one that dropped does not.
        let survivor = neighbours + 1 - lost_but_rarely(self.dropouts);
        match self.dropouts {
            0 => survivor,
            d => survivor.min(neighbours - lost_but_rarely(d - 1)),
        }
    }
}

/// Tails of hypergeometric distributions over one population.
struct Hypergeometric {
    /// log2 of the factorials 0! ..= n!.
    log2_factorial: Vec<f64>,
}

impl Hypergeometric {
    fn new(population: usize) -> Self {
        let mut sum = 0.0;
        let mut log2_factorial = vec![0.0];
        for i in 1..=population {
            sum += (i as f64).log2();
            log2_factorial.push(sum);
        }
        Self { log2_factorial }
    }

    fn factorial(&self, n: usize) -> f64 {
        self.log2_factorial.get(n).copied().unwrap_or(f64::INFINITY)
    }

    fn log2_choose(&self, n: usize, k: usize) -> f64 {
        if k > n {
            return f64::NEG_INFINITY;
        }
        self.factorial(n) - self.factorial(k) - self.factorial(n - k)
    }

    /// log2 Pr[X >= least] for X marked ones among `draws` out of `population` with `marked`.
    fn log2_tail(&self, population: usize, marked: usize, draws: usize, least: usize) -> f64 {
        let marked = marked.min(population);
        let ways = self.log2_choose(population, draws);
        let sum: f64 = (least..=marked.min(draws))
            .map(|x| {
                let log2 = self.log2_choose(marked, x)
                    + self.log2_choose(population - marked, draws - x)
                    - ways;
                log2.exp2()
            })
            .sum();
        sum.log2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(corrupt: f64, dropout: f64, adversary: Adversary) -> JobSpec {
        JobSpec {
            corrupt,
            dropout,
            adversary,
            ..JobSpec::default()
        }
    }

    #[test]
    fn complete_graph_thresholds_are_those_of_the_paper() {
        for n in 2..200 {
            let found = GraphParameters::find(&spec(0.1, 0.0, Adversary::Active), n, true).unwrap();
            assert!(3 * found.threshold() > 2 * n, "n = {n}");
            assert!(2 * found.threshold() > n + n.div_ceil(10), "n = {n}");
            let found =
                GraphParameters::find(&spec(0.1, 0.0, Adversary::SemiHonest), n, true).unwrap();
            assert!(found.threshold() > n.div_ceil(10), "n = {n}");
        }
    }

    #[test]
    fn tails_are_exact_on_a_small_population() {
        let tails = Hypergeometric::new(10);
        // 3 of 10 marked, 4 drawn: Pr[X >= 2] = (C(3,2)C(7,2) + C(3,3)C(7,1)) / C(10,4) = 70/210.
        let third = tails.log2_tail(10, 3, 4, 2).exp2();
        assert!((third - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(tails.log2_tail(10, 3, 4, 4), f64::NEG_INFINITY);
    }

    #[test]
    fn sparse_graphs_grow_slowly() {
        let degree = |n| {
            let spec = spec(0.05, 0.1, Adversary::SemiHonest);
            GraphParameters::find(&spec, n, false).unwrap().neighbours()
        };
        assert_eq!(degree(10), 9);
        let degrees = [100, 1_000, 10_000, 100_000].map(degree);
        assert!(degrees.is_sorted() && degrees[3] < 100, "{degrees:?}");
    }

    #[test]
    fn the_failing_bound_is_named() {
        let find =
            |spec: JobSpec, n, complete| GraphParameters::find(&spec, n, complete).unwrap_err();
        let base = spec(0.1, 0.1, Adversary::Active);
        assert_eq!(find(base.clone(), 1, true).field, "parties");
        assert_eq!(
            find(
                JobSpec {
                    neighbours: 4,
                    ..base.clone()
                },
                100,
                false
            )
            .field,
            "neighbours"
        );
        assert_eq!(
            find(
                JobSpec {
                    neighbours: 15,
                    ..base.clone()
                },
                101,
                false
            )
            .field,
            "neighbours"
        );
        assert_eq!(
            find(
                JobSpec {
                    threshold: 66,
                    ..base.clone()
                },
                100,
                true
            )
            .field,
            "threshold"
        );
        assert_eq!(
            find(
                JobSpec {
                    threshold: 91,
                    ..base.clone()
                },
                100,
                true
            )
            .field,
            "threshold"
        );
        assert!(
            GraphParameters::find(
                &JobSpec {
                    threshold: 67,
                    ..base.clone()
                },
                100,
                true
            )
            .is_ok()
        );
        assert!(
            GraphParameters::find(
                &JobSpec {
                    threshold: 90,
                    ..base
                },
                100,
                true
            )
            .is_ok()
        );
        assert_eq!(
            find(spec(0.4, 0.4, Adversary::Active), 100, true).field,
            "dropout"
        );
    }
}
