//! What a job may say about the three servers.

use crate::core::options::{at_least, choice, fits, table, within};
use crate::core::protocol::Parameters;
use crate::{EncodingChoice, Job, JobSpec, ModelUpdate, ProtocolChoice, SpecError};

table! {
    /// Three servers of three organisations: any two learn every vector, one alone nothing but the result.
    Mpc3 = "mpc3";
    options {
        /// The rule that the servers apply to the vectors.
        rule: RuleName = RuleName::FedAvg;
        /// `clipped`: the L2 norm that longer vectors are shortened to; 0 is the largest that the encoding allows.
        norm: f64 = 0.0, at_least(0.0);
        /// `krum`, `multi-krum`, `trimmed-mean`: the number of vectors that may be bad; 0 stands for `corrupt` of
        /// `parties`.
        bad: u32 = 0;
        /// `fltrust`: the name of the party whose vector the others are compared with.
        root: String = ROOT.into(), fits("^[a-z0-9.-]{1,64}$", is_name, "the name of a party, as in its certificate");
        /// `fltrust`: whether the sum of all trust is shown.
        trust: TrustName = TrustName::Shown;
        /// `fedavg`, `clipped`: Gaussian noise in the sum of the vectors, as its standard deviation for somebody who
        /// works with one server, in multiples of the longest vector. No guarantee is computed: `privacy` does that.
        noise: f64 = 0.0, within(0.0, 1e6);
        /// The recipients of the result.
        result: ResultName = ResultName::Both;
        /// Rounding of numbers by the servers.
        truncation: TruncationName = TruncationName::Probabilistic;
    }
}

choice! {
    /// The rule that the servers apply to the vectors.
    RuleName {
        /// The mean, with the weights of the encoding (McMahan et al. 2017).
        FedAvg = "fedavg",
        /// The mean, where each party gives a weight: `max_weight` must be above 1.
        Weighted = "weighted",
        /// The mean of the vectors, of which longer ones are shortened to `norm`.
        Clipped = "clipped",
        /// A vector counts the more, the closer its direction is to that of the party `root` (Cao et al. 2021).
        FlTrust = "fltrust",
        /// The vector that is nearest to its nearest others (Blanchard et al. 2017).
        Krum = "krum",
        /// The mean of all but `bad` vectors, those that are nearest to their nearest others.
        MultiKrum = "multi-krum",
        /// The median of each coordinate (Yin et al. 2018).
        Median = "median",
        /// The mean of each coordinate without its `bad` smallest and largest values (Yin et al. 2018).
        TrimmedMean = "trimmed-mean",
        /// Vectors that point where another one points count less (after Fung et al. 2020).
        Cosine = "cosine",
    }
}

choice! {
    /// Whether it is shown how much all vectors are trusted together.
    TrustName {
        /// Recipients of the result learn the sum of all trust.
        Shown = "shown",
        /// The servers divide by it, for 23 more rounds.
        Hidden = "hidden",
    }
}

choice! {
    /// The recipients of the result.
    ResultName {
        /// The three servers and the parties.
        Both = "both",
        /// Only the parties: no server knows the result, nor the next model.
        Parties = "parties",
        /// Only the three servers: parties learn which vectors count, and there is no model.
        Servers = "servers",
    }
}

choice! {
    /// Rounding of numbers by the servers.
    TruncationName {
        /// Up or down, at random.
        Probabilistic = "probabilistic",
        /// Down, for about 7 rounds more each time.
        Exact = "exact",
    }
}

/// The name of the root where a job does not say it.
const ROOT: &str = "root";

fn is_name(text: &str) -> bool {
    blindsum_crypto::certificate::check_name(text).is_ok()
}

impl JobSpec {
    /// What the servers of `mpc3` make of the vectors; none in jobs of other protocols, which add them up.
    pub fn rule(&self) -> Option<RuleName> {
        match &self.protocol {
            ProtocolChoice::Mpc3(options) => Some(options.rule),
            _ => None,
        }
    }

    /// How many of a round's survivors are not in its mean, where the rule leaves out some: bad vectors, or the root.
    pub fn left_out(&self) -> usize {
        match self.rule() {
            Some(RuleName::MultiKrum) => Mpc3::of(self).bad(self),
            Some(RuleName::TrimmedMean) => 2 * Mpc3::of(self).bad(self),
            Some(RuleName::FlTrust) => 1,
            _ => 0,
        }
    }

    /// The name of the party with whose vector the others are compared, in jobs with `rule = fltrust`.
    pub fn root(&self) -> Option<&str> {
        match &self.protocol {
            ProtocolChoice::Mpc3(options) if options.rule == RuleName::FlTrust => {
                Some(&options.root)
            }
            _ => None,
        }
    }
}

