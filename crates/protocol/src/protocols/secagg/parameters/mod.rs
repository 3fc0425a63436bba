//! How many neighbours a party needs, and how many of them may rebuild its secrets.
//!
//! A party's secrets are shared among its `holders`: its κ neighbours and itself, K = κ + 1. With c
//! corrupt parties and d dropouts at random places of the graph, these things must hold for all
//! parties at once. c is that of the job, also where the roster is smaller, since all corrupt parties may be in
//! it; d is what this roster may lose (`spec/tolerance.rs`).
//!
//! * security, of every secret: semi-honest, no honest party has t corrupt holders. Active: 2t > K + corrupt
//!   holders, so that of two sets of t holders, each told another story, some honest holder is in both. The
//!   same for the K witnesses who confirm the survivor set. Fails with probability below 2^-40.
//! * security, of the sum: the honest survivors stay connected, or the server would learn the sums of the
//!   pieces. In a Harary graph a cut needs a run of ⌊κ/2⌋ lost neighbours on either side of the piece.
//!   Semi-honest: lost parties are at random places. Active: the server knows the graph when it says who was
//!   lost, so t > ⌊κ/2⌋ + 1 + corrupt parties in a run (+ 1 if κ is odd): whoever has a whole run of lost
//!   neighbours is left with fewer than t holders that could give away its self mask, whatever the server
//!   tells whom, as long as only one survivor set can be confirmed. Fails with probability below 2^-40.
//! * correctness: t holders of every party, and t witnesses, survive. Fails with probability below 2^-20.
//!
//! The tails are those of the hypergeometric distribution, added over all parties (Bell20 §4, with
//! exact tails where the paper bounds them). On the complete graph they become certainties.

mod announced;

use super::options::Sharing;
use super::tails::{Hypergeometric, Sample};
use crate::core::round_parameters::round_parameters;
use crate::{Adversary, JobSpec, SpecError};

/// Security bounds may fail with probability 2^-40.
const LOG2_SECURITY: f64 = -40.0;
/// The correctness bound may fail with probability 2^-20.
const LOG2_CORRECTNESS: f64 = -20.0;
/// Neighbours that cost next to nothing and let small cohorts lose more parties than they estimate.
/// Against an active adversary fewer are refused, however few parties are said to be corrupt.
// guard: sixteen-neighbours-are-found
const CHEAP_NEIGHBOURS: usize = 16;
/// Where fewer neighbours than this do not suffice, a sparse graph is not looked for.
const MAX_NEIGHBOURS: usize = 2048;

round_parameters! {
    /// What the coordinator chooses for a round.
    Chosen {
        /// Neighbours κ of a party in the graph.
        neighbours,
        /// Shares t that rebuild a secret.
        threshold,
    }
}

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

impl From<ParameterError> for SpecError {
    fn from(error: ParameterError) -> Self {
        Self::new(error.field, error.rule)
    }
}

impl GraphParameters {
    /// Parameters for a roster of `parties` on the complete graph (`secagg`) or the smallest graph
    /// that is safe (`secagg+`); `neighbours` and `threshold` of the job are kept where they are given, but for
    /// one neighbour more where both their number and that of the parties are odd, and everybody in rosters
    /// that have fewer.
    ///
    /// # Errors
    /// The bound that fails.
    pub fn find(spec: &JobSpec, parties: usize) -> Result<Self, ParameterError> {
        let tails = Hypergeometric::new(parties);
        Bounds::new(spec, parties, &tails).find()
    }

    /// Whether every roster that the job allows has parameters.
    ///
    /// # Errors
    /// The bound that fails for the full roster, or the roster that has none.
    pub(crate) fn check_all(spec: &JobSpec) -> Result<(), SpecError> {
        let n = spec.parties as usize;
        let tails = Hypergeometric::new(n);
        let full = Bounds::new(spec, n, &tails).find()?;
        // What served the larger roster mostly serves the next one, and is tried first.
        let mut neighbours = full.neighbours;
        for n in spec.legal_rosters() {
            let bounds = Bounds::new(spec, n, &tails);
            if bounds.has_some(neighbours) {
                continue;
            }
            let found = bounds
                .find()
                // guard: every-roster-has-parameters
                .map_err(|error| spec.infeasible_roster(n, &error.rule))?;
            neighbours = found.neighbours;
        }
        Ok(())
    }