impl Mpc3 {
    /// What a job says; the defaults, if it is one of another protocol.
    pub(super) fn of(spec: &JobSpec) -> Self {
        match &spec.protocol {
            ProtocolChoice::Mpc3(options) => options.clone(),
            _ => Self::default(),
        }
    }

    /// Whether servers only add what parties send: no more is computed.
    pub(super) fn is_sum(&self, spec: &JobSpec) -> bool {
        let adds = matches!(self.rule, RuleName::FedAvg | RuleName::Weighted);
        // guard: sums-with-a-claim-have-noise
        adds && self.noise == 0.0 && spec.privacy.noise().is_none()
    }

    /// How many vectors may be bad.
    pub(super) fn bad(&self, spec: &JobSpec) -> usize {
        match self.bad {
            0 => spec.corrupt_parties(),
            bad => bad as usize,
        }
    }
}

impl RuleName {
    /// Whether each result is a mean of all survivors but [a known number](JobSpec::left_out), none of which decides how much
    /// others count. By the other rules a result may be the vector, or a coordinate, of one party.
    pub fn is_mean_of_many(self) -> bool {
        matches!(
            self,
            Self::FedAvg | Self::Weighted | Self::Clipped | Self::MultiKrum | Self::TrimmedMean
        )
    }

    /// Whether `bad` says how many vectors may be bad.
    fn leaves_out_bad(self) -> bool {
        matches!(self, Self::Krum | Self::MultiKrum | Self::TrimmedMean)
    }

    /// Whether coordinates are sorted, each by itself.
    pub(super) fn sorts(self) -> bool {
        matches!(self, Self::Median | Self::TrimmedMean)
    }
}

/// What the rule works with where a job leaves it open.
pub(super) fn chosen(job: &Job) -> Parameters {
    let options = Mpc3::of(job.spec());
    match options.rule.leaves_out_bad() {
        true => vec![("bad", options.bad(job.spec()))],
        false => Vec::new(),
    }
}

/// Options that do not go with each other, or with the encoding.
pub(super) fn check(job: &Job) -> Result<(), SpecError> {
    let (spec, options) = (job.spec(), Mpc3::of(job.spec()));
    let rule = options.rule;
    let given = |is_given: bool, field, rules: &[RuleName], of: &str| {
        if !is_given || rules.contains(&rule) {
            return Ok(());
        }
        let what = format!("is for rule = {of}, and the rule is {rule}");
        Err(SpecError::new(field, what))
    };
    let ranked = [RuleName::Krum, RuleName::MultiKrum, RuleName::TrimmedMean];
    given(options.norm != 0.0, "norm", &[RuleName::Clipped], "clipped")?;
    given(
        options.bad != 0,
        "bad",
        &ranked,
        "krum, multi-krum or trimmed-mean",
    )?;
    given(
        options.root != ROOT,
        "root",
        &[RuleName::FlTrust],
        "fltrust",
    )?;
    let is_hidden = options.trust == TrustName::Hidden;
    given(is_hidden, "trust", &[RuleName::FlTrust], "fltrust")?;
    let noisy = [RuleName::FedAvg, RuleName::Clipped];
    given(options.noise != 0.0, "noise", &noisy, "fedavg or clipped")?;
    if rule == RuleName::Weighted && spec.encoding.max_weight() == 1 {
        let what = "max_weight = 1, but max_weight > 1 must hold with rule = weighted";
        return Err(SpecError::new("max_weight", what));
    }
    if options.result == ResultName::Servers && spec.model_update != ModelUpdate::Nothing {
        let what = format!(
            "must be none with result = servers, is {}: parties that get no result have no model to continue from",
            spec.model_update
        );
        return Err(SpecError::new("model_update", what));
    }
    let is_quantised = matches!(spec.encoding, EncodingChoice::Quantised(_));
    if !options.is_sum(spec) && !is_quantised {
        let what = format!("must be quantised with rule = {rule}, is {}", spec.encoding);
        return Err(SpecError::new("encoding", what));
    }
    Ok(())
}

/// Rounds of too few parties, or jobs of fewer than any round must have.
pub(super) fn check_number(job: &Job, least: usize) -> Result<(), SpecError> {
    let (spec, chosen) = (job.spec(), job.min_parties());
    let (options, parties) = (Mpc3::of(spec), spec.parties as usize);
    let (rule, bad) = (options.rule, options.bad(spec));
    let with = match rule.leaves_out_bad() {
        true => format!("with rule = {rule} and {bad} bad vectors"),
        false => format!("with rule = {rule}"),
    };
    if least > parties {
        let field = if options.bad == 0 { "parties" } else { "bad" };
        let what = format!("{parties} parties are too few {with}: a round needs at least {least}");
        return Err(SpecError::new(field, what));
    }
    if chosen < least {
        let what = format!("min_parties = {chosen} must be at least {least} {with}");
        return Err(SpecError::new("min_parties", what));
    }
    Ok(())
}