    /// The numbers of a round, which were checked by [`announced`](Self::announced).
    pub(super) fn of_round(parties: usize, numbers: Chosen) -> Self {
        Self {
            parties,
            neighbours: numbers.neighbours as usize,
            threshold: numbers.threshold as usize,
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

fn fails<T>(field: &'static str, rule: String) -> Result<T, ParameterError> {
    Err(ParameterError { field, rule })
}

/// The three bounds for one roster size.
struct Bounds<'a> {
    parties: usize,
    /// Whether that is every party of the job, for which its own numbers must fit as they are.
    full: bool,
    corrupt: usize,
    dropouts: usize,
    active: bool,
    complete: bool,
    /// Those that the job asks for; 0 where it leaves them open.
    neighbours: usize,
    threshold: usize,
    /// log2 of the probability with which the security bounds may fail.
    log2_security: f64,
    tails: &'a Hypergeometric,
}

impl<'a> Bounds<'a> {
    /// The tails must be of at least so many parties.
    fn new(spec: &JobSpec, parties: usize, tails: &'a Hypergeometric) -> Self {
        let asked = Sharing::of(spec);
        Self {
            parties,
            full: parties == spec.parties as usize,
            // guard: corrupt-parties-in-small-rosters, corrupt-parties-of-the-whole-job
            corrupt: spec.corrupt_parties(),
            dropouts: spec.losses_among(parties),
            active: spec.adversary == Adversary::Active,
            complete: asked.complete,
            neighbours: asked.neighbours,
            threshold: asked.threshold,
            log2_security: LOG2_SECURITY,
            tails,
        }
    }

    fn find(&self) -> Result<GraphParameters, ParameterError> {
        if self.parties < 2 {
            let rule = format!(
                "must be at least 2 (is {}): the sum of one party is its vector",
                self.parties
            );
            return fails("parties", rule);
        }
        if self.full && self.neighbours >= self.parties {
            let (chosen, most) = (self.neighbours, self.parties - 1);
            return fails(
                "neighbours",
                format!(
                    "neighbours is {chosen} and must be at most parties - 1 = {most}; lower it or have more parties"
                ),
            );
        }
        if self.full && self.neighbours % 2 == 1 && self.parties % 2 == 1 {
            let (chosen, n) = (self.neighbours, self.parties);
            return fails(
                "neighbours",
                format!("neighbours * parties = {chosen} * {n} must be even"),
            );
        }
        match (self.complete, self.neighbours) {
            (true, _) => self.check(self.parties - 1),
            (false, 0) => self.search(),
            (false, chosen) => self.check(self.drawable(chosen)),
        }
    }

    /// Whether the roster has parameters, by what is tried first: so many neighbours, or everybody.
    fn has_some(&self, neighbours: usize) -> bool {
        let all = self.parties - 1;
        match (self.complete, self.neighbours) {
            (true, _) => self.suffices(all),
            (false, 0) => self.suffices(self.drawable(neighbours)) || self.suffices(all),
            (false, chosen) => self.check(self.drawable(chosen)).is_ok(),
        }
    }

    /// The degree of the Harary graph that stands for this one: an odd one needs an even number of parties, and
    /// nobody has more neighbours than there are other parties.
    fn drawable(&self, neighbours: usize) -> usize {
        let even = neighbours + (neighbours % 2) * (self.parties % 2);
        even.min(self.parties - 1)
    }

    /// The smallest number of neighbours that meets all bounds; the complete graph where no other does.
    ///
    /// Tried one after the other: an odd number costs a share more than the even one below it, and both sides of
    /// the bounds grow in steps, so that a number may suffice where the next one does not.
    fn search(&self) -> Result<GraphParameters, ParameterError> {
        let all = self.parties - 1;
        // Harary graphs of odd degree have an even number of parties.
        let step = 1 + self.parties % 2;
        let sparse = || (CHEAP_NEIGHBOURS..all.min(MAX_NEIGHBOURS)).step_by(step);
        let safe = sparse()
            // guard: the-complete-graph-where-no-other-is-safe
            .chain([all])
            .find(|&neighbours| self.suffices(neighbours));
        // A threshold that no graph makes safe is refused with the bounds of the first one that reaches it.
        let reached = || {
            let threshold = Some(self.threshold).filter(|chosen| *chosen != 0)?;
            sparse().find(|&neighbours| {
                let whole = self.log2_cut(neighbours) < self.log2_security;
                whole && threshold <= self.most_threshold(neighbours)
            })
        };
        self.check(safe.or_else(reached).unwrap_or(all))
    }

    /// Whether so many neighbours let some threshold, or the given one, meet all bounds.
    fn suffices(&self, neighbours: usize) -> bool {
        let (holders, chosen) = (neighbours + 1, self.threshold);
        // The bounds are dear to compute: those that cannot hold are not.
        if chosen > holders || (self.active && chosen != 0 && 2 * chosen <= holders) {
            return false;
        }
        let least = self.least_threshold(neighbours);
        let threshold = match chosen {
            0 => least,
            chosen => chosen,
        };
        self.log2_cut(neighbours) < self.log2_security
            && (least..=self.most_threshold(neighbours)).contains(&threshold)
    }

    /// Neighbours enough that no sum of a piece of the graph is learnt.
    fn check_graph(&self, neighbours: usize) -> Result<(), ParameterError> {
        let floor = CHEAP_NEIGHBOURS.min(self.parties - 1);
        // guard: neighbours-at-least-sixteen
        if self.active && neighbours < floor {
            let rule = format!(
                "neighbours is {neighbours} and must be at least {floor} where adversary = active; raise it, or leave it out and \
                 it is chosen"
            );
            return fails("neighbours", rule);
        }
        let cut = self.log2_cut(neighbours);
        if cut >= self.log2_security {
            let rule = format!(
                "the graph of survivors falls apart with probability 2^{cut:.0}, not below 2^-40: \
                 neighbours = {neighbours} are too few for {} corrupt and {} dropped parties",
                self.corrupt, self.dropouts
            );
            return fails("neighbours", rule);
        }
        Ok(())
    }

    /// A threshold that no corrupt holders reach, nor two stories: at least the least one.
    fn check_threshold(
        &self,
        holders: usize,
        least: usize,
        threshold: usize,
    ) -> Result<(), ParameterError> {
        // guard: thresholds-that-are-safe
        if (least..=holders).contains(&threshold) {
            return Ok(());
        }
        let rule = format!(
            "threshold is {threshold} and must be from {least} to {holders}, the parties that hold a share; below {least}, {} \
             corrupt parties of {} break the privacy of some party with probability 2^-40 or more",
            self.corrupt, self.parties,
        );
        fails("threshold", rule)
    }

    /// Meets all bounds with this many neighbours, or says which one fails.
    fn check(&self, neighbours: usize) -> Result<GraphParameters, ParameterError> {
        self.check_graph(neighbours)?;
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
        self.check_threshold(holders, least, threshold)?;
        // guard: thresholds-that-dropouts-reach
        if threshold > most {
            let rule = format!(
                "threshold is {threshold} and must be at most {most}: with {} dropouts of {} parties, fewer than \
                 {threshold} of the {holders} that hold a share survive with probability 2^-20 or more",
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
        let (corrupt, holders) = (self.corrupt, neighbours + 1);
        // The most corrupt holders that some honest party has, but for probability 2^-40.
        let honest = self.parties.saturating_sub(corrupt);
        let around_one = self.around_one(neighbours, corrupt);
        let most_corrupt = self.tails.most(around_one, honest, self.log2_security);
        if !self.active {
            return most_corrupt + 1;
        }
        if neighbours == self.parties - 1 {
            // guard: threshold-beyond-half-of-the-holders
            let quorum = (holders + most_corrupt) / 2 + 1;
            return if self.complete {
                quorum.max(2 * holders / 3 + 1)
            } else {
                quorum
            };
        }
        let among_witnesses =
            self.tails
                .most(self.witnesses(neighbours, corrupt), 1, self.log2_security);
        let quorum = (holders + most_corrupt.max(among_witnesses)) / 2 + 1;
        // Both runs of every honest party, to its left and to its right.
        let run = self.around_one(neighbours / 2, corrupt);
        let in_a_run = self.tails.most(run, 2 * honest, self.log2_security);
        // guard: threshold-beyond-a-run, thresholds-beyond-a-run
        quorum.max(neighbours / 2 + neighbours % 2 + 2 + in_a_run)
    }

    /// The largest threshold that dropouts leave reachable.
    fn most_threshold(&self, neighbours: usize) -> usize {
        let (lost, holders) = (self.dropouts, neighbours + 1);
        let most_lost = |lost| {
            let around_one = self.around_one(neighbours, lost);
            self.tails.most(around_one, self.parties, LOG2_CORRECTNESS)
        };
        // A survivor holds a share of its own secret; one that dropped does not.
        let mut most = holders - most_lost(lost);
        if lost > 0 {
            most = most.min(neighbours - most_lost(lost - 1));
        }
        if self.active {
            let witnesses = self.witnesses(neighbours, lost);
            most = most.min(holders - self.tails.most(witnesses, 1, LOG2_CORRECTNESS));
        }
        most
    }

    /// Some parties around a given one, of the others of which some are marked.
    fn around_one(&self, draws: usize, marked: usize) -> Sample {
        Sample {
            population: self.parties - 1,
            marked,
            draws,
        }
    }

    /// The witnesses of the survivor set, of which some are marked.
    fn witnesses(&self, neighbours: usize, marked: usize) -> Sample {
        Sample {
            population: self.parties,
            marked,
            draws: neighbours + 1,
        }
    }
}

#[cfg(test)]
mod tests;
